"""Evaluation of user code in processes of its own: the result is data, or every problem with its file and line.

Names are loaded when they are first used: a zygote, which is of this package too, starts without the parent's half.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.evaluate.evaluation import evaluate as evaluate
    from fleet.evaluate.pool import Pool as Pool
    from fleet.evaluate.result import ClusterData as ClusterData
    from fleet.evaluate.result import Evaluation as Evaluation
    from fleet.evaluate.result import Problem as Problem
    from fleet.evaluate.result import Problems as Problems
    from fleet.evaluate.result import Reads as Reads
    from fleet.evaluate.result import RolloutData as RolloutData
    from fleet.evaluate.result import StackResult as StackResult
    from fleet.repository.settings import Limits as Limits

_RESULT = ("ClusterData", "Evaluation", "Problem", "Problems", "Reads", "RolloutData", "StackResult")
_HOME = {
    "evaluate": "fleet.evaluate.evaluation",
    "Pool": "fleet.evaluate.pool",
    **dict.fromkeys(_RESULT, "fleet.evaluate.result"),
    "Limits": "fleet.repository.settings",
}

__all__ = [  # noqa: PLE0604 - one list, made from the table above
    *sorted(_HOME)
]


def __getattr__(name: str) -> object:
    """Return a public name of the package, and load its module first; raise AttributeError for any other name."""
    if name not in _HOME:
        raise AttributeError(f"module 'fleet.evaluate' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
