"""One object, one verb: what the planner decides, from data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.errors import ConflictError
from fleet.objects.desired import Key, Object
from fleet.plan import (
    Change,
    Entry,
    Inventory,
    Plan,
    RepositoryOwnership,
    Step,
    Verb,
    keys_to_read,
    plan,
    plan_removed_placement,
)
from fleet.plan.drift import is_drift
from fleet.plan.effect import delete_effect
from tests.objects.live import config_map, desired, entry_of, live_of, wanted


def inventory(*entries: Entry) -> Inventory:
    return Inventory("orders", "eu-1", "abc", entries)


def only(made: Plan) -> Step:
    assert len(made.steps) == 1
    return made.steps[0]


def planned(manifest: dict[str, Any], known: Inventory | None, live: dict[str, Any] | None, **options: Any) -> Plan:
    return plan(desired(wanted(manifest, **options)), known, {Key.of(manifest): live})


def test_what_is_absent_is_created_with_an_intent_in_the_inventory() -> None:
    made = planned(config_map("a"), None, None)
    step = only(made)
    assert (step.verb, step.uid) == (Verb.CREATE, None)
    assert step.entry is not None
    assert step.entry.uid == ""
    assert not made.empty


def test_a_new_app_that_nothing_would_come_of_is_refused_and_not_made() -> None:
    adopt = {"identity": "c1", "statefulSet": "kv"}
    spec = {"version": "3.5", "adopt": adopt, "volume": {"onDelete": "delete"}}
    own = {"name": "db", "namespace": "shop"}
    step = only(
        planned(
            {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": own, "spec": spec}, None, None, app="Etcd"
        )
    )
    assert (step.verb, step.refused, step.manifest) == (Verb.CONFLICT, True, None)
    kept = "volumes of members that are taken over are kept when the app goes"
    assert step.reason == f"cannot be made so: volume.on_delete: {kept} (leave it out, and delete the claims by hand)"


def test_volumes_of_an_app_that_was_taken_over_are_not_said_to_be_deleted() -> None:
    key = Key("fleet.dev", "Etcd", "shop", "db")
    spec = {"volume": {"onDelete": "delete"}}
    assert delete_effect(key, {"spec": spec})
    assert delete_effect(key, {"spec": {**spec, "adopt": {"identity": "c1"}}}) is None


def test_what_is_as_wanted_is_unchanged_and_costs_nothing() -> None:
    manifest = config_map("a")
    made = planned(manifest, inventory(entry_of(manifest)), live_of(manifest))
    assert only(made).verb is Verb.UNCHANGED
    assert made.empty


def test_a_changed_and_a_removed_field_are_an_update_with_the_uid() -> None:
    old, new = config_map("a", {"a": "1", "b": "2"}), config_map("a", {"a": "3"})
    step = only(planned(new, inventory(entry_of(old)), live_of(old)))
    assert (step.verb, step.uid) == (Verb.UPDATE, "u1")
    assert step.changes == (Change("data.a", "1", "3"), Change("data.b", "2", None))


def test_an_object_of_somebody_else_is_a_conflict_that_names_the_manager() -> None:
    manifest = config_map("a")
    step = only(planned(manifest, None, live_of(config_map("a", {"x": "y"}, labels={}), manager="helm")))
    assert step.verb is Verb.CONFLICT
    assert "helm" in step.reason
    assert step.manifest is None


def test_with_adopt_it_is_taken_over() -> None:
    manifest = config_map("a")
    there = live_of(config_map("a", labels={}), manager="helm")
    made = planned(manifest, None, there, adopt=True)
    step = only(made)
    assert (step.verb, step.uid) == (Verb.ADOPT, "u1")
    assert step.entry is not None
    assert step.entry.uid == "u1"


def test_an_object_of_another_stack_is_a_conflict_even_with_adopt() -> None:
    manifest = config_map("a")
    there = live_of(config_map("a", labels={"fleet.dev/stack": "billing"}))
    step = only(planned(manifest, None, there, adopt=True))
    assert step.verb is Verb.CONFLICT
    assert "billing" in step.reason


def test_what_somebody_makes_so_again_and_again_is_a_conflict_even_with_adopt() -> None:
    """Two who apply one object would take turns for ever."""
    manifest = config_map("a")
    apps = live_of(config_map("a", labels={"fleet.dev/app": "kv"}), manager="fleet-operator")
    step = only(planned(manifest, None, apps, adopt=True))
    assert (step.verb, step.manifest) == (Verb.CONFLICT, None)
    assert "belongs to the app kv" in step.reason
    controlled = live_of(config_map("a", labels={}), manager="controller")
    controlled["metadata"]["ownerReferences"] = [{"kind": "Widget", "name": "w", "uid": "u2", "controller": True}]
    step = only(planned(manifest, None, controlled, adopt=True))
    assert step.verb is Verb.CONFLICT
    assert "belongs to Widget w, which manages it" in step.reason


def test_what_was_deleted_and_made_anew_by_another_is_a_conflict() -> None:
    manifest = config_map("a")
    there = live_of(config_map("a", labels={}), uid="u2", manager="kubectl-create")
    step = only(planned(manifest, inventory(entry_of(manifest)), there))
    assert step.verb is Verb.CONFLICT
    assert "made anew by" in step.reason
    assert "kubectl-create" in step.reason


def test_an_intent_that_was_carried_out_before_a_crash_is_ours_and_gets_its_uid() -> None:
    manifest = config_map("a")
    made = planned(manifest, inventory(entry_of(manifest, uid="")), live_of(manifest, uid="u7"))
    assert only(made).verb is Verb.RECORD
    assert not made.empty
    assert [entry.uid for entry in made.target.entries] == ["u7"]


def test_an_intent_that_somebody_else_was_quicker_than_is_a_conflict() -> None:
    manifest = config_map("a")
    there = live_of(config_map("a", labels={}), manager="kubectl")
    assert only(planned(manifest, inventory(entry_of(manifest, uid="")), there)).verb is Verb.CONFLICT


def test_a_lost_inventory_is_made_again_from_objects_that_this_stack_applied() -> None:
    manifest = config_map("a")
    assert only(planned(manifest, None, live_of(manifest))).verb is Verb.ADOPT


def test_what_is_no_longer_wanted_is_deleted_with_both_preconditions() -> None:
    manifest = config_map("a")
    step = only(plan(desired(), inventory(entry_of(manifest)), {Key.of(manifest): live_of(manifest)}))
    assert (step.verb, step.uid, step.resource_version) == (Verb.DELETE, "u1", "10")


@pytest.mark.parametrize(
    ("known", "live"),
    [
        (entry_of(config_map("a"), retain=True), live_of(config_map("a"))),
        (entry_of(config_map("a")), live_of(config_map("a", labels={}), uid="u2", manager="other")),
        (entry_of(config_map("a"), uid=""), live_of(config_map("a", labels={}), manager="other")),
    ],
    ids=["retained", "made anew by another", "never ours"],
)
def test_it_is_forgotten_and_not_deleted_when(known: Entry, live: dict[str, Any] | None) -> None:
    made = plan(desired(), inventory(known), {known.key: live})
    assert only(made).verb is Verb.FORGET
    assert made.target.entries == ()
    assert not made.empty


def test_what_is_gone_already_is_only_dropped_from_the_inventory() -> None:
    known = entry_of(config_map("a"))
    made = plan(desired(), inventory(known), {known.key: None})
    assert only(made).verb is Verb.UNCHANGED
    assert made.target.entries == ()
    assert not made.empty


def test_a_namespace_and_a_volume_claim_are_never_deleted_without_a_word_in_git() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "orders"}}
    made = plan(desired(wanted(namespace)), None, {Key.of(namespace): None})
    assert made.steps[0].entry is not None
    assert made.steps[0].entry.retain
    word = {**namespace, "metadata": {"name": "orders", "annotations": {"fleet.dev/on-delete": "delete"}}}
    made = plan(desired(wanted(word)), None, {Key.of(namespace): None})
    assert made.steps[0].entry is not None
    assert not made.steps[0].entry.retain


def test_protected_objects_are_refused_with_a_reason_and_hold_back_other_deletions() -> None:
    one, two = config_map("a"), config_map("b")
    known = inventory(entry_of(one, protect=True), entry_of(two, uid="u2"))
    made = plan(desired(), known, {Key.of(one): live_of(one), Key.of(two): live_of(two, uid="u2")})
    verbs = {step.key.name: step for step in made.steps}
    assert verbs["a"].verb is Verb.CONFLICT
    assert verbs["a"].refused
    assert "protect=False" in verbs["a"].reason
    assert verbs["b"].verb is Verb.UNCHANGED
    assert made.target.entries == known.entries
    assert made.empty


def test_turning_protection_on_is_recorded_without_touching_the_object() -> None:
    manifest = config_map("a")
    made = planned(manifest, inventory(entry_of(manifest)), live_of(manifest), protect=True)
    assert only(made).verb is Verb.RECORD
    assert made.target.entries[0].protect
    assert not made.empty


def test_dependents_are_deleted_first() -> None:
    base, top = config_map("base"), config_map("top")
    known = inventory(entry_of(base), entry_of(top, uid="u2", after=(Key.of(base),)))
    made = plan(desired(), known, {Key.of(base): live_of(base), Key.of(top): live_of(top, uid="u2")})
    steps = {step.key.name: step for step in made.steps}
    assert steps["base"].depends_on == (Key.of(top),)
    assert steps["top"].depends_on == ()


def test_an_ignored_field_keeps_its_live_value() -> None:
    old, new = config_map("a", {"a": "1", "b": "1"}), config_map("a", {"a": "9", "b": "9"})
    known = inventory(entry_of(old, ignores=("data.a",)))
    step = only(planned(new, known, live_of(old), ignore_changes=("data.a",)))
    assert step.changes == (Change("data.b", "1", "9"),)
    assert step.manifest is not None
    assert step.manifest["data"] == {"a": "1", "b": "9"}


def test_what_is_ignored_is_recorded_and_to_ignore_it_no_more_is_a_change_of_git_s_and_no_drift() -> None:
    manifest, there = config_map("a", {"a": "1"}), live_of(config_map("a", {"a": "30"}))
    made = planned(manifest, inventory(entry_of(manifest)), there, ignore_changes=("data.a",))
    assert only(made).verb is Verb.RECORD
    assert only(made).changes == (Change("opts.ignore_changes", [], ["data.a"]),)
    assert made.target.entries[0].ignores == ("data.a",)
    made = planned(manifest, made.target, there)
    assert (only(made).verb, only(made).changes[0]) == (Verb.UPDATE, Change("data.a", "30", "1"))
    assert not is_drift(made, only(made))
    made = planned(manifest, made.target, there)
    assert is_drift(made, only(made)), "it was not ignored any more when somebody changed it"


def test_an_ignored_field_that_somebody_took_over_is_not_sent() -> None:
    manifest = config_map("a", {"a": "1", "b": "1"})
    there = live_of(config_map("a", {"b": "1"}))
    there["data"]["a"] = "5"
    new = config_map("a", {"a": "1", "b": "2"})
    step = only(planned(new, inventory(entry_of(manifest)), there, ignore_changes=("data.a",)))
    assert step.manifest is not None
    assert step.manifest["data"] == {"b": "2"}


def test_a_renamed_object_keeps_its_place_in_the_cluster() -> None:
    old, new = config_map("old"), config_map("new")
    dependent = config_map("user")
    objects = (wanted(new, aliases=(Key.of(old),)), wanted(dependent, depends_on=(Key.of(new),)))
    live = {Key.of(old): live_of(old), Key.of(new): None, Key.of(dependent): None}
    assert set(keys_to_read(desired(*objects), None)) == set(live)
    made = plan(desired(*objects), inventory(entry_of(old)), live)
    assert [(step.verb, step.key.name) for step in made.steps] == [(Verb.UNCHANGED, "old"), (Verb.CREATE, "user")]
    assert "new" in made.steps[0].reason
    assert made.steps[1].depends_on == (Key.of(old),)


def app(name: str, **changes: Any) -> Object:
    labels = {"app.kubernetes.io/managed-by": "fleet", "fleet.dev/stack": "orders", **changes.pop("labels", {})}
    metadata = {"name": name, "namespace": "orders", "labels": labels}
    manifest = {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": metadata, "spec": {"version": "3.5"}}
    return replace(wanted(manifest), app="Etcd", **changes)


def test_a_renamed_app_is_an_update_once_and_no_news_after_it() -> None:
    before, after = app("orders"), app("orders", labels={"fleet.dev/name": "carts"})
    made = plan(desired(after), inventory(entry_of(before.manifest)), {before.key: live_of(before.manifest)})
    assert (only(made).verb, only(made).reason) == (
        Verb.UPDATE,
        "is carts in the stack and keeps its name in the cluster",
    )
    again = plan(desired(after), made.target, {after.key: live_of(after.manifest)})
    assert (only(again).verb, only(again).reason) == (Verb.UNCHANGED, "")


def test_an_app_that_has_another_name_in_the_cluster_than_its_addresses_say_is_refused() -> None:
    there, named = app("carts"), app("orders", aliases=(app("carts").key,), labels={"fleet.dev/name": "carts"})
    live = {there.key: live_of(there.manifest), named.key: None}
    made = plan(desired(named), inventory(entry_of(there.manifest)), live)
    assert (only(made).verb, only(made).key, only(made).refused) == (Verb.CONFLICT, there.key, True)
    assert "it is called orders in this cluster, and it is carts there" in only(made).reason
    assert made.target.entries == (entry_of(there.manifest),), "nothing of it is forgotten, and nothing is deleted"


def test_a_shared_namespace_is_used_and_neither_owned_nor_a_conflict() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shared"}}
    made = planned(namespace, None, live_of(namespace, manager="kubectl-create"))
    assert only(made).verb is Verb.UNCHANGED
    assert made.target.entries == ()
    assert made.empty


def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    manifest = config_map("a")
    there = live_of(manifest, deletionTimestamp="2026-01-01T00:00:00Z")
    step = only(planned(manifest, inventory(entry_of(manifest)), there))
    assert step.verb is Verb.CONFLICT
    assert "being deleted" in step.reason


def test_two_names_for_one_cluster_are_found_out() -> None:
    manifest = config_map("a")
    with pytest.raises(ConflictError, match="us-1"):
        plan(desired(wanted(manifest)), replace(inventory(), cluster="us-1"), {Key.of(manifest): None})


def test_a_renamed_cluster_is_recorded_under_its_new_name_once() -> None:
    manifest = config_map("a")
    old = replace(inventory(entry_of(manifest)), cluster="us-1")
    made = plan(
        desired(wanted(manifest)),
        old,
        {Key.of(manifest): live_of(manifest)},
        ownership=RepositoryOwnership(renamed_from=frozenset(["us-1"])),
    )
    assert only(made).verb is Verb.UNCHANGED
    assert not made.empty
    assert made.target.cluster == "eu-1"


def test_a_cluster_that_leaves_is_forgotten_whole() -> None:
    made = plan_removed_placement(inventory(entry_of(config_map("a"), protect=True), entry_of(config_map("b"))))
    assert {step.verb for step in made.steps} == {Verb.FORGET}
    assert made.target.entries == ()


def test_values_of_secrets_are_not_in_the_changes() -> None:
    def secret(text: str) -> dict[str, Any]:
        return {**config_map("a"), "kind": "Secret", "data": None, "stringData": {"password": text}}

    step = only(planned(secret("new"), inventory(entry_of(secret("old"))), live_of(secret("old"))))
    assert step.changes == (Change("data.password", "(redacted)", "(redacted)"),)
    assert "bmV3" not in repr(step)
