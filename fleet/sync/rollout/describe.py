"""The way that a change takes through the clusters of a stack, in words for whoever looks at a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.evaluate.result import RolloutData, StackResult
from fleet.sync.result import Result
from fleet.times import seconds


def describe_rollouts(stacks: Iterable[StackResult], results: Iterable[Result]) -> list[str]:
    """A line for each stack that has something to do and whose rollout has something to say."""
    moving = {one.stack for one in results if one.plan and any(step.verb.writes for step in one.plan.steps)}
    lines = ((one.name, describe_rollout(one.rollout, one.name)) for one in stacks if one.name in moving)
    return [f"{name}: {words}" for name, words in lines if words]


def describe_rollout(rollout: RolloutData, stack: str) -> str:
    """ "wave 1: eu, then wave 2: us-1, us-2 (after fleet approve orders 2); each is watched for 5m"; "" for at once.

    Clusters in no wave come last, and are named as such: one may have been forgotten.
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
