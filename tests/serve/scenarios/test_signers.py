"""`fleet serve --signers`: a tip that nobody of them signed changes nothing, and the last good one is looked after."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fleet.testing.git import git
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map


def test_a_tip_that_is_not_signed_is_refused_and_the_last_good_commit_goes_on(served: Served, tmp_path: Path) -> None:
    repository = served.repository
    eu, us = repository.clusters
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "ada")], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.com {(tmp_path / 'ada.pub').read_text()}")
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(tmp_path / "ada")), ("commit.gpgsign", "true")):
        git(repository.root, "config", name, value)
    repository.wants(config_map("settings", {"a": "1"}))
    good = served.push()
    served.environment["FLEET_SIGNERS"] = str(signers)
    served.start()
    served.until("it is told", lambda: all(served.record(one.name).get("revision") == good for one in (eu, us)))

    git(repository.root, "config", "commit.gpgsign", "false")
    repository.wants(config_map("settings", {"a": "2"}))
    bad = served.push()
    served.until("it is told", lambda: served.record(eu.name).get("wanted") == bad)
    said = served.record(eu.name)
    assert (said["sync"], said["revision"], said["health"]) == ("Failed", good, "Healthy")
    assert "is not signed" in said["message"]
    assert served.metric("fleet_repository_broken") == 1
    assert any("is not signed" in line["message"] for line in served.log())
    us.kubectl("-n", repository.namespace, "delete", "configmap", "settings")
    served.until("the last good commit is looked after", lambda: served.data(us, "settings") == {"a": "1"})
    assert served.data(eu, "settings") == {"a": "1"}

    git(repository.root, "config", "commit.gpgsign", "true")
    repository.write("README.md", "looked at, and signed for")
    better = served.push()
    served.until(
        "all of it is applied", lambda: served.data(eu, "settings") == served.data(us, "settings") == {"a": "2"}
    )
    served.until("it is told", lambda: served.record(us.name).get("revision") == better)
    assert served.metric("fleet_repository_broken") == 0
