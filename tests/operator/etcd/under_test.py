"""etcd for the tests on real nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from fleet.apps.etcd import DRIVER
from fleet.apps.etcd.engine.protocol import Endpoint, Etcd
from fleet.testing.traffic import MemberAddress
from tests.operator.app_on_nodes import App
from tests.operator.engine_under_test import EngineUnderTest
from tests.operator.etcd.traffic import EtcdTraffic

_COMMANDS = frozenset(
    {
        "cluster/member/add",
        "cluster/member/remove",
        "cluster/member/promote",
        "cluster/member/update",
        "maintenance/transfer-leadership",
        "maintenance/downgrade",
    }
)
_CHANGED = re.compile(r'"msg":"(added|removed) member".*?"(?:added-peer-id|removed-remote-peer-id)":"([0-9a-f]+)"')


def count_commands(carried_out: Callable[[str], None]) -> None:
    """Have a function called for each command of members and of leadership."""
    call = Etcd._call

    async def counted(
        self: Etcd, endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float | None = None
    ) -> dict[str, Any]:
        answer = await call(self, endpoint, path, body, seconds)
        if path in _COMMANDS:
            carried_out(f"etcd {path.rpartition('/')[2]}")
        return answer

    Etcd._call = counted  # type: ignore[method-assign]


ETCD = EngineUnderTest(
    DRIVER,
    EtcdTraffic(),
    source=f"{__name__}:ETCD",
    secrets=("ca", "connection", "peer", "server"),
    changes_in=_CHANGED.findall,
    count_commands=count_commands,
)


def election(app: App) -> tuple[int, str]:
    """How many there were, and who leads since the last, in the words of all members."""

    async def ask(place: MemberAddress) -> dict[str, Any]:
        async with asyncio.timeout(10):
            connection = await EtcdTraffic().connect(place, app.tls())
            try:
                return await connection.ask("maintenance/status", {})
            finally:
                connection.close()

    found: list[tuple[int, str]] = []

    def agreed() -> bool:
        told = {place.name.partition(".")[0]: asyncio.run(ask(place)) for place in app.places()}
        leaders = {pod for pod, one in told.items() if one["leader"] == one["header"]["member_id"]}
        terms = {int(one["raftTerm"]) for one in told.values()}
        found[:] = [(term, pod) for term in terms for pod in leaders]
        return len(found) == 1

    app.wait("members agree on who leads", agreed)
    return found[0]
