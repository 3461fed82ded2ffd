"""A user's own app type needs fields and nothing else."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pytest
from pydantic import Field

import fleet
from fleet.errors import ConfigurationError
from fleet.model.base import Rule
from fleet.render import render

EU = fleet.Cluster("eu-1")


class Queue(fleet.App, frozen=True):
    """A message queue."""

    version: str
    """The version to run."""
    replicas: Annotated[int, Field(ge=1)] = 3
    """How many."""
    spare_replicas: int = 0
    """How many of them do nothing."""

    port: ClassVar[int] = 5672
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.spareReplicas < self.replicas",
            message="must leave somebody to work",
            holds=lambda self: self.spare_replicas < self.replicas,
            field="spare_replicas",
        ),
    )


def test_it_is_declared_and_rendered_like_any_other() -> None:
    @fleet.stack(clusters="eu-1")
    def messaging(cluster: fleet.Cluster) -> None:
        queue = Queue("jobs", version="4", spare_replicas=1)
        fleet.export("queue", queue.endpoint)

    desired = render(messaging(EU), EU)
    made = next(one for one in desired.objects if one.app == "Queue")
    assert made.manifest["kind"] == "Queue"
    assert made.manifest["spec"] == {"version": "4", "spareReplicas": 1}
    assert desired.exports == {"queue": "jobs.messaging.svc:5672"}


def test_its_rules_hold() -> None:
    with pytest.raises(ConfigurationError, match="spare_replicas: must leave somebody to work"):
        Queue("jobs", version="4", spare_replicas=3)
