"""Stacks that need others, on two real API servers, by the service that reaches them or by their agents."""

from __future__ import annotations

from tests.serve.running_service import Served
from tests.sync.rollout_stack import write_rolled_out

NEEDING = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r}, depends_on=[{needs!r}])
def stack(cluster: fleet.Cluster) -> None:
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "shop"}},
                     "data": {{"version": {version!r}}}}})
"""


def test_a_stack_waits_for_what_it_needs_in_another_cluster_at_the_same_commit(either: Served) -> None:
    served = either
    repository = served.repository
    eu, us = repository.clusters
    shop = f"{repository.stack}-shop"

    def wants(version: str, *, ill: bool = False) -> str:
        write_rolled_out(repository, version, ill=ill, clusters=[eu.name])
        values = {"clusters": [us.name], "name": shop, "needs": repository.stack, "version": version}
        repository.write("stacks/shop.py", NEEDING.format(**values))
        return served.push(version)

    first = wants("1")
    served.start()
    served.until("both have it", lambda: served.record(us.name, shop).get("revision") == first)
    assert served.data(us, "shop", shop) == {"version": "1"}
    second = wants("2", ill=True)
    served.until("it is ill", lambda: served.record(eu.name).get("health") == "Degraded")
    served.until("so it is told of the other", lambda: served.record(us.name, shop).get("wanted") == second)
    said = served.record(us.name, shop)
    assert (said["sync"], said["wanted"], said["revision"]) == ("Waiting", second, first)
    assert f"it needs stack {repository.stack}, which in {eu.name}" in said["message"]
    third = wants("3")
    served.until("it goes on", lambda: served.record(us.name, shop).get("revision") == third)
    assert served.data(us, "shop", shop) == {"version": "3"}
    us.kubectl("delete", "namespace", shop, "--wait=false")
    us.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={shop}")
