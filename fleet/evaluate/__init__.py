"""Run user code in processes of its own; data, or every problem with its file and line, comes out."""

from fleet.evaluate.evaluation import evaluate
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import ClusterData, Evaluation, Problem, Problems, Reads, RolloutData, StackResult
from fleet.repository.settings import Limits

__all__ = [
    "ClusterData",
    "Evaluation",
    "Limits",
    "Pool",
    "Problem",
    "Problems",
    "Reads",
    "RolloutData",
    "StackResult",
    "evaluate",
]
