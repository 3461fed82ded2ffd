"""A stack as it was at an earlier commit, and everything else as it is: which files that takes. Pure.

A stack is made from its own file and from what that reads. What other stacks read too is not its own, and stays as it
is; a file with several stacks cannot be taken back for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.errors import ConfigurationError, NotFoundError
from fleet.evaluate.result import Evaluation
from fleet.repository.read import FILE


@dataclass(frozen=True, slots=True)
class Ground:
    """The files that a stack stands on at one revision, by path in the fleet's directory."""

    own: frozenset[str]
    shared: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rollback:
    changes: dict[str, bytes | None]  # by path; None: it was not there
    left: tuple[str, ...]  # files that differ and are left, because others read them too


def ground(evaluation: Evaluation, stack: str, clusters: frozenset[str]) -> Ground:
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
    return Ground(frozenset(mine - others), frozenset(mine & others))


def rolled_back(now: Ground, then: Ground, here: Mapping[str, bytes], there: Mapping[str, bytes]) -> Rollback:
    """From the files of both revisions, by path, as far as they belong to one of the grounds."""
    shared = now.shared | then.shared
    own = (now.own | then.own) - shared
    changes = {path: there.get(path) for path in sorted(own) if here.get(path) != there.get(path)}
    left = tuple(path for path in sorted(shared) if here.get(path) != there.get(path))
    return Rollback(changes, left)


def message(stack: str, revision: str, subject: str, changes: Mapping[str, bytes | None]) -> str:
    lines = [
        f"{path} {'is as it was' if content is not None else 'was not there'}" for path, content in changes.items()
    ]
    return f"Roll back {stack} to {revision[:8]}\n\nAs of {revision} ({subject}):\n" + "\n".join(lines) + "\n"
