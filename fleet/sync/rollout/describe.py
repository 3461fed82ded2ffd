"""Description of how a change reaches the clusters of a stack, for the user who reads a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.evaluate.result import RolloutData, StackResult
from fleet.sync.result import Result
from fleet.times import seconds


def describe_rollouts(stacks: Iterable[StackResult], results: Iterable[Result]) -> list[str]:
    """Return a line for each stack that has something to do and whose rollout is not simply at once."""
    changing = {
        result.stack for result in results if result.plan and any(step.verb.writes for step in result.plan.steps)
    }
    lines = ((stack.name, describe_rollout(stack.rollout, stack.name)) for stack in stacks if stack.name in changing)
    return [f"{name}: {text}" for name, text in lines if text]


def describe_rollout(rollout: RolloutData, stack: str) -> str:
    """Describe the rollout, as "wave 1: eu, then wave 2: us-1, us-2 (after fleet approve orders 2)"; "" for at once.

    Clusters in no wave come last, and are named as such: the user may have forgotten one.
    """
    parts = []
    if len(rollout.waves) > 1 or rollout.approve:
        waves = [
            f"wave {number}: {', '.join(names)}"
            + (" (in no wave)" * (rollout.rest and number == len(rollout.waves)))
            + (f" (after fleet approve {stack} {number})" * (number in rollout.approve))
            for number, names in enumerate(rollout.waves, start=1)
        ]
        parts.append(", then ".join(waves))
    elif rollout.max_unavailable and rollout.waves and len(rollout.waves[0]) > rollout.max_unavailable:
        parts.append(f"{', '.join(rollout.waves[0])}, {rollout.max_unavailable} at a time")
    if len(rollout.waves) > 1 and seconds(rollout.soak):
        parts.append(f"each has to stay healthy for {rollout.soak}")
    if rollout.windows:
        parts.append(f"only {' and '.join(rollout.windows)} {rollout.timezone}")
    if rollout.freeze:
        parts.append("frozen: nothing of it is changed")
    return "; ".join(parts)
