"""Rollback of one stack: which files it changes, to which commit it may go by itself, and whether it may at all. Pure.

The files take a stack back to an earlier commit and leave everything else as it is. A stack is made from its own file
and from what that file reads. What other stacks read too is not its own, and stays as it is; a file with several stacks
cannot be rolled back for one of them.

When a change makes a cluster unhealthy, the stack goes back by itself one step: to the commit that was synced before,
with other files of the stack, if it was healthy there. It does not go further, because a state that was unhealthy
before is no target. And it does not go back from a rollback, because two unhealthy revisions would replace each other
for ever. All of that is in git; no process has to remember it.

It goes back only for what the change did. If the change did not touch an unhealthy object, not even by way of another
object, then the cause is another one. And it never deletes data: only a user may decide that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from fleet.errors import ConfigurationError, NotFoundError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.names import GROUP
from fleet.objects.compare import Change, parse_quantity
from fleet.objects.desired import Desired, Key
from fleet.plan import Plan
from fleet.plan.effect import Severity, effect_of, severity_of
from fleet.repository.settings import FILE
from fleet.sync.result import ObjectHealth


@dataclass(frozen=True, slots=True)
class RollbackBase:
    """Files that a stack is made from at one revision, by path in the fleet's directory."""

    own: frozenset[str]
    shared: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Changes of files that roll a stack back."""

    changes: dict[str, bytes | None]  # content by path; None if the file did not exist
    left: tuple[str, ...]  # files that differ and are left as they are, because other stacks read them too


def find_rollback_base(evaluation: Evaluation, stack: str, clusters: frozenset[str]) -> RollbackBase:
    """Return the files that the stack is made from; `clusters` are the files of clusters, which all stacks share.

    Raise NotFoundError for an unknown stack, ConfigurationError if its file has another stack.
    """
    stack_result = next((result for result in evaluation.stacks if result.name == stack), None)
    if stack_result is None:
        raise NotFoundError(f"there is no stack {stack!r} there")
    file = stack_result.source.file
    neighbours = [result.name for result in evaluation.stacks if result.source.file == file and result.name != stack]
    if neighbours:
        raise ConfigurationError(
            f"{file} has the stack {neighbours[0]} too, which would be rolled back with {stack}",
            hint="revert the commit by hand: git revert; or give each stack a file of its own",
        )
    read = {entry.file: {entry.file, *entry.files} for entry in evaluation.reads}
    shared_files = clusters.union({FILE}, *(files for path, files in read.items() if path != file))
    read_files = read.get(file, {file})
    return RollbackBase(frozenset(read_files - shared_files), frozenset(read_files & shared_files))


def roll_back_files(
    now: RollbackBase, then: RollbackBase, files_now: Mapping[str, bytes], files_then: Mapping[str, bytes]
) -> Rollback:
    """Return the rollback, from the contents of the files of both bases, by path."""
    shared = now.shared | then.shared
    own = (now.own | then.own) - shared
    changes = {path: files_then.get(path) for path in sorted(own) if files_now.get(path) != files_then.get(path)}
    left = tuple(path for path in sorted(shared) if files_now.get(path) != files_then.get(path))
    return Rollback(changes, left)


def rollback_message(stack: str, revision: str, subject: str, changes: Mapping[str, bytes | None]) -> str:
    """Return the commit message of a rollback."""
    lines = [
        f"{path} {'is as it was' if content is not None else 'was not there'}" for path, content in changes.items()
    ]
    return f"Roll back {stack} to {revision[:8]}\n\nAs of {revision} ({subject}):\n" + "\n".join(lines) + "\n"


TRAILER = "Fleet-Rollback"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
# Kinds that act on every object in their namespace, without being named there.
_OF_THE_NAMESPACE = frozenset({"LimitRange", "NetworkPolicy", "ResourceQuota", "Role", "RoleBinding"})
# The API groups of Kubernetes itself, by full name: groups of many custom resources end with k8s.io, too.
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
    """Error for a stack that stays as it is, so that a user has to decide."""


class RollbackPendingError(NoRollbackError):
    """Error for a stack that has a rollback already, which may need a moment to become healthy."""


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """Commit that was synced, as far as the stack is concerned."""

    revision: str
    was_well: bool  # applied wherever it was tried, and reported healthy by the engine
    same: bool  # the stack had the same files as it has now


def find_way_back(past: Iterable[CommitHistory], *, is_rollback: bool) -> str:
    """Return the commit to go back to; raise NoRollbackError if there is none.

    `past` is newest first. `is_rollback`: what the stack has now is a rollback already.
    """
    commits = list(past)
    if is_rollback:
        raise RollbackPendingError("what it has is a rollback already")
    position = next((number for number, commit in enumerate(commits) if not commit.same), None)
    if position is None:
        raise NoRollbackError("there is nothing to go back to: no earlier commit of it is known that was synced")
    former = next((commit for commit in commits[position:] if commit.same and commit.was_well), None)
    if former is not None:
        raise NoRollbackError(f"its files are as they were at {former.revision[:8]}, where it was well")
    if not commits[position].was_well:
        raise NoRollbackError(
            f"there is nothing to go back to: it was not well at {commits[position].revision[:8]} either"
        )
    return commits[position].revision


def rollback_trailer(stack: str, revision: str) -> str:
    """Return the last line of a rollback's commit message, which identifies it."""
    return f"{TRAILER}: {stack} {revision}\n"


