"""Waves, gates and dependencies of one `fleet sync`, on two real API servers."""

from __future__ import annotations

import json

from tests.sync.fleet_repository import FleetRepository, Run, config_map
from tests.sync.rollout_stack import write_rolled_out

OURS = "fleet/"  # how our user agent begins
NEEDING = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r}, namespace={namespace!r}, depends_on=[{needs!r}])
def stack(cluster: fleet.Cluster) -> None:
    {body}
"""


def record(repository: FleetRepository, cluster: str) -> dict[str, str]:
    found = repository.remote.git("show", f"fleet/status:clusters/{cluster}/{repository.stack}.json")
    return dict(json.loads(found))


def fallen_ill(repository: FleetRepository) -> Run:
    """Of a sync after which the first cluster's Deployment is Degraded: the next one, which finds it so."""
    assert repository.sync("--no-wait").code == 5, "nothing begins before the first is healthy"
    wait = ("wait", "deployment/web", "--for=condition=Progressing=False", "--timeout=90s")
    repository.clusters[0].kubectl("-n", repository.stack, *wait)
    return repository.sync("--timeout", "1s")


def test_a_sync_goes_wave_by_wave_and_the_next_one_goes_on_from_there(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    write_rolled_out(repository, "1", rollout="approve=[2]")
    first = repository.commit()
    shown = repository.fleet("preview")
    course = f"{repository.stack}: wave 1: {eu.name}, then wave 2: {us.name} (after fleet approve {repository.stack} 2)"
    assert course in shown.err
    now = repository.sync("--no-wait")
    assert (now.code, repository.get(eu, "deployment", "web") is not None, repository.data(us, "after")) == (
        5,
        True,
        None,
    )
    assert f"• {repository.stack} on {us.name}: waiting: wave" in now.out
    said = repository.sync()
    waits = f"wave 2 waits for a person: fleet approve {repository.stack} 2"
    assert said.code == 5, said.err
    assert course in said.err
    assert f"• {repository.stack} on {us.name}: waiting: {waits}" in said.out
    assert "+ create     Deployment" in said.out, "all is planned, whoever's turn it is"
    assert f"{us.name}: {repository.stack} waits: {waits}" in said.err
    assert (record(repository, eu.name)["sync"], record(repository, eu.name)["health"]) == ("Synced", "Healthy")
    waiting = record(repository, us.name)
    assert (waiting["sync"], waiting["wanted"], waiting["revision"]) == ("Waiting", first, "")
    assert repository.data(us, "after") is None

    assert repository.fleet("approve", repository.stack, "2").code == 0
    mark = eu.audit.mark()
    said = repository.sync()
    assert said.code == 0, said.err
    assert repository.data(us, "after") == {"version": "1"}
    assert record(repository, us.name)["revision"] == first
    assert eu.audit.writes(mark, agent=OURS) == [], "what was done is not done again"

    write_rolled_out(repository, "2", ill=True)
    repository.commit()
    mark = us.audit.mark()
    said = fallen_ill(repository)
    assert said.code == 4, said.err
    stopped = f"the rollout is stopped: {eu.name} has a part of this revision and is Degraded"
    assert f"waiting: {stopped}" in said.out
    assert stopped in record(repository, us.name)["message"]
    only = repository.sync("--cluster", us.name, "--timeout", "1s")
    behind = f"{eu.name} does not have this revision yet, and is Degraded"
    assert (only.code, behind in only.err) == (5, True), f"one that is no part of the run counts, too: {only.err}"
    assert us.audit.writes(mark, agent=OURS) == []
    emergency = repository.sync("--cluster", us.name, "--ignore-rollout", "--no-wait", "--no-status")
    assert emergency.code == 5, emergency.err
    assert "ignored, as --ignore-rollout says" in emergency.err
    web = repository.get(us, "deployment", "web") or {}
    assert web["spec"]["template"]["spec"]["containers"][0]["image"] == "localhost/web:2"
    assert repository.data(us, "after") == {"version": "1"}, "what depends on it waits for it all the same"


def test_what_a_stack_needs_in_another_cluster_is_healthy_at_this_commit_first(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    shop = f"{repository.stack}-shop"

    def wants(version: str, *, ill: bool = False) -> None:
        write_rolled_out(repository, version, ill=ill, clusters=[eu.name])
        values = {"clusters": [us.name], "name": shop, "namespace": repository.namespace, "needs": repository.stack}
        repository.write("stacks/shop.py", NEEDING.format(body=config_map("shop", {"version": version}), **values))
        repository.commit()

    wants("1")
    said = repository.sync()
    assert said.code == 0, said.err
    assert repository.data(us, "shop") == {"version": "1"}
    wants("2", ill=True)
    said = fallen_ill(repository)
    where = f"which in {eu.name} has a part of this revision and is Degraded"
    waits = f"{us.name}: {shop} waits: it needs stack {repository.stack}, {where}"
    assert (said.code, waits in said.err) == (4, True), said.err
    assert repository.data(us, "shop") == {"version": "1"}, "healthy at the commit before is not enough"
    us.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={shop}")
