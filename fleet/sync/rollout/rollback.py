"""Which files take a stack back, and whether it may.

A stack as it was at an earlier commit, and everything else as it is: which files that takes. Pure.

A stack is made from its own file and from what that reads. What other stacks read too is not its own, and stays as it
is; a file with several stacks cannot be taken back for one of them.

Where a stack may be taken back to by itself when a change makes a cluster ill, or why it may not. Pure.

It goes back one step: to the commit that was synced before, with other files of the stack, if it was well there. Not
further, for what was ill before is no place to go; and not from what is itself a way back, for two revisions that are
both ill would be exchanged for ever. All of that is in git: nobody has to remember it.

It goes back only for what the change did: an object that is ill and that the change did not touch, not even by way of
another object, has another cause. And no data goes with it: that is for a person to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from fleet.errors import ConfigurationError, NotFoundError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.names import GROUP
from fleet.objects.desired import Desired, Key
from fleet.plan import Plan
from fleet.plan.effect import effect_of
from fleet.plan.severity import Severity, severity_of
from fleet.repository.settings import FILE
from fleet.sync.result import ObjectHealth


@dataclass(frozen=True, slots=True)
class RollbackBase:
    """The files that a stack stands on at one revision, by path in the fleet's directory."""

    own: frozenset[str]
    shared: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rollback:
    changes: dict[str, bytes | None]  # by path; None: it was not there
    left: tuple[str, ...]  # files that differ and are left, because others read them too


def find_rollback_base(evaluation: Evaluation, stack: str, clusters: frozenset[str]) -> RollbackBase:
    """`clusters` are the files of clusters, which are everybody's."""
    found = next((one for one in evaluation.stacks if one.name == stack), None)
    if found is None:
        raise NotFoundError(f"there is no stack {stack!r} there")
    file = found.source.file
    beside = [one.name for one in evaluation.stacks if one.source.file == file and one.name != stack]
    if beside:
        raise ConfigurationError(
            f"{file} has the stack {beside[0]} too, which would be rolled back with {stack}",
            hint="revert the commit by hand: git revert; or give each stack a file of its own",
        )
    read = {one.file: {one.file, *one.files} for one in evaluation.reads}
    others = clusters.union({FILE}, *(files for other, files in read.items() if other != file))
    mine = read.get(file, {file})
    return RollbackBase(frozenset(mine - others), frozenset(mine & others))


def roll_back_files(
    now: RollbackBase, then: RollbackBase, here: Mapping[str, bytes], there: Mapping[str, bytes]
) -> Rollback:
    """From the files of both revisions, by path, as far as they belong to one of the grounds."""
    shared = now.shared | then.shared
    own = (now.own | then.own) - shared
    changes = {path: there.get(path) for path in sorted(own) if here.get(path) != there.get(path)}
    left = tuple(path for path in sorted(shared) if here.get(path) != there.get(path))
    return Rollback(changes, left)


def rollback_message(stack: str, revision: str, subject: str, changes: Mapping[str, bytes | None]) -> str:
    lines = [
        f"{path} {'is as it was' if content is not None else 'was not there'}" for path, content in changes.items()
    ]
    return f"Roll back {stack} to {revision[:8]}\n\nAs of {revision} ({subject}):\n" + "\n".join(lines) + "\n"


