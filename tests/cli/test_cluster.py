"""`fleet cluster`, on a real API server and real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli.access import is_old, list_needed_rights
from fleet.errors import Source
from fleet.kube.discovery import Discovery
from fleet.objects.desired import Desired, Object
from fleet.objects.resource import Resource
from fleet.testing import Cluster, GitRemote

STACK = """import fleet
from fleet.apps import Etcd

@fleet.stack(clusters=fleet.where(env="prod"))
def orders(cluster: fleet.Cluster) -> None:
    Etcd("config", version="3.6.5")
"""
NOWHERE = {
    "contexts": [{"name": "nowhere", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "x"}}],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = GitRemote.make(tmp_path / "bare.git").clone(tmp_path / "repository")
    (path / "stacks").mkdir()
    (path / "clusters").mkdir()
    (path / "fleet.toml").write_text("")
    (path / "stacks" / "orders.py").write_text(STACK)
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    return path


def fleet(repository: Path, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    where = kubeconfig or repository.parent / "kubeconfig"
    return subprocess.run(
        [sys.executable, "-m", "fleet", "cluster", *arguments],
        cwd=repository, env={**os.environ, "KUBECONFIG": str(where)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def add(repository: Path, name: str, *more: str, kubeconfig: Path | None = None) -> None:
    done = fleet(repository, "add", name, *more, kubeconfig=kubeconfig)
    assert done.returncode == 0, done.stderr


def commit(repository: Path) -> None:
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    subprocess.run(["git", "commit", "-qm", "change"], cwd=repository, check=True)


def test_add_writes_a_file_as_a_person_would_and_list_shows_it(repository: Path) -> None:
    done = fleet(repository, "add", "eu-1", "--context", "nowhere", "--label", "region=eu", "--label", "env=prod")
    assert done.stdout == "clusters/eu-1.py\n"
    text = (repository / "clusters" / "eu-1.py").read_text()
    assert text == (
        'import fleet\n\nfleet.Cluster("eu-1", labels={"env": "prod", "region": "eu"}, context="nowhere")\n'
    )
    add(repository, "far", "--pull")
    add(repository, "near", "--secret", "fleet/near")
    listed = fleet(repository, "list").stdout.splitlines()
    assert [" ".join(line.split()) for line in listed] == [
        "NAME LABELS ACCESS STACKS",
        "eu-1 env=prod,region=eu context nowhere orders",
        "far - pull -",
        "near - secret fleet/near -",
    ]
    assert json.loads(fleet(repository, "list", "-o", "json").stdout)[0]["labels"] == {"env": "prod", "region": "eu"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["Eu_1", "--context", "nowhere"], 2, "'eu-1' would be right"),
        (["eu-1", "--context", "nowheer"], 6, "did you mean nowhere?"),
        (["eu-1"], 6, "no context 'eu-1'"),
        (["eu-1", "--context", "nowhere", "--label", "prod"], 2, "write KEY=VALUE"),
        (["eu-1", "--context", "nowhere", "--label", "a=1", "--label", "a=2"], 2, "given twice"),
        (["eu-1", "--context", "nowhere", "--label", "a b=1"], 2, "label"),
        (["eu-1", "--context", "nowhere", "--pull"], 2, "at once"),
        (["../eu-1", "--context", "nowhere"], 2, "is not a name"),
    ],
)
def test_add_refuses_what_is_wrong_before_it_writes(
    repository: Path, arguments: list[str], code: int, words: str
) -> None:
    done = fleet(repository, "add", *arguments)
    assert (done.returncode, list((repository / "clusters").iterdir())) == (code, [])
    assert words in done.stderr
    assert "site-packages" not in done.stderr


def test_a_name_that_is_taken_is_refused_with_the_place_where(repository: Path) -> None:
    (repository / "clusters" / "all.py").write_text('import fleet\n\nfleet.Cluster("eu-1", labels={"env": "prod"})\n')
    done = fleet(repository, "add", "eu-1", "--context", "nowhere")
    assert done.returncode == 2
    assert "clusters/all.py:3: there is a cluster 'eu-1' already" in done.stderr
    (repository / "clusters" / "us-1.py").write_text("# a note\n")
    done = fleet(repository, "add", "us-1", "--context", "nowhere")
    assert done.returncode == 2
    assert (repository / "clusters" / "us-1.py").read_text() == "# a note\n"


def test_a_broken_stack_does_not_hide_the_clusters_but_a_broken_cluster_file_is_an_error(repository: Path) -> None:
    add(repository, "eu-1", "--context", "nowhere")
    (repository / "stacks" / "broken.py").write_text("def (")
    done = fleet(repository, "list")
    assert done.returncode == 0
    assert "eu-1" in done.stdout
    assert "see fleet check" in done.stderr
    (repository / "clusters" / "broken.py").write_text("def (")
    done = fleet(repository, "list")
    assert done.returncode == 2
    assert "clusters/broken.py:1" in done.stderr


def test_an_unreachable_cluster_and_a_missing_context_are_told_apart(repository: Path) -> None:
    add(repository, "eu-1", "--context", "nowhere", "--label", "env=prod")
    done = fleet(repository, "check", "eu-1")
    assert done.returncode == 4
    assert "✓ context      nowhere" in done.stdout
    assert "✗ reachable    cannot reach cluster eu-1 at https://127.0.0.1:1" in done.stdout
    assert fleet(repository, "list", "--check").returncode == 4
    (repository / "clusters" / "us-1.py").write_text('import fleet\n\nfleet.Cluster("us-1")\n')
    done = fleet(repository, "check", "us-1")
    assert done.returncode == 3
    assert "✗ context" in done.stdout
    assert fleet(repository, "check", "us-2").returncode == 6


def test_a_cluster_that_pulls_has_nothing_to_check_here(repository: Path) -> None:
    add(repository, "far", "--pull", "--label", "env=prod")
    done = fleet(repository, "check", "far")
    assert (done.returncode, done.stdout) == (0, "far: nothing to check here: an agent inside it pulls\n")


def test_remove_deletes_a_committed_file_and_says_what_becomes_of_the_apps(repository: Path) -> None:
    add(repository, "eu-1", "--context", "nowhere", "--label", "env=prod")
    add(repository, "us-1", "--context", "nowhere", "--label", "env=test")
    refused = fleet(repository, "remove", "eu-1")
    assert refused.returncode == 2
    assert "not committed" in refused.stderr
    commit(repository)
    done = fleet(repository, "remove", "eu-1")
    assert (done.returncode, done.stdout) == (0, "removed clusters/eu-1.py\n")
    assert "its apps keep running" in done.stderr
    assert "fleet destroy orders --cluster eu-1" in done.stderr
    assert "placed nowhere else" in done.stderr
    assert not (repository / "clusters" / "eu-1.py").exists()
    assert fleet(repository, "remove", "eu-1").returncode == 6


def test_remove_leaves_a_file_with_other_clusters_to_a_person(repository: Path) -> None:
    text = 'import fleet\n\nfleet.Cluster("eu-1", labels={"env": "prod"})\nfleet.Cluster("us-1")\n'
    (repository / "clusters" / "all.py").write_text(text)
    commit(repository)
    done = fleet(repository, "remove", "eu-1")
    assert done.returncode == 2
    assert "holds other clusters too: us-1" in done.stderr
    assert (repository / "clusters" / "all.py").read_text() == text


@pytest.mark.parametrize(
    ("version", "old"), [("v1.30.9", True), ("v1.31.0", False), ("v1.36.3+k3s1", False), ("v2.0", False)]
)
def test_versions_before_1_31_are_too_old(version: str, old: bool) -> None:
    assert is_old(version) is old


def test_a_real_cluster_is_checked_line_by_line_and_not_written_to(repository: Path, cluster: Cluster) -> None:
    add(repository, "eu-1", "--context", cluster.context, "--label", "env=prod", kubeconfig=cluster.kubeconfig)
    mark = cluster.audit.mark()
    done = fleet(repository, "check", "eu-1", kubeconfig=cluster.kubeconfig)
    assert done.returncode == 0, done.stdout
    for line in (
        f"✓ context      {cluster.context}",
        "✓ reachable    https://",
        "✓ version      v1.",
        "✓ definitions",
        "✓ rights",
    ):
        assert line in done.stdout
    assert cluster.audit.writes(since=mark, agent="fleet/") == []
    listed = json.loads(fleet(repository, "list", "--check", "-o", "json", kubeconfig=cluster.kubeconfig).stdout)
    assert listed[0]["version"].startswith("v1.")


def test_missing_rights_are_named_one_by_one(repository: Path, cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("create", "serviceaccount", "weak")
    weak = as_user(cluster, {"token": cluster.kubectl("create", "token", "weak").strip()}, tmp_path / "weak")
    add(repository, "eu-1", "--context", cluster.context, "--label", "env=prod", kubeconfig=weak)
    done = fleet(repository, "check", "eu-1", kubeconfig=weak)
    assert done.returncode == 3
    assert "✓ version" in done.stdout
    assert "✗ rights       may not create configmaps in fleet-system" in done.stdout


def test_what_is_never_deleted_needs_no_right_to_be() -> None:
    kept = Object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "orders"}}, Source("stacks/orders.py"))
    wanted = Desired("orders", "eu-1", (kept,))
    served = Discovery()
    served.add(Resource("", "v1", "Namespace", "namespaces", namespaced=False))
    asked = list_needed_rights([wanted], served)
    assert {right.verb for right in asked if right.resource == "namespaces"} == {"get", "list", "create", "patch"}


def test_credentials_that_are_refused_are_a_matter_of_access(
    repository: Path, cluster: Cluster, tmp_path: Path
) -> None:
    wrong = as_user(cluster, {"token": "nonsense"}, tmp_path / "wrong")
    add(repository, "eu-1", "--context", cluster.context, "--label", "env=prod", kubeconfig=wrong)
    done = fleet(repository, "check", "eu-1", kubeconfig=wrong)
    assert done.returncode == 3
    assert "the credentials were refused" in done.stdout


def as_user(cluster: Cluster, user: dict[str, str], path: Path) -> Path:
    """The cluster's kubeconfig with other credentials."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": entry["name"], "user": user} for entry in config["users"]]
    path.write_text(yaml.safe_dump(config))
    return path
