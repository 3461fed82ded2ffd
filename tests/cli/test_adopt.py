"""`fleet adopt` against a real API server whose nodes run nothing: what it says of what it may not ask, and that it
writes nothing. Members that answer are in tests/operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fleet.cli import run
from fleet.cli.commands.adopt import _find_cluster_name
from fleet.testing import Cluster
from tests.operator.existing_setups import SET_UPS

REDIS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: cache, labels: {app: cache}}
spec:
  serviceName: cache
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec: {containers: [{name: redis, image: "redis:8", command: [redis-server]}]}
"""


@pytest.fixture
def set_up(cluster: Cluster) -> Cluster:
    documents = SET_UPS["plain"].documents(cluster.namespace)
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([*documents, yaml.safe_load(REDIS)]))
    running = ("pods", "-l", "app=etcd", "--field-selector=status.phase=Running")
    cluster.wait("it looks as if it ran", lambda: len(cluster.get(*running)["items"]) == 3)
    return cluster


def told(cluster: Cluster, capsys: pytest.CaptureFixture[str], *arguments: str, kubeconfig: Path | None = None) -> str:
    where = ["--kubeconfig", str(kubeconfig or cluster.kubeconfig), "--context", cluster.context]
    assert run(["adopt", *where, "--namespace", cluster.namespace, *arguments]) == 0
    return capsys.readouterr().out


def test_what_it_cannot_manage_is_named_with_the_reason_and_nothing_is_written(
    set_up: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = set_up.audit.mark()
    found = {one["statefulSet"]: one for one in json.loads(told(set_up, capsys, "-o", "json"))}
    assert found["cache"]["problem"] == "engine: no process is one of: etcd"
    assert (found["etcd"]["engine"], found["etcd"]["sign"]) == ("etcd", "container etcd starts etcd")
    assert not found["etcd"]["manageable"]
    assert "does not answer" in found["etcd"]["problem"]
    assert "cache" not in told(set_up, capsys, "--select", "app=etcd")
    assert told(set_up, capsys, "--select", "app=nothing") == "no StatefulSets that could be taken over\n"
    own = [one for one in set_up.audit.requests(since=mark, agent="fleet") if one.namespace == set_up.namespace]
    assert {one.verb for one in own} <= {"list", "get"}, own


def test_who_may_not_ask_is_told_so(set_up: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kinds = "statefulsets.apps,pods,services,configmaps"
    set_up.kubectl("create", "serviceaccount", "looks")
    set_up.kubectl("create", "role", "looks", "--verb=get,list", f"--resource={kinds}")
    account = f"--serviceaccount={set_up.namespace}:looks"
    set_up.kubectl("create", "rolebinding", "looks", "--role=looks", account)
    view = yaml.safe_load(set_up.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    view["users"][0]["user"] = {"token": set_up.kubectl("create", "token", "looks").strip()}
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(view))
    said = told(set_up, capsys, "--select", "app=etcd", kubeconfig=config)
    assert "its members cannot be asked" in said
    assert "you need the right to exec in its pods" in said


def test_a_stack_names_the_cluster_that_the_repository_has_for_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _find_cluster_name("prod") == "prod", "no repository calls it otherwise"
    (tmp_path / "fleet.toml").write_text('[fleet]\nname = "shop"\n')
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "all.py").write_text('import fleet\n\nfleet.Cluster("eu-1", context="prod")\n')
    assert _find_cluster_name("prod") == "eu-1"
    assert run(["adopt", "--context", "elsewhere", "--write", "stacks"]) != 0
    assert "no cluster of the repository has the context elsewhere" in capsys.readouterr().err