TRAILER = "Fleet-Rollback"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
# Kinds that act on whatever is in their namespace, without being named there.
_OF_THE_NAMESPACE = frozenset({"LimitRange", "NetworkPolicy", "ResourceQuota", "Role", "RoleBinding"})
# The API groups of Kubernetes itself, each by its name: many a custom resource's group ends with k8s.io, too.
_OF_KUBERNETES = frozenset(
    {
        *("", "apps", "autoscaling", "batch", "policy"),
        *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io"),
        *("authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"),
        *("flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io"),
        *("rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
        "storagemigration.k8s.io",
    }
)


class NoRollbackError(PolicyError):
    """It stays as it is, and a person has to look."""


class RollbackPendingError(NoRollbackError):
    """What it has is a way back already: it may take a moment until that is well."""


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """A commit that was synced, as far as the stack is concerned."""

    revision: str
    was_well: bool  # it was applied wherever it was tried, and healthy by the engine's own word
    same: bool  # the stack stood on the same files as it does now


def find_way_back(past: Iterable[CommitHistory], *, is_rollback: bool) -> str:
    """The commit to go back to. `past` is newest first; `is_rollback`: what it has now is one already."""
    known = list(past)
    if is_rollback:
        raise RollbackPendingError("what it has is a rollback already")
    at = next((number for number, one in enumerate(known) if not one.same), None)
    if at is None:
        raise NoRollbackError("there is nothing to go back to: no earlier commit of it is known that was synced")
    former = next((one for one in known[at:] if one.same and one.was_well), None)
    if former is not None:
        raise NoRollbackError(f"its files are as they were at {former.revision[:8]}, where it was well")
    if not known[at].was_well:
        raise NoRollbackError(f"there is nothing to go back to: it was not well at {known[at].revision[:8]} either")
    return known[at].revision


def rollback_trailer(stack: str, revision: str) -> str:
    """The last line of the commit, by which it is known for what it is."""
    return f"{TRAILER}: {stack} {revision}\n"


def is_rollback(message: str, stack: str) -> bool:
    return any(line.startswith(f"{TRAILER}: {stack} ") for line in message.splitlines())


def check_cause(before: Desired | None, after: Desired, ill: Iterable[ObjectHealth]) -> None:
    """Raise NoWayBackError if the change from `before` to `after` cannot be why these objects of a cluster are ill.

    Without objects it is not known which are ill: then it is enough that the change touched any.
    """
    reached = _reached(after, _touched(before, after))
    names = {(key.kind, key.namespace, key.name) for key in reached}
    known = {(key.kind, key.namespace, key.name) for one in after.objects for key in (one.key, *one.aliases)}
    objects = [one for one in ill if (one.kind, one.namespace, one.name) in known]
    if not reached:
        raise NoRollbackError(f"the change touched nothing of it in {after.cluster}")
    if objects and not any((one.kind, one.namespace, one.name) in names for one in objects):
        raise NoRollbackError(
            f"the change touched neither {objects[0].title}, which is {objects[0].state}, nor what it depends on"
        )


def check_data(back: Plan) -> None:
    """Raise NoWayBackError if the way back, as a plan for one cluster, deletes data or is refused by an engine.

    What another operator does when its custom resource is deleted is not known, and may be to delete volumes.
    """
    for step in back.steps:
        if step.refused:
            raise NoRollbackError(f"{back.cluster}: {step.key} {step.reason}")
        if severity_of(step) in (Severity.LOSE, Severity.DATA):
            raise NoRollbackError(
                f"that would take data away in {back.cluster}: {step.key}: {effect_of(step).words}; if that is meant, "
                f"say it yourself: fleet rollback {back.stack}, and merge what it makes"
            )
        if severity_of(step) is Severity.DELETE and step.key.group not in {GROUP, *_OF_KUBERNETES}:
            raise NoRollbackError(
                f"that would delete {step.key} in {back.cluster}, and what its operator then does with its data is not "
                f"known; if that is meant, say it yourself: fleet rollback {back.stack}, and merge what it makes"
            )


def _touched(before: Desired | None, after: Desired) -> set[Key]:
    """The objects that the two want different things of, or that only one of them has."""
    old = {one.key: one.manifest for one in before.objects} if before else {}
    new = {one.key: one.manifest for one in after.objects}
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _reached(desired: Desired, touched: Set[Key]) -> set[Key]:
    """Those, and whatever depends on them: by `depends_on`, by a name in its manifest, or by its namespace."""
    reached = set(touched)
    rest = {one.key: (one, _names_in(one.manifest)) for one in desired.objects if one.key not in touched}
    while True:
        names = {key.name for key in reached}
        spaces = {key.name for key in reached if key.kind == "Namespace"}
        spaces |= {key.namespace for key in reached if key.kind in _OF_THE_NAMESPACE}
        more = [
            key
            for key, (one, mentioned) in rest.items()
            if key.namespace in spaces or not reached.isdisjoint(one.depends_on) or not names.isdisjoint(mentioned)
        ]
        if not more:
            return reached | {alias for one in desired.objects if one.key in reached for alias in one.aliases}
        for key in more:
            del rest[key]
        reached.update(more)


def _names_in(manifest: dict[str, Any]) -> set[str]:
    """Whatever may be the name of another object: also the first parts of an address."""
    body = [value for field, value in manifest.items() if field not in ("apiVersion", "kind", "metadata")]
    words = {word for value in body for text in _texts(value) for word in _NAME.findall(text)}
    parts = [word.split(".") for word in words]
    return {".".join(part[:count]) for part in parts for count in range(1, len(part) + 1)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
