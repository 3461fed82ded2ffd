"""What the stacks of some files want: as remembered, or by evaluating them.

What may be applied is evaluated twice, so that code whose result depends on chance or on the hour is told of before it
changes anything; and so whatever is remembered was found to be the same twice. Of a new commit only those files are
evaluated that can mean something else than in the newest commit before it that is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.errors import NotFoundError
from fleet.evaluate.result import Evaluation
from fleet.sync.source import Files

if TYPE_CHECKING:
    from fleet.evaluate.again import Before
    from fleet.git.repository import Repository as Git
    from fleet.repository import Repository

PAST = 5  # commits that are asked for, from the newest


def evaluated(files: Files, stacks: Sequence[str]) -> Evaluation:
    """Without problems: those are raised. With names, only those stacks."""
    if files.remembered is not None:
        return narrowed(files.remembered, stacks)
    from fleet.evaluate.pool import Pool  # noqa: PLC0415 - this and what follows is needed only now

    twice = bool(files.tree)
    with Pool(twice=twice) as pool:
        from fleet.evaluate.evaluation import evaluate  # noqa: PLC0415 - while the pool warms up

        before = _before(files) if twice else None
        names = list(stacks) or None
        evaluation = evaluate(files.repository, stacks=names, pool=pool, twice=twice, before=before).check()
    if files.tree and not stacks:
        from fleet.sync.remembered import remember  # noqa: PLC0415

        remember(files.tree, files.repository.settings, evaluation)
    return evaluation


def narrowed(evaluation: Evaluation, names: Sequence[str]) -> Evaluation:
    """As if only these stacks had been asked for."""
    known = {one.name for one in evaluation.stacks}
    for name in names:
        if name not in known:
            from fleet.suggestion import suggestion  # noqa: PLC0415 - only on the way to an error

            raise NotFoundError(f"there is no stack {name!r}", hint=suggestion(name, known) or "there are none")
    if not names:
        return evaluation
    return replace(evaluation, stacks=tuple(one for one in evaluation.stacks if one.name in names))


def holding(
    git: Git, before: Evaluation, repository: Repository, *, base: str, head: str, below: str = ""
) -> Before | None:
    """Return what of the evaluation of commit `base` holds for commit `head`, whose files `repository` has.

    `below` is the directory of the repository in git. The settings of both are the same.
    """
    from fleet.evaluate.again import still_true  # noqa: PLC0415
    from fleet.repository.read import FILE  # noqa: PLC0415

    top = f"{below}/" if below else ""
    changes = [(one.path.removeprefix(top), one.verb) for one in git.changes(base, head) if one.path.startswith(top)]
    return still_true(
        before,
        edited=(path for path, verb in changes if verb == "changed"),
        moved=(path for path, verb in changes if verb != "changed"),
        files=repository.stack_files(),
        of_all=(FILE, repository.settings.paths.lock),
    )


def _before(files: Files) -> Before | None:
    """Return what holds of the newest commit before this one that is remembered; None where none is."""
    from fleet.git.history import first_parents  # noqa: PLC0415
    from fleet.sync.remembered import recall  # noqa: PLC0415

    if files.git is None:
        return None
    past = first_parents(files.git, files.git.resolve(files.revision), files.below, most=PAST + 1)[:-1]
    for one in reversed(past):
        found = recall(one.tree) if one.tree else None
        if found is not None and found.settings == files.repository.settings:
            commits = {"base": one.commit, "head": files.revision}
            return holding(files.git, found.evaluation, files.repository, **commits, below=files.below)
    return None
