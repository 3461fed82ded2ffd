"""What the pods of a Job left as their last words."""

from __future__ import annotations

from typing import Any

from fleet.kube.jobs import job_output, job_troubles


def pod(*containers: dict[str, Any], first: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"status": {"initContainerStatuses": [first] if first else [], "containerStatuses": list(containers)}}


def ended(name: str, code: int, message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, "message": message}}}


def waiting(name: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def test_a_record_is_what_a_container_that_ended_well_said() -> None:
    assert job_output([pod(ended("keep", 0, '{"size": 3}'), first=ended("save", 0, "Snapshot saved"))]) == {"size": 3}
    assert job_output([pod(ended("keep", 1, '{"size": 3}'))]) is None
    assert job_output([pod(ended("keep", 0, "{half")), pod(ended("keep", 0, '{"size": 4}'))]) == {"size": 4}
    assert job_output([{"status": {}}]) is None


def test_troubles_are_told_in_the_words_of_whoever_has_them() -> None:
    assert job_troubles(pod(ended("keep", 1, "reading it back\nthe volume is full\n"))) == "keep: the volume is full"
    assert job_troubles(pod(ended("keep", 7))) == "keep: exit code 7"
    assert job_troubles(pod(waiting("save", "ErrImagePull", "no such image"))) == "save: ErrImagePull: no such image"
    assert job_troubles(pod(waiting("save", "PodInitializing"))) == ""
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    assert job_troubles({"status": {"conditions": [unplaced]}}) == "not scheduled: 0/2 nodes are available"
