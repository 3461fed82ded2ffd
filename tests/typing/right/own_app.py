"""A user's own app type: fields with defaults are all it takes for a typed constructor."""

from typing import Annotated, assert_type

from pydantic import Field

import fleet


class Queue(fleet.App, frozen=True):
    """A message queue."""

    version: str
    """The version to run."""
    replicas: Annotated[int, Field(ge=1)] = 3
    """How many."""


@fleet.stack(clusters="eu-1")
def messaging(cluster: fleet.Cluster) -> None:
    queue = Queue("jobs", version="4.0", replicas=5, opts=fleet.Options(protect=True))
    assert_type(queue.replicas, int)
