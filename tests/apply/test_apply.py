"""A plan carried out in a real cluster: what is created, changed, deleted, refused, and what is recorded then."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fleet.apply.executor import apply, inventory_after
from fleet.apply.inventory import StalePlanError, format_keys, load, parse_keys
from fleet.apply.steps import StepOutcome, StepResult, StepState
from fleet.errors import ConflictError
from fleet.kube.client.client import Client
from fleet.kube.lease import Lease
from fleet.objects.desired import Desired, Key
from fleet.plan.decide import plan
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import Plan, Step, Verb
from fleet.testing import Cluster
from tests.apply.one_sync import STACK, sync, wanted
from tests.kube.with_client import agent, config_map, connected


def synced(
    cluster: Cluster, *manifests: dict[str, Any], adopt: bool = False, take_from: tuple[str, ...] = ()
) -> StepOutcome | None:
    desired = wanted(cluster.namespace, *manifests, adopt=adopt, take_from=take_from)
    return connected(cluster, lambda client: sync(client, desired))


def recorded(cluster: Cluster) -> dict[str, str]:
    stored = connected(cluster, lambda client: load(client, cluster.namespace, "test"))
    return {entry.key.name: entry.uid for entry in stored.inventory.entries}


def absent(cluster: Cluster, desired: Desired) -> Plan:
    """The plan of somebody who saw an empty cluster."""
    return plan(desired, Inventory(desired.stack, desired.cluster), {one.key: None for one in desired.objects})


def states(outcome: StepOutcome | None) -> dict[str, str]:
    assert outcome is not None
    return {result.step.key.name: f"{result.step.verb} {result.state}" for result in outcome.results}


def test_a_sync_creates_changes_and_deletes_and_then_has_nothing_to_write(cluster: Cluster) -> None:
    a, b, c = (config_map(cluster, name, x="1", y="1") for name in "abc")
    assert states(synced(cluster, a, b)) == {"a": "create done", "b": "create done"}
    uid = cluster.get("configmap", "b")["metadata"]["uid"]
    cluster.kubectl("patch", "configmap", "b", "-p", '{"data": {"theirs": "1"}}', "--field-manager=somebody")
    b["data"] = {"x": "2"}
    assert states(synced(cluster, b, c)) == {"a": "delete done", "b": "update done", "c": "create done"}
    there = {
        one["metadata"]["name"]: one for one in cluster.get("configmap", "-l", f"{STACK}={cluster.namespace}")["items"]
    }
    assert there["b"]["data"] == {"x": "2", "theirs": "1"}, "a key taken out goes, what another manager owns stays"
    assert there["b"]["metadata"]["uid"] == uid
    assert recorded(cluster) == {name: one["metadata"]["uid"] for name, one in there.items()}
    mark = cluster.audit.mark()
    assert synced(cluster, b, c) is None
    assert cluster.audit.writes(since=mark, agent=agent(cluster)) == []


def test_an_object_that_turns_up_after_the_plan_is_a_conflict_that_names_its_manager_and_stays_untouched(
    cluster: Cluster,
) -> None:
    desired = wanted(cluster.namespace, config_map(cluster, "theirs", x="1"), config_map(cluster, "ours", x="1"))
    made = absent(cluster, desired)
    cluster.kubectl("create", "configmap", "theirs", "--from-literal=y=1", "--field-manager=somebody")
    before = cluster.get("configmap", "theirs")

    async def run(client: Client) -> StepOutcome:
        return await apply(client, made, await load(client, desired.stack, desired.cluster))

    outcome = connected(cluster, run)
    assert states(outcome) == {"theirs": "create conflict", "ours": "create done"}
    assert isinstance(outcome.error, ConflictError)
    assert "belongs to somebody" in outcome.error.message and str(outcome.error.source) == "stacks/test.py:1"
    assert cluster.get("configmap", "theirs") == before
    assert list(recorded(cluster)) == ["ours"]


def test_an_object_that_is_adopted_is_ours_and_goes_with_the_stack(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "a", "--from-literal=x=1", "--field-manager=somebody")
    uid = cluster.get("configmap", "a")["metadata"]["uid"]
    assert states(synced(cluster, config_map(cluster, "a", x="2"), adopt=True)) == {"a": "adopt done"}
    assert recorded(cluster) == {"a": uid}
    assert cluster.get("configmap", "a")["data"] == {"x": "2"}
    assert states(synced(cluster)) == {"a": "delete done"}


def test_managers_give_up_their_fields_only_if_they_are_named(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.kubectl("create", "configmap", name, "--from-literal=x=1", "--field-manager=somebody")
        cluster.kubectl("label", "configmap", name, "team=red", "--field-manager=labeller")
    assert states(synced(cluster, config_map(cluster, "a", x="1"), adopt=True)) == {"a": "adopt done"}
    both = (config_map(cluster, "a", x="1"), config_map(cluster, "b", x="1"))
    assert states(synced(cluster, *both, adopt=True, take_from=("somebody",)))["b"] == "adopt done"
    assert _managers(cluster, "a") == {"fleet", "labeller", "somebody"}
    assert _managers(cluster, "b") == {"fleet", "labeller"}
    assert cluster.get("configmap", "b")["metadata"]["labels"]["team"] == "red"


def _managers(cluster: Cluster, name: str) -> set[str]:
    found = cluster.get("configmap", name, "--show-managed-fields")
    return {one["manager"] for one in found["metadata"]["managedFields"]}


def test_an_object_that_was_made_anew_is_neither_changed_nor_deleted(cluster: Cluster) -> None:
    synced(cluster, config_map(cluster, "a", x="1"), config_map(cluster, "b", x="1"))

    async def run(client: Client) -> StepOutcome:
        stored = await load(client, cluster.namespace, "test")
        keys = {entry.key: entry for entry in stored.inventory.entries}
        steps = []
        for key, entry in keys.items():
            manifest = wanted(cluster.namespace, config_map(cluster, key.name, x="2")).objects[0].manifest
            verb = Verb.UPDATE if key.name == "a" else Verb.DELETE
            steps.append(Step(verb, key, manifest, uid=entry.uid, entry=entry if key.name == "a" else None))
        cluster.kubectl("delete", "configmap", "a", "b")
        for name in "ab":
            cluster.kubectl("create", "configmap", name, "--from-literal=new=1", "--field-manager=somebody")
        first = await apply(client, Plan(cluster.namespace, "test", tuple(steps[:1]), stored.inventory), stored)
        rest = Plan(cluster.namespace, "test", tuple(steps[1:]), first.stored.inventory)
        second = await apply(client, rest, first.stored)
        return StepOutcome((*first.results, *second.results), second.stored)

    outcome = connected(cluster, run)
    assert states(outcome) == {"a": "update conflict", "b": "delete done"}
    for name in "ab":
        assert cluster.get("configmap", name)["data"] == {"new": "1"}


def test_a_deleted_object_is_not_made_anew_by_an_update(cluster: Cluster) -> None:
    synced(cluster, config_map(cluster, "a", x="1"))

    async def run(client: Client) -> StepOutcome:
        stored = await load(client, cluster.namespace, "test")
        (entry,) = stored.inventory.entries
        manifest = wanted(cluster.namespace, config_map(cluster, "a", x="2")).objects[0].manifest
        cluster.kubectl("delete", "configmap", "a")
        step = Step(Verb.UPDATE, entry.key, manifest, uid=entry.uid, entry=entry)
        return await apply(client, Plan(cluster.namespace, "test", (step,), stored.inventory), stored)

    assert states(connected(cluster, run)) == {"a": "update conflict"}
    assert cluster.kubectl("get", "configmap", "a", "--ignore-not-found") == ""


def test_a_delete_goes_through_when_only_the_version_moved_on(cluster: Cluster) -> None:
    synced(cluster, config_map(cluster, "a", x="1"))

    async def run(client: Client) -> StepOutcome:
        stored = await load(client, cluster.namespace, "test")
        (entry,) = stored.inventory.entries
        cluster.kubectl("label", "configmap", "a", "moved=on")
        step = Step(Verb.DELETE, entry.key, uid=entry.uid, resource_version="1")
        return await apply(client, Plan(cluster.namespace, "test", (step,), stored.inventory), stored)

    assert states(connected(cluster, run)) == {"a": "delete done"}
    assert recorded(cluster) == {}


def test_what_a_finalizer_holds_stays_in_the_inventory_until_it_is_gone(cluster: Cluster) -> None:
    held = config_map(cluster, "held", x="1")
    held["metadata"]["finalizers"] = ["example.io/hold"]
    synced(cluster, held)

    async def run(client: Client) -> StepOutcome:
        stored = await load(client, cluster.namespace, "test")
        (entry,) = stored.inventory.entries
        step = Step(Verb.DELETE, entry.key, uid=entry.uid)
        made = Plan(cluster.namespace, "test", (step,), stored.inventory)
        return await apply(client, made, stored, delete_seconds=0.2)

    outcome = connected(cluster, run)
    assert states(outcome) == {"held": "delete pending"}
    assert "example.io/hold" in outcome.results[0].reason
    assert list(recorded(cluster)) == ["held"]
    cluster.kubectl("patch", "configmap", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    synced(cluster)
    assert recorded(cluster) == {}


def test_definitions_and_namespaces_come_first_and_their_objects_after(cluster: Cluster) -> None:
    group = f"{cluster.namespace[-6:]}.example.io"
    space = f"{cluster.namespace}-made"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        },
    }
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "thing", "namespace": space},
        "spec": {"a": 1},
    }
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    try:
        outcome = synced(cluster, thing, config_map(cluster, "a"), made, crd)
        assert set(states(outcome).values()) == {"create done"}
        assert cluster.get(f"things.{group}", "thing", "-n", space)["spec"] == {"a": 1}
        assert synced(cluster, thing, config_map(cluster, "a"), made, crd) is None
    finally:
        cluster.kubectl("delete", "crd", f"things.{group}", "--ignore-not-found")
        cluster.kubectl("delete", "namespace", space, "--wait=false", "--ignore-not-found")


def test_a_failure_stops_its_dependents_and_all_deletes_and_nothing_else(cluster: Cluster) -> None:
    synced(cluster, config_map(cluster, "unwanted"))
    bad = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "bad", "namespace": cluster.namespace},
        "spec": {"ports": [{"port": 99999}]},
    }
    after = {**config_map(cluster, "after"), "depends_on": ["bad"]}
    outcome = synced(cluster, bad, after, config_map(cluster, "other"))
    assert states(outcome) == {
        "bad": "create failed",
        "after": "create skipped",
        "other": "create done",
        "unwanted": "delete skipped",
    }
    assert outcome and outcome.error and "99999" in outcome.error.message
    assert sorted(recorded(cluster)) == ["other", "unwanted"]
    assert cluster.get("configmap", "unwanted")


def test_a_plan_made_before_somebody_else_changed_the_stack_is_refused_before_anything_is_sent(
    cluster: Cluster,
) -> None:
    desired = wanted(cluster.namespace, config_map(cluster, "late"))

    async def run(client: Client) -> None:
        old = await load(client, cluster.namespace, "test")
        await sync(client, wanted(cluster.namespace, config_map(cluster, "quick")))
        async with Lease(client, cluster.namespace):
            await apply(client, absent(cluster, desired), old)

    with pytest.raises(StalePlanError):
        connected(cluster, run)
    assert cluster.kubectl("get", "configmap", "late", "--ignore-not-found") == ""


def test_intents_are_recorded_before_the_first_object_is_made(cluster: Cluster) -> None:
    mark = cluster.audit.mark()
    synced(cluster, *(config_map(cluster, f"m{n}") for n in range(10)))
    writes = [one for one in cluster.audit.writes(since=mark, agent=agent(cluster)) if one.resource == "configmaps"]
    order = ["inventory" if one.namespace == "fleet-system" else "object" for one in writes]
    assert order == ["inventory", *["object"] * 10, "inventory"]


def _result(verb: Verb, state: StepState, *, uid: str = "", certain: bool = True) -> StepResult:
    key = Key("", "ConfigMap", "n", "a")
    entry = None if verb in (Verb.DELETE, Verb.FORGET, Verb.CONFLICT) else Entry(key, "v1", hash="new")
    return StepResult(Step(verb, key, entry=entry), state, uid=uid, certain=certain)


@pytest.mark.parametrize(
    ("result", "known", "uid"),
    [
        (_result(Verb.CREATE, StepState.DONE, uid="u"), None, "u"),
        (_result(Verb.CREATE, StepState.FAILED), None, None),
        (_result(Verb.CREATE, StepState.FAILED, certain=False), None, ""),
        (_result(Verb.CREATE, StepState.FAILED, uid="u"), None, "u"),
        (_result(Verb.CREATE, StepState.SKIPPED), "", None),
        (_result(Verb.CREATE, StepState.CONFLICT), "old", None),
        (_result(Verb.UPDATE, StepState.FAILED), "old", "old"),
        (_result(Verb.UPDATE, StepState.SKIPPED), "old", "old"),
        (_result(Verb.ADOPT, StepState.FAILED), None, None),
        (_result(Verb.ADOPT, StepState.FAILED, certain=False), None, ""),
        (_result(Verb.ADOPT, StepState.DONE, uid="u"), None, "u"),
        (_result(Verb.DELETE, StepState.DONE), "old", None),
        (_result(Verb.DELETE, StepState.PENDING), "old", "old"),
        (_result(Verb.DELETE, StepState.FAILED, certain=False), "old", "old"),
        (_result(Verb.FORGET, StepState.DONE), "old", None),
        (_result(Verb.CONFLICT, StepState.CONFLICT), "old", "old"),
        (_result(Verb.CONFLICT, StepState.CONFLICT), None, None),
    ],
)
def test_the_inventory_after_each_kind_of_result(result: StepResult, known: str | None, uid: str | None) -> None:
    """`known` and `uid` are the entry's before and after; None is no entry, "" an intent."""
    entries = () if known is None else (Entry(result.step.key, "v1", known),)
    made = Plan("s", "c", (result.step,), Inventory("s", "c", "r1", entries), "r2")
    after = inventory_after(made, [result])
    assert [entry.uid for entry in after.entries] == ([] if uid is None else [uid])
    assert after.revision == ("r1" if after.entries == entries else "r2")