def is_rollback(message: str, stack: str) -> bool:
    """Return whether the commit message is of a rollback of the stack."""
    return any(line.startswith(f"{TRAILER}: {stack} ") for line in message.splitlines())


def check_cause(before: Desired | None, after: Desired, ill: Iterable[ObjectHealth]) -> None:
    """Raise NoRollbackError if the change from `before` to `after` cannot be why these objects are unhealthy.

    Without objects it is not known which ones are: then it is enough that the change touched any.
    """
    affected = _affected_keys(after, _changed_keys(before, after))
    names = {(key.kind, key.namespace, key.name) for key in affected}
    own_names = {(key.kind, key.namespace, key.name) for obj in after.objects for key in (obj.key, *obj.aliases)}
    objects = [health for health in ill if (health.kind, health.namespace, health.name) in own_names]
    if not affected:
        raise NoRollbackError(f"the change touched nothing of it in {after.cluster}")
    if objects and not any((health.kind, health.namespace, health.name) in names for health in objects):
        raise NoRollbackError(
            f"the change touched neither {objects[0].title}, which is {objects[0].state}, nor what it depends on"
        )


def check_data(back: Plan) -> None:
    """Raise NoRollbackError if the rollback, as a plan for one cluster, deletes data or is refused by an engine.

    What another operator does when its custom resource is deleted or asks for less is not known; it may delete volumes.
    """
    for step in back.steps:
        if step.refused:
            raise NoRollbackError(f"{back.cluster}: {step.key} {step.reason}")
        if severity_of(step) in (Severity.LOSE, Severity.DATA):
            raise NoRollbackError(
                f"that would take data away in {back.cluster}: {step.key}: {effect_of(step).words}; if that is meant, "
                f"say it yourself: fleet rollback {back.stack}, and merge what it makes"
            )
        if step.key.group in {GROUP, *_OF_KUBERNETES}:
            continue
        less = next((change.path for change in step.changes if _asks_for_less(change)), "")
        if severity_of(step) is Severity.DELETE or less:
            does = f"ask for less in {less} of" if less else "delete"
            raise NoRollbackError(
                f"that would {does} {step.key} in {back.cluster}, and what its operator then does with its data is not "
                f"known; if that is meant, say it yourself: fleet rollback {back.stack}, and merge what it makes"
            )


def _asks_for_less(change: Change) -> bool:
    """Return whether a change of a custom resource takes anything away from what it asks for."""
    return not change.path.startswith("metadata.") and _is_less(change.before, change.after)


def _is_less(before: Any, after: Any) -> bool:
    """Return whether a value lacks something of an earlier one: a number or quantity is smaller, an entry is gone."""
    match before, after:
        case dict(), dict():
            return any(_is_less(value, after.get(name)) for name, value in before.items())
        case list(), list():
            return len(after) < len(before) or any(map(_is_less, before, after))
        case (None | bool(), _) | (_, bool()):
            return before is not None and after is None
    if after is None:
        return True
    earlier, later = parse_quantity(str(before)), parse_quantity(str(after))
    return earlier is not None and later is not None and later < earlier


def _changed_keys(before: Desired | None, after: Desired) -> set[Key]:
    """Return the objects that only one of both has, or for which their manifests differ."""
    old = {obj.key: obj.manifest for obj in before.objects} if before else {}
    new = {obj.key: obj.manifest for obj in after.objects}
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _affected_keys(desired: Desired, touched: Set[Key]) -> set[Key]:
    """Return these objects and all that depend on them: by `depends_on`, by a name in a manifest, or by namespace."""
    affected = set(touched)
    unaffected = {obj.key: (obj, _find_names(obj.manifest)) for obj in desired.objects if obj.key not in touched}
    while True:
        names = {key.name for key in affected}
        namespaces = {key.name for key in affected if key.kind == "Namespace"}
        namespaces |= {key.namespace for key in affected if key.kind in _OF_THE_NAMESPACE}
        dependents = [
            key
            for key, (obj, names_in_manifest) in unaffected.items()
            if key.namespace in namespaces
            or not affected.isdisjoint(obj.depends_on)
            or not names.isdisjoint(names_in_manifest)
        ]
        if not dependents:
            return affected | {alias for obj in desired.objects if obj.key in affected for alias in obj.aliases}
        for key in dependents:
            del unaffected[key]
        affected.update(dependents)


def _find_names(manifest: dict[str, Any]) -> set[str]:
    """Return every text that may be the name of another object, the first parts of an address included."""
    values = [value for field, value in manifest.items() if field not in ("apiVersion", "kind", "metadata")]
    tokens = {token for value in values for text in _iterate_texts(value) for token in _NAME.findall(text)}
    parts = [token.split(".") for token in tokens]
    return {".".join(part[:count]) for part in parts for count in range(1, len(part) + 1)}


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield every text in the value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iterate_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iterate_texts(item)
