"""Commits that come faster than passes: what was seen of an earlier one is no word about what nobody looked at."""

from __future__ import annotations

from pathlib import Path

from fleet.testing.proxy import Freeze, Match, Plan, Proxy, Rule
from tests.serve.proxied_cluster import behind
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map

STACK = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r}, rollout=fleet.Rollout(waves={clusters!r}))
def stack(cluster: fleet.Cluster) -> None:
    {body}
"""


def test_a_wave_does_not_pass_by_the_health_of_before_when_a_second_commit_comes_before_the_first_was_looked_at(
    served: Served, tmp_path: Path
) -> None:
    repository = served.repository
    eu, us = repository.clusters
    beside = f"{repository.stack}-b"

    def push(version: str, other: str) -> str:
        text = STACK.format(
            clusters=[eu.name, us.name], name=repository.stack, body=config_map("orders", {"version": version})
        )
        repository.write("stacks/stack.py", text)
        text = STACK.format(clusters=[us.name], name=beside, body=config_map("beside", {"version": other}))
        repository.write("stacks/beside.py", text)
        return served.push()

    with Proxy(eu.kubeconfig, eu.context, tmp_path) as proxy:
        served.environment["KUBECONFIG"] = str(behind(repository, proxy, tmp_path / "behind"))
        first = push("1", "1")
        served.start()
        served.until("all have it", lambda: served.record(us.name).get("revision") == first)
        proxy.plan = Plan([Rule(Match(), Freeze())])
        second = push("2", "1")
        served.until("the second wave waits", lambda: served.record(us.name).get("wanted") == second)
        assert "was not looked at yet" in served.record(us.name)["message"]
        third = push("2", "2")
        served.until("the other stack has it", lambda: served.record(us.name, beside).get("revision") == third)
        assert served.record(eu.name)["revision"] == first, "nobody looked at what it has of any later commit"
        assert served.data(us, "orders") == {"version": "1"}
        assert served.record(us.name)["revision"] == first
        proxy.plan = Plan()
        served.until("all go on", lambda: all(served.record(one.name)["revision"] == third for one in (eu, us)))
        assert served.data(eu, "orders") == served.data(us, "orders") == {"version": "2"}
    us.kubectl("delete", "namespace", beside, "--wait=false")
    us.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={beside}")
