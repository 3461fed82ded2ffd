"""Talks to the members of an etcd: how to connect, how each is, who they are, and requests to change something."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial

from fleet.apps.etcd.engine.act import act
from fleet.apps.etcd.engine.observe import (
    EtcdObservation,
    endpoint,
    make_agreement,
    make_state,
    statuses_of,
)
from fleet.apps.etcd.engine.protocol import Etcd as Protocol
from fleet.apps.etcd.engine.protocol import Refused, Unreachable
from fleet.apps.etcd.engine.secrets import find_tls
from fleet.apps.etcd.spec import Etcd
from fleet.kit.observe.observation import Agreement, MemberState, Silence
from fleet.kit.observe.world import World
from fleet.kit.operate.engine import Allowed, Connector, Done, Progress
from fleet.kit.step import Act


class EtcdHalf:
    def connector(self, app: Etcd, world: World) -> Connector[Protocol] | None:
        tls = find_tls(app, world)
        return Connector(tls.mark, partial(_open, tls.make)) if tls is not None else None

    async def close(self, client: Protocol) -> None:
        await client.close()

    async def probe(self, client: Protocol, observation: EtcdObservation, pod: str) -> MemberState | Silence | None:
        place = endpoint(observation.app, observation.world, pod)
        if place is None:
            return None
        try:
            return make_state(await client.status(place))
        except Unreachable as problem:
            return Silence(problem.why)
        except Refused as problem:
            return Silence(problem.reason)

    async def membership(self, client: Protocol, observation: EtcdObservation) -> Agreement | None:
        """Return the first list that a majority stands behind: a member without a leader or a vote is not asked for
        one."""
        for pod, status in statuses_of(observation).items():
            place = endpoint(observation.app, observation.world, pod)
            if place is None or not status.leader or status.is_learner:
                continue
            try:
                return make_agreement(observation.app, await client.members(place))
            except (Unreachable, Refused):
                continue
        return None

    async def act(self, client: Protocol, observation: EtcdObservation, request: Act, allowed: Allowed) -> Progress:
        await act(client.guarded(allowed), observation, request)
        return Done()


async def _open(make: Callable[[], ssl.SSLContext] | None) -> Protocol:
    client = Protocol(make() if make else None)
    await client.__aenter__()
    return client
