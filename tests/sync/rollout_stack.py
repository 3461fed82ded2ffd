"""A stack with a rollout, whose health a test can turn: a Deployment that finds no node is Degraded after a while."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sync.fleet_repository import FleetRepository

STACK = """
import fleet
from fleet import Options

@fleet.stack(clusters={clusters!r}, name={name!r}, rollout=fleet.Rollout(waves={clusters!r}{rollout}))
def stack(cluster: fleet.Cluster) -> None:
    labels = {{"app": "web"}}
    web = fleet.Manifest({{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web"}}, "spec": {{
        "replicas": 1, "selector": {{"matchLabels": labels}}, "progressDeadlineSeconds": {deadline},
        "template": {{"metadata": {{"labels": labels}}, "spec": {{
            "nodeSelector": {node!r}, "containers": [{{"name": "web", "image": "localhost/web:{version}"}}]}}}}}}}})
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "after"}},
                     "data": {{"version": {version!r}}}}}, opts=Options(depends_on=[web]))
"""


def write_rolled_out(
    repository: FleetRepository,
    version: str,
    *,
    ill: bool = False,
    rollout: str = "",
    clusters: Sequence[str] = (),
) -> None:
    """A wave for each cluster. `rollout` are further arguments of it, as they are written."""
    names = list(clusters) or [one.name for one in repository.clusters]
    node = {"no": "such-node"} if ill else {}
    more = f", {rollout}" if rollout else ""
    deadline = 2 if ill else 600  # seconds, in which a good one on a busy machine has to be up
    text = STACK.format(
        clusters=names, name=repository.stack, rollout=more, node=node, version=version, deadline=deadline
    )
    repository.write("stacks/stack.py", text)
