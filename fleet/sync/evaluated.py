"""What the stacks of some files want: as remembered, or by evaluating them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet.errors import NotFoundError
from fleet.evaluate.result import Evaluation
from fleet.sync.source import Files


def evaluated(files: Files, stacks: Sequence[str]) -> Evaluation:
    """Without problems: those are raised. With names, only those stacks."""
    if files.remembered is not None:
        return narrowed(files.remembered, stacks)
    from fleet.evaluate.pool import Pool  # noqa: PLC0415 - this and what follows is needed only now

    with Pool() as pool:
        from fleet.evaluate.evaluation import evaluate  # noqa: PLC0415 - while the pool warms up
        from fleet.sync.ahead import load_ahead  # noqa: PLC0415

        load_ahead()
        evaluation = evaluate(files.repository, stacks=list(stacks) or None, pool=pool).check()
    if files.tree and not stacks:
        from fleet.sync.remembered import remember  # noqa: PLC0415

        remember(files.tree, files.repository.settings, evaluation)
    return evaluation


def narrowed(evaluation: Evaluation, names: Sequence[str]) -> Evaluation:
    """As if only these stacks had been asked for."""
    known = {one.name for one in evaluation.stacks}
    for name in names:
        if name not in known:
            from fleet.evaluate.checks import suggestion  # noqa: PLC0415 - only on the way to an error

            raise NotFoundError(f"there is no stack {name!r}", hint=suggestion(name, known))
    if not names:
        return evaluation
    return replace(evaluation, stacks=tuple(one for one in evaluation.stacks if one.name in names))
