"""`fleet explain` asks a real operator over a real API server, and says what is known when there is none.

The members of the app never run: its StorageClass does not exist.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.objects.redaction import SecretValues
from fleet.render import crd
from fleet.testing import Cluster
from tests.served import wait_served

REPOSITORY = Path(__file__).parents[3]
Fleet = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    cluster.apply(*crd.definitions().values())
    wait_served(cluster, "etcds.fleet.dev")
    options = ["--no-lease", f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}"]
    command = [sys.executable, "-m", "fleet_operator", "run", *options, f"--namespace={cluster.namespace}"]
    with (tmp_path / "operator.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY)
    yield process
    process.terminate()
    assert process.wait(60) == 0, (tmp_path / "operator.log").read_text()[-3000:]


@pytest.fixture
def explain(cluster: Cluster, tmp_path: Path) -> Fleet:
    """`fleet explain` typed at a shell outside any repository."""
    where = [f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}", f"--namespace={cluster.namespace}"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fleet", "explain", "registry", *where, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        return done

    return run


def test_an_operator_explains_what_it_waits_for_and_its_record_is_decided_again(
    cluster: Cluster, operator: subprocess.Popen[bytes], explain: Fleet, tmp_path: Path
) -> None:
    cluster.apply(
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Etcd",
            "metadata": {"name": "registry"},
            "spec": {"version": "3.5", "members": 3, "volume": {"storageClass": "there-is-none"}},
        }
    )
    _wait(lambda: bool(_get(cluster, "statefulsets", "registry")))
    told = json.loads(explain("-o", "json", "--record", "registry.json").stdout)
    newest = told["decisions"][-1]
    assert (told["source"], told["kind"]) == ("operator", "Etcd")
    assert [member["pod"] for member in newest["explanation"]["members"]] == [f"registry-{n}" for n in range(3)]
    assert newest["steps"] or newest["explanation"]["waits"], newest

    text = (tmp_path / "registry.json").read_text()
    secrets = cluster.get("secrets")["items"]
    private = [{**one, "data": {k: v for k, v in one["data"].items() if k.endswith(".key")}} for one in secrets]
    assert any(one["data"] for one in private) and SecretValues.of(private).redact(text) == text
    command = [sys.executable, "-m", "fleet", "explain", "--replay", "registry.json", "-o", "json"]
    replayed = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    assert replayed["decisions"] and not any(one["differs"] for one in replayed["decisions"]), replayed
    assert not any(one["error"] for one in replayed["decisions"])

    # The answer goes when it has been read, and nothing is written after that.
    _wait(lambda: not _get(cluster, "configmaps", "registry-explain"))
    annotations = _get(cluster, "etcds", "registry")["metadata"].get("annotations") or {}
    assert "fleet.dev/explain" not in annotations

    people = explain().stdout
    assert "diagnosis" in people and "decision" in people and "registry-0" in people

    operator.terminate()
    assert operator.wait(60) == 0
    alone = explain("--timeout", "1s").stdout
    assert "no operator answered in 1 s" in alone and "condition  Ready is False" in alone
    assert "PersistentVolumeClaim" in alone or "Pod registry-0" in alone


def _get(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    text = cluster.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _wait(is_done: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.3)
