"""What the lab asks its API servers, and how it waits for what it started."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import ResourceError
from fleet.lab.cluster.api import Api, RequestRefusedError
from fleet.lab.cluster.controlplane import Program
from fleet.lab.programs.launch import launch, wait_listening, wait_until
from fleet.testing import Cluster


def test_objects_are_made_and_made_again_what_they_should_be(cluster: Cluster) -> None:
    api = cluster.lab.api(cluster.lab.spec.cluster(cluster.name))
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "given", "namespace": cluster.namespace},
        "data": {"a": "b"},
    }
    api.apply(wanted)
    cluster.kubectl("patch", "configmap", "given", "-p", '{"data": {"a": "c"}}')
    api.apply(wanted)
    assert cluster.get("configmap", "given")["data"] == {"a": "b"}


def test_a_refusal_is_told_from_a_server_that_does_not_answer(cluster: Cluster) -> None:
    spec = cluster.lab.spec.cluster(cluster.name)
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No_Name", "namespace": cluster.namespace}}
    with pytest.raises(RequestRefusedError, match=r"PATCH .*/configmaps/No_Name"):
        cluster.lab.api(spec).apply(wrong)
    nobody = replace(cluster.lab.plane(spec).admin(), server="https://127.0.0.1:1")
    with pytest.raises(ResourceError, match="does not answer") as caught:
        Api(nobody).apply(wrong)
    assert not isinstance(caught.value, RequestRefusedError)


def test_a_program_that_ends_is_noticed_at_once_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such flag'); raise SystemExit(3)"]
    ended = Program("x/y", command, tmp_path / "y.log", port=("127.0.0.1", 1))
    started = [launch(tmp_path, replace(ended, port=None))]
    begin = time.monotonic()
    with pytest.raises(ResourceError, match=r"x/y ended with 3; the end of .*y.log:\nno such flag"):
        wait_listening(ended, started)
    assert time.monotonic() - begin < 30


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.lab.programs.launch.PATIENCE", 0.1)
    with pytest.raises(ResourceError, match="it never came"):
        wait_until(lambda: False, [], lambda: "it never came")
