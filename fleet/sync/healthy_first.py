"""What depends on an app is applied when that is healthy as git wants it now: until then the step is left out.

Nobody waits for it here. Whoever looks next, because the app changed, goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fleet.kube.client import Client
from fleet.kube.health import State, judge
from fleet.kube.live import read_live
from fleet.plan.step import Step, Verb

WELL = frozenset({State.HEALTHY, State.SUSPENDED})


def healthy_first(client: Client) -> Callable[[Step], Awaitable[str]]:
    """Why a step waits: what it depends on is not healthy. "" when nothing keeps it."""

    async def hold(step: Step) -> str:
        if step.verb is Verb.DELETE or not step.depends_on:
            return ""
        live = await read_live(client, step.depends_on)
        for key in step.depends_on:
            found = live[key]
            health = judge(found)
            if found is not None and health.state not in WELL:  # what is not there has another name by now
                return f"{key} is {health.state}{f': {health.message}' if health.message else ''}"
        return ""

    return hold
