"""A client of etcd as tests have it: with what the operator never asks, which is to read and to write keys."""

from __future__ import annotations

from base64 import b64decode, b64encode

from fleet.apps.etcd.engine.protocol import Alarm, Endpoint, Etcd


class EtcdClient(Etcd):
    """The operator's client, and keys."""

    async def put(self, endpoint: Endpoint, key: str, value: str | bytes) -> None:
        content = value.encode() if isinstance(value, str) else value
        await self._call(endpoint, "kv/put", {"key": _encode(key.encode()), "value": _encode(content)})

    async def get(self, endpoint: Endpoint, key: str) -> bytes | None:
        values = (await self._read(endpoint, "kv/range", {"key": _encode(key.encode())})).get("kvs", ())
        return b64decode(values[0].get("value", "")) if values else None

    async def count(self, endpoint: Endpoint, prefix: str) -> int:
        """Return how many keys begin with `prefix`, which is not empty."""
        begin = prefix.encode()
        end = begin[:-1] + bytes([begin[-1] + 1])
        question = {"key": _encode(begin), "range_end": _encode(end), "count_only": True}
        return int((await self._read(endpoint, "kv/range", question)).get("count", 0))

    async def alarms(self, endpoint: Endpoint) -> tuple[Alarm, ...]:
        """Return all alarms. The question goes through the log of all members."""
        body = await self._read(endpoint, "maintenance/alarm", {"action": "GET"})
        return tuple(Alarm(int(alarm.get("memberID", 0)), alarm["alarm"]) for alarm in body.get("alarms", ()))


def _encode(content: bytes) -> str:
    return b64encode(content).decode()
