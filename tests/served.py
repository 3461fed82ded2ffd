"""A kind that was just defined, ready for use: the server says "Established" a moment before its paths answer."""

from __future__ import annotations

from fleet.testing import Cluster


def wait_served(cluster: Cluster, kind: str) -> None:
    """`kind` as kubectl takes it, like `etcds.fleet.dev`."""
    cluster.wait(f"{kind} is served", lambda: "items" in cluster.get(kind))