def test_what_was_to_be_created_and_is_not_there_stays_known_until_it_is_or_nobody_wants_it() -> None:
    there, other = Entry(Key("", "Namespace", "", "n"), "v1", "u"), Key("", "ConfigMap", "n", "b")
    inventory = Inventory("s", "c", "r1", (there,))
    refused = _result(Verb.CREATE, StepState.FAILED)
    made = Plan("s", "c", (refused.step,), inventory, "r2")
    after = inventory_after(made, [refused])
    assert after.missing == (refused.step.key,)
    assert parse_keys(format_keys((*after.missing, other))) == (*after.missing, other)
    done = _result(Verb.CREATE, StepState.DONE, uid="u")
    assert inventory_after(replace(made, inventory=after), [done]).missing == ()
    assert inventory_after(made, [_result(Verb.CREATE, StepState.CONFLICT)]).missing == (), "it is there, and another's"
    gone = Plan("s", "c", (), after)
    assert not gone.empty, "a plan without steps still clears it"
    assert (inventory_after(gone, []).missing, gone.target.missing) == ((), ())
    left_out = StepResult(refused.step._replace(verb=Verb.UNCHANGED, entry=None), StepState.UNCHANGED)
    assert inventory_after(replace(made, inventory=after), [left_out]).missing == after.missing
    nothing = Plan("s", "c", (refused.step,), Inventory("s", "c"), "r2")
    assert inventory_after(nothing, [refused]).missing == (), "what has nothing there has no inventory"


def test_a_sync_is_few_requests_beside_the_objects(cluster: Cluster) -> None:
    mark = cluster.audit.mark()
    synced(cluster, *(config_map(cluster, f"m{n}") for n in range(20)))
    seen = cluster.audit.requests(since=mark, agent=agent(cluster))
    renewals = [one for one in seen if one.resource == "leases" and one.verb == "update"]  # a slow machine has some
    assert len(seen) - len(renewals) - 20 <= 9, json.dumps([f"{one.verb} {one.uri}" for one in seen], indent=1)
