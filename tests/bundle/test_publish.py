"""`fleet render --push` on real git, by a centre that has no kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.agent import BundleReader
from fleet.bundle.publish import read_agent_states
from fleet.cli import run
from fleet.errors import FleetError
from fleet.git.status_records import StatusRecord
from fleet.serve.commits import FollowedRepository
from fleet.sync.source import read_commit
from fleet.testing import GitRemote
from fleet.testing.git import git

CLUSTERS = """
import fleet

fleet.Cluster("edge-1", labels={"env": "prod"}, pull=True)
fleet.Cluster("edge-2", pull=True)
fleet.Cluster("centre")
"""
STACK = """
import fleet
from fleet import Options

@fleet.stack(clusters={clusters!r}, name={name!r}{more})
def stack(cluster: fleet.Cluster) -> None:
{body}
"""


def config_map(name: str, value: str = "1", kind: str = "ConfigMap", field: str = "data") -> str:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: {"a": value}}
    return f"    fleet.Manifest({manifest!r})"


class Centre:
    def __init__(self, root: Path, remote: GitRemote, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.remote, self.capsys = root, remote, capsys
        remote.clone(root)
        self.write("fleet.toml", '[fleet]\nname = "shop"\n')
        self.write("clusters/all.py", CLUSTERS)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def stack(self, name: str, *lines: str, clusters: tuple[str, ...] = ("edge-1", "edge-2"), more: str = "") -> None:
        text = STACK.format(clusters=list(clusters), name=name, more=more, body="\n".join(lines or ("    pass",)))
        self.write(f"stacks/{name.replace('-', '_')}.py", text)

    def commit(self, message: str = "change") -> str:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def fleet(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = run(list(arguments))
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def push(self, *arguments: str) -> tuple[int, str, str]:
        return self.fleet("render", "--push", *arguments)

    def index(self, cluster: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.remote.git("show", f"fleet/rendered/{cluster}:fleet.json"))
        return found

    def file(self, cluster: str, stack: str) -> str:
        return self.remote.git("rev-parse", f"fleet/rendered/{cluster}:stacks/{stack}.json").strip()

    def tip(self, cluster: str) -> str:
        return self.remote.git("rev-parse", f"fleet/rendered/{cluster}").strip()


@pytest.fixture
def centre(
    git_remote: GitRemote, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Centre:
    made = Centre(tmp_path / "repository", git_remote, capsys)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


def test_every_cluster_that_pulls_gets_a_branch_and_only_what_changed_is_written(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    centre.stack("notes", config_map("y"), clusters=("edge-1", "centre"))
    first = centre.commit()
    code, out, err = centre.push()
    assert code == 0, err
    assert "edge-1: pushed as " in out
    assert "create ConfigMap orders/x" in out.replace("+ ", "create ") or "orders/x" in out
    index = centre.index("edge-1")
    assert (index["schema"], index["fleet"], index["cluster"]) == ("fleet.dev/rendered/v1", "shop", "edge-1")
    assert (index["revision"], index["labels"]) == (first, {"env": "prod"})
    assert [one["stack"] for one in index["stacks"]] == ["notes", "orders"]
    assert [one["stack"] for one in centre.index("edge-2")["stacks"]] == ["orders"]
    branches = centre.remote.git("for-each-ref", "--format=%(refname)", "refs/heads/fleet")
    assert branches.split() == ["refs/heads/fleet/rendered/edge-1", "refs/heads/fleet/rendered/edge-2"]

    tip, blob = centre.tip("edge-1"), centre.file("edge-1", "orders")
    assert centre.push()[1].count("nothing new") == 2
    assert centre.tip("edge-1") == tip, "an unchanged set makes no commit"
    centre.stack("notes", config_map("y", "2"), clusters=("edge-1", "centre"))
    second = centre.commit("other notes")
    assert centre.push("-o", "json")[0] == 0
    assert centre.file("edge-1", "orders") == blob
    assert centre.remote.git("rev-parse", "fleet/rendered/edge-1^").strip() == tip, "each on the one before"
    parts = {one["stack"]: one["revision"] for one in centre.index("edge-1")["stacks"]}
    assert parts == {"notes": second, "orders": first}
    assert centre.index("edge-2")["revision"] == second
    assert f"Source: {second}" in centre.remote.git("log", "-1", "--format=%B", "fleet/rendered/edge-2")


def test_one_cluster_can_be_rendered_alone_and_one_that_is_reached_from_here_not_at_all(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    centre.commit()
    assert centre.push("--cluster", "edge-2")[0] == 0
    with pytest.raises(AssertionError):
        centre.tip("edge-1")
    code, _, err = centre.push("--cluster", "centre")
    assert (code, "nothing is rendered for it" in err, "clusters/all.py:6" in err) == (2, True, True)
    assert centre.push("--stack", "orders")[0] == 2
    assert centre.fleet("render", "--with-secrets")[0] == 2, "that is for --push"
    centre.write("clusters/all.py", 'import fleet\nfleet.Cluster("edge-1")\nfleet.Cluster("edge-2")\n')
    centre.commit()
    assert "no cluster of this repository pulls" in centre.push()[2]


def test_values_of_secrets_are_not_pushed_unless_a_person_says_so(centre: Centre) -> None:
    centre.stack("orders", config_map("x"), config_map("hidden", "c2VjcmV0", "Secret"))
    centre.commit()
    code, _, err = centre.push()
    assert code == 5
    assert "stacks/orders.py:8: data.a: stack orders: Secret orders/hidden has secret values" in err
    assert "SecretRef" in err
    assert centre.remote.git("for-each-ref") == ""
    assert centre.push("--with-secrets")[0] == 0


def test_a_commit_that_cannot_be_evaluated_pushes_nothing(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    centre.stack("broken", "    raise ValueError('no')", clusters=("centre",))
    centre.commit()
    assert centre.push()[0] == 2
    assert centre.remote.git("for-each-ref") == ""


def test_what_takes_away_too_much_is_refused_and_the_word_for_it_goes_along(centre: Centre) -> None:
    centre.stack("orders", *(config_map(f"x{number}") for number in range(5)))
    centre.stack("notes", config_map("y"))
    centre.commit()
    assert centre.push()[0] == 0
    tip = centre.tip("edge-1")
    centre.stack("orders", *(config_map(f"x{number}") for number in range(2)))
    centre.commit("most are gone")
    code, out, err = centre.push()
    assert (code, centre.tip("edge-1")) == (5, tip)
    assert "takes away 3 of the 5 objects of orders" in err
    assert "edge-1: not pushed" in out
    assert centre.push("--allow-deletes", "3")[0] == 0
    assert centre.index("edge-1")["budget"] == {"deletions": 3, "share": 1.0}
    assert "nothing new" in centre.push()[1], "it goes with the commit"
    centre.write("README.md", "words")
    centre.commit()
    assert centre.push()[0] == 0
    assert centre.index("edge-1")["budget"] == {"deletions": 10, "share": 0.1}, "once"

    tip = centre.tip("edge-1")
    (centre.root / "stacks" / "orders.py").unlink()
    (centre.root / "stacks" / "notes.py").unlink()
    centre.write("stacks/.keep", "")
    centre.commit("no stacks")
    code, _, err = centre.push()
    assert (code, centre.tip("edge-1")) == (5, tip)
    assert "no stack is left in git" in err


def test_a_history_that_was_rewritten_is_refused_unless_told(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    first = centre.commit()
    centre.stack("orders", config_map("x", "2"))
    centre.commit()
    assert centre.push()[0] == 0
    git(centre.root, "reset", "--quiet", "--hard", first)
    centre.stack("orders", config_map("x", "3"))
    centre.commit("another past")
    code, _, err = centre.push()
    assert (code, "the history was rewritten" in err) == (5, True)
    tip = centre.tip("edge-1")
    assert centre.push("--allow-rewritten")[0] == 0
    assert centre.remote.git("rev-parse", "fleet/rendered/edge-1^").strip() == tip, "the branch itself goes on"


def test_an_earlier_commit_that_is_named_is_no_rewritten_history(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    first = centre.commit()
    centre.stack("orders", config_map("x", "2"))
    centre.commit()
    assert centre.push()[0] == 0
    assert centre.push("--revision", first)[0] == 0
    assert centre.index("edge-1")["revision"] == first


def test_a_branch_that_is_no_rendered_set_is_left_as_it_is(centre: Centre) -> None:
    centre.stack("orders", config_map("x"))
    centre.commit()
    git(centre.root, "push", "--quiet", "origin", "HEAD:refs/heads/fleet/rendered/edge-1")
    code, _, err = centre.push()
    assert (code, "fleet/rendered/edge-1 has no fleet.json" in err) == (2, True)


def test_waves_wait_for_what_agents_report(centre: Centre) -> None:
    centre.stack("orders", config_map("x"), more=", rollout=fleet.Rollout(waves=['edge-1', 'edge-2'])")
    centre.commit()
    code, out, _ = centre.push()
    assert code == 0
    assert "edge-2: pushed as" in out
    assert "orders waits: wave 1 is not done: edge-1 was not looked at yet" in out
    assert (centre.index("edge-2")["stacks"], list(centre.index("edge-2")["waiting"])) == ([], ["orders"])


@pytest.mark.parametrize(
    ("settings", "flags"),
    [("[approval]\nrequired = true\n", ()), ("", ("--require-approved",))],
    ids=["settings", "flag"],
)
def test_where_approvals_are_asked_for_only_what_a_preview_recorded_is_pushed(
    centre: Centre, settings: str, flags: tuple[str, ...]
) -> None:
    centre.write("fleet.toml", f'[fleet]\nname = "shop"\n{settings}')
    centre.write("stacks/.keep", "")
    base = centre.commit()
    git(centre.root, "push", "--quiet", "origin", "HEAD:main")
    centre.stack("orders", config_map("x"))
    centre.commit()
    git(centre.root, "push", "--quiet", "origin", "HEAD:main")
    code, _, err = centre.push(*flags)
    assert (code, "is not what was approved" in err) == (5, True), err
    assert centre.fleet("preview", "--base", base, "--record")[0] == 0
    assert centre.push(*flags)[0] == 0
    centre.stack("orders", config_map("x", "2"))
    centre.commit("not approved")
    git(centre.root, "push", "--quiet", "origin", "HEAD:main")
    tip = centre.tip("edge-1")
    assert (centre.push(*flags)[0], centre.tip("edge-1")) == (5, tip)


def test_it_can_go_to_another_repository(centre: Centre, tmp_path: Path) -> None:
    other = GitRemote.make(tmp_path / "delivery.git")
    centre.stack("orders", config_map("x"))
    centre.commit()
    assert centre.push("--remote", other.url)[0] == 0
    assert other.git("rev-parse", "fleet/rendered/edge-1")
    assert centre.remote.git("for-each-ref") == ""


def test_an_agent_reads_its_branch_whatever_was_pushed_there_and_says_which_file_is_wrong(
    centre: Centre, tmp_path: Path
) -> None:
    centre.stack("orders", config_map("x"))
    centre.commit()
    assert centre.push()[0] == 0
    clone = centre.remote.clone(tmp_path / "clone")
    origin = FollowedRepository(centre.remote.url, "fleet/rendered/edge-1")
    mirror = origin.mirror(tmp_path / "mirrors")
    good = centre.tip("edge-1")

    def forged(change: Callable[[Path], object]) -> str:
        git(clone, "checkout", "--quiet", "--detach", good)
        change(clone)
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", "forged")
        git(clone, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/fleet/rendered/edge-1")
        mirror.fetch((origin.refspec,))
        with pytest.raises(FleetError) as refused:
            BundleReader("edge-1").read(origin, mirror, git(clone, "rev-parse", "HEAD").strip(), None)
        return str(refused.value)

    def link(root: Path) -> None:
        (root / "stacks" / "orders.json").unlink()
        (root / "stacks" / "orders.json").symlink_to("../fleet.json")

    assert "over" in forged(lambda root: (root / "fleet.json").write_bytes(b" " * (33 << 20)))
    assert "fleet/rendered/edge-1 has no stacks/orders.json" in forged(link), "links are not followed"
    assert "stacks/other.json is in no list" in forged(lambda root: (root / "stacks" / "other.json").write_text("{}"))
    assert "fleet/rendered/edge-1 has no fleet.json" in forged(lambda root: (root / "fleet.json").unlink())

    def elsewhere(root: Path) -> None:
        text = (root / "fleet.json").read_text()
        (root / "fleet.json").write_text(text.replace('"fleet/status"', '"main"'))

    assert "the set says 'main', and this agent reports to 'fleet/status'" in forged(elsewhere)
    with pytest.raises(FleetError, match="the set is for 'edge-1', and this is 'edge-2'"):
        BundleReader("edge-2").read(origin, mirror, good, None)


def test_a_sync_of_the_others_goes_by_the_agents_words_about_what_they_were_told(centre: Centre) -> None:
    centre.stack(
        "orders", config_map("x"), clusters=("edge-1", "centre"), more=", rollout=fleet.Rollout(waves=['edge-1'])"
    )
    revision = centre.commit()
    pair = ("orders", "edge-1")
    with read_commit("HEAD") as files:
        assert read_agent_states(files, [pair], {}) == {}, "nothing was rendered yet"
        assert centre.push()[0] == 0
        content = next(one["content"] for one in centre.index("edge-1")["stacks"])
        said = StatusRecord(*pair, "Synced", "Healthy", "2026-11-16T12:00:00Z", revision, revision, content=content)
        assert read_agent_states(files, [pair], {pair: said})[pair].is_well
        for other in (
            replace(said, content="of before"),
            replace(said, wanted="a" * 40),
            replace(said, health="Degraded"),
            replace(said, sync="Waiting"),
        ):
            assert not read_agent_states(files, [pair], {pair: other})[pair].is_well
    code, out, err = centre.fleet("sync")
    assert (code, "✗ orders on centre: failed" in out) == (3, True), (
        err
    )  # there is no kubeconfig, and it asked no other
