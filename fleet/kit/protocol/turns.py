"""Requests to a cluster as a whole: which member to ask, and when to ask the next one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fleet.kit.observe.observation import Observation
from fleet.kit.protocol.endpoint import Endpoint, MemberRefused


def pods_to_ask(observation: Observation[Any]) -> list[str]:
    """Return the pods of members that answered: the leader first if it is known, since the others would ask it too."""
    pods = (observation.leader, *observation.healthy_pods, *observation.states)
    return list(dict.fromkeys(pod for pod in pods if pod is not None))


async def ask_in_turn(
    endpoints: Sequence[Endpoint],
    request: Callable[[Endpoint], Awaitable[object]],
    is_unsure: Callable[[MemberRefused], bool],
) -> None:
    """Ask one member after the other, until one does not refuse because it is unsure of the cluster.

    Each judges by its own connections, and can be wrong for as long as it runs: a message that was under way to a
    member's old address fails late, and marks a peer as silent that speaks again over another connection. Such a
    refusal changed nothing, so the next one can be asked. What the last one says is raised.
    """
    *others, last = endpoints
    for endpoint in others:
        try:
            await request(endpoint)
        except MemberRefused as refusal:
            if not is_unsure(refusal):
                raise
        else:
            return
    await request(last)
