"""Stacks in the name of accounts of their own, by the service: what one may not do is no matter of the others."""

from __future__ import annotations

import time

from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map

STACK = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r}, namespace={name!r})
def stack(cluster: fleet.Cluster) -> None:
    {body}
"""


def test_a_right_that_one_stack_does_not_have_is_asked_for_less_and_less_often(served: Served) -> None:
    repository = served.repository
    cluster, _ = repository.clusters
    may, may_not = repository.stack, f"{repository.stack}-no"
    space, system = f"{repository.stack}-x", ("-n", "fleet-system")
    cluster.kubectl("create", "namespace", space)

    def allow(name: str) -> None:
        account = f"--serviceaccount={space}:{name}"
        cluster.kubectl("create", "clusterrolebinding", f"{space}-{name}", "--clusterrole=cluster-admin", account)

    def push(version: str) -> str:
        for name in (may, may_not):
            text = STACK.format(clusters=[cluster.name], name=name, body=config_map("mine", {"a": version}))
            repository.write(f"stacks/{name}.py", text)
        return served.push()

    def told(name: str) -> dict[str, str]:
        return served.record(cluster.name, name)

    repository.write("fleet.toml", f'[trust]\naccount = "{space}/{{stack}}"\n')
    try:
        for name in (may, may_not):
            cluster.kubectl("-n", space, "create", "serviceaccount", name)
            allow(name)
        first = push("1")
        served.start()
        served.until("both are there", lambda: told(may).get("revision") == told(may_not).get("revision") == first)
        cluster.kubectl("delete", "clusterrolebinding", f"{space}-{may_not}")
        second = push("2")
        served.until("one goes on", lambda: told(may).get("revision") == second)
        served.until("the other is told", lambda: "no right" in told(may_not).get("message", ""))
        before, began = served.metric("fleet_passes_total"), time.monotonic()
        time.sleep(4.0)
        passes, seconds = served.metric("fleet_passes_total") - before, time.monotonic() - began
        assert passes <= seconds + 4, "each failure is tried later than the last"
        allow(may_not)
        served.until("it goes on", lambda: told(may_not).get("revision") == second)
        assert served.data(cluster, "mine", may_not) == {"a": "2"}
    finally:
        served.kill()
        names = [f"{space}-{name}" for name in (may, may_not)]
        cluster.kubectl("delete", "clusterrolebinding", *names, "--ignore-not-found")
        cluster.kubectl("delete", "namespace", space, may_not, "--ignore-not-found", "--wait=false")
        cluster.kubectl(*system, "delete", "configmap", "-l", f"fleet.dev/inventory={may_not}", "--ignore-not-found")
