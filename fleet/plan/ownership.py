"""Ownership of an object and of a stack; conflicts between stacks and between repositories. Pure.

Whose an object is has one answer, from the inventory, the UID and the managers that the server recorded.

A stack's name is not enough to know whose it is: two repositories may have a stack of the same name. Its inventory
names its repository. A stack without one (made before owners were recorded) is taken with the next change; one of
another repository is refused, unless the user names that one.

Who the two fleets are that want one object is read from the inventories of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from fleet.errors import ConflictError, Source
from fleet.names import APP, STACK
from fleet.objects.fields import other_managers, owned_fields
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import Plan, Step, Verb


class Owner(Enum):
    """Whose an object is."""

    OURS = auto()
    LOST = auto()  # applied by this stack, but not (or with another UID) in the inventory
    FOREIGN = auto()  # never applied by us
    OTHER_STACK = auto()


@dataclass(frozen=True, slots=True)
class Ownership:
    owner: Owner
    name: str  # in words, for FOREIGN and OTHER_STACK
    remade: bool = False  # the inventory knows an object of this name with another UID


OURS = Ownership(Owner.OURS, "")


def determine_ownership(stack: str, entry: Entry | None, live: dict[str, Any]) -> Ownership:
    """Return whose a live object is."""
    metadata = live["metadata"]
    if entry and entry.uid == metadata["uid"]:  # almost always
        return OURS
    applied_by_us = owned_fields(live) is not None
    label = metadata.get("labels", {}).get(STACK, "")
    if entry and not entry.uid and applied_by_us and label in ("", stack):
        return OURS
    remade = bool(entry and entry.uid)
    if applied_by_us and label == stack:
        return Ownership(Owner.LOST, "", remade)
    if applied_by_us and label:
        return Ownership(Owner.OTHER_STACK, f"stack {label}", remade)
    return Ownership(Owner.FOREIGN, _describe_owner(live), remade)


def controller_of(live: dict[str, Any]) -> str:
    """Return what makes the object as it is again and again, and would go on: a controller, or the operator of an app;
    "" if nothing does.
    """
    metadata = live["metadata"]
    if controller := _owner_reference(live):
        return f"{controller}, which manages it"
    app = (metadata.get("labels") or {}).get(APP)
    return f"the app {app}, whose operator manages it" if app else ""


def _owner_reference(live: dict[str, Any]) -> str:
    references = live["metadata"].get("ownerReferences") or ()
    return next(
        (f"{reference['kind']} {reference['name']}" for reference in references if reference.get("controller")), ""
    )


def _describe_owner(live: dict[str, Any]) -> str:
    """Return who made the object, as far as the server knows: its controller, else its field managers."""
    controller = _owner_reference(live)
    managers = ", ".join(other_managers(live))
    if controller:
        return f"{controller} (field managers: {managers})" if managers else controller
    return f"field manager {managers}" if managers else "an unknown manager"


@dataclass(frozen=True, slots=True)
class RepositoryOwnership:
    """The repository that a plan is made for, and former names that a user confirmed."""

    repository: str = ""  # its identity; "": not known, and then it owns only what no repository owns
    take_over: frozenset[str] = frozenset()  # repositories whose stacks become this one's
    renamed_from: frozenset[str] = frozenset()  # names that a cluster may have had before

    def covers(self, inventory: Inventory) -> bool:
        """Return whether the stack may be planned for this repository."""
        return inventory.repository in ("", self.repository) or inventory.repository in self.take_over

    def check(self, inventory: Inventory, cluster: str, source: Source | None = None) -> None:
        """Raise ConflictError if the stack in this cluster belongs to another repository, or is known under another
        cluster's name.
        """
        if not self.covers(inventory):
            raise _repository_conflict(inventory, cluster, self.repository, source)
        if inventory.cluster != cluster and inventory.cluster not in self.renamed_from:
            raise ConflictError(
                f"stack {inventory.stack} is in cluster {cluster} already, under the name {inventory.cluster}",
                hint="are these two names for one cluster? Let each have its own kubeconfig context; "
                f"if the cluster was renamed, sync once with --renamed-from {inventory.cluster}",
                source=source,
            )


def _repository_conflict(inventory: Inventory, cluster: str, ours: str, source: Source | None) -> ConflictError:
    owner = inventory.repository
    this = f"this one is {ours}" if ours else "this one has no name, no remote and no commit"
    return ConflictError(
        f"stack {inventory.stack} in cluster {cluster} belongs to the repository {owner}, and {this}",
        hint="give the stack another name. If this is the same fleet under a new address, keep its name: "
        f'name = "{owner}" under [fleet] in fleet.toml. '
        f"To take the stack away from the other one, once: --take-over {owner}",
        source=source if source and source.file else None,
    )


def explain_conflicts(plan: Plan, inventories: Iterable[Inventory]) -> Plan:
    """Return the plan with its conflicts with other stacks explained by both names."""
    if not any(_is_stack_conflict(step) for step in plan.steps):
        return plan
    owners = {
        (entry.key, entry.uid): inventory
        for inventory in inventories
        if inventory.stack != plan.stack
        for entry in inventory.entries
    }
    steps = tuple(_explain_conflict(step, owners.get((step.key, step.uid or "")), plan) for step in plan.steps)
    return replace(plan, steps=steps)


def restore_explanations(plan: Plan, explained_plan: Plan) -> Plan:
    """Return the plan, made again under the Lease, with what was found about the same conflicts before."""
    explained = {step.key: step for step in explained_plan.steps if _is_stack_conflict(step)}
    steps = (
        step._replace(reason=explained[step.key].reason) if _is_stack_conflict(step) and step.key in explained else step
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps)) if explained else plan


def _is_stack_conflict(step: Step) -> bool:
    return step.verb is Verb.CONFLICT and not step.refused


def _explain_conflict(step: Step, owner: Inventory | None, plan: Plan) -> Step:
    if owner is None or not _is_stack_conflict(step):
        return step
    theirs, ours = (f" of the fleet {name}" if name else "" for name in (owner.repository, plan.owner))
    reason = f"belongs to stack {owner.stack}{theirs}, and stack {plan.stack}{ours} wants it too; it was not touched"
    return step._replace(reason=reason)
