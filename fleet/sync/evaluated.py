"""What the stacks of some files want: as remembered, or by evaluating them.

What may be applied is evaluated twice, so that code whose result depends on chance or on the hour is told of before it
changes anything; and so whatever is remembered was found to be the same twice.
"""

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

    twice = bool(files.tree)
    with Pool(twice=twice) as pool:
        from fleet.evaluate.evaluation import evaluate  # noqa: PLC0415 - while the pool warms up
        from fleet.sync.ahead import load_ahead  # noqa: PLC0415

        load_ahead()
        evaluation = evaluate(files.repository, stacks=list(stacks) or None, pool=pool, twice=twice).check()
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
