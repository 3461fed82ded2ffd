"""What depends on an app is applied when that is healthy as git wants it now.

Whoever has time waits here for that. Without, the step is left out: whoever looks next, because the app changed, goes
on.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

from fleet.kube.client import Client
from fleet.kube.health import Health, State, judge
from fleet.kube.live import read_around, read_live
from fleet.model.desired import Key
from fleet.plan.step import Step, Verb
from fleet.sync.waiting import OPERATOR_SECONDS

PAUSE = 1.0  # between two looks at one object, however many wait for it
_BY_EXISTING = frozenset(  # well as soon as they are there; most objects depend on such, and nobody has to look
    {
        *(("", kind) for kind in ("Namespace", "ConfigMap", "Secret", "ServiceAccount")),
        *(("rbac.authorization.k8s.io", kind) for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
    }
)

_UNSEEN = Health(State.UNKNOWN)
_ELSEWHERE = Health(State.HEALTHY, "what is not there has another name by now")


class HealthyFirst:
    """For the steps of one plan: why one is not done yet, after waiting so many seconds for what it depends on."""

    def __init__(self, client: Client, seconds: float = 0.0, tell: Callable[[str], None] = lambda reason: None) -> None:
        self._client = client
        self._seconds = seconds
        self._tell = tell
        self._found: dict[Key, tuple[Health, float]] = {}  # and when that was seen
        self._looking: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    def concerns(self, step: Step) -> bool:
        return step.verb is not Verb.DELETE and any(_may_be_ill(key) for key in step.depends_on)

    async def __call__(self, step: Step) -> str:
        """ "" when nothing keeps the step."""
        begun = time.monotonic()
        for key in filter(_may_be_ill, step.depends_on):
            while not (health := await self._health(key)).state.is_settled:
                reason = f"{key} is {health}"
                unreported = health.state is State.UNKNOWN
                patience = min(self._seconds, OPERATOR_SECONDS) if unreported else self._seconds
                if health.final or time.monotonic() - begun >= patience:
                    return reason
                self._tell(reason)
                await asyncio.sleep(PAUSE)
        return ""

    async def _health(self, key: Key) -> Health:
        """Found well once, it counts as that for the whole plan."""
        async with self._looking[key]:
            health, seen = self._found.get(key, (_UNSEEN, 0.0))
            if not health.is_settled and time.monotonic() - seen >= PAUSE:
                live = await read_live(self._client, (key,))
                around = await read_around(self._client, live)
                health = judge(live[key], around) if live[key] is not None else _ELSEWHERE
                self._found[key] = health, time.monotonic()
            return health


def _may_be_ill(key: Key) -> bool:
    return (key.group, key.kind) not in _BY_EXISTING
