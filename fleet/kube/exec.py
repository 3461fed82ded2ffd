"""A command run in a container of a pod: an argument vector, never a shell, with its output as it comes.

It runs over a websocket with Kubernetes' v5.channel.k8s.io, which all servers since 1.31 speak: the first byte of a
message says which stream it belongs to. The caller needs the right to exec; the operator has it nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from fleet.errors import ResourceError
from fleet.kube.client.client import Client

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, RESULT, CLOSE = 0, 1, 2, 3, 255


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the container that it runs in."""

    namespace: str
    pod: str
    container: str
    argv: Sequence[str]

    def path(self, *, stdin: bool) -> str:
        query = [("command", part) for part in self.argv]
        query += [("container", self.container), ("stdout", "true"), ("stderr", "true"), ("stdin", str(stdin).lower())]
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec?{urlencode(query)}"


async def execute(
    client: Client,
    command: Command,
    *,
    out: Callable[[bytes], object],
    err: Callable[[bytes], object],
    stdin: AsyncIterator[bytes] | None = None,
) -> int:
    """Run the command and return its exit code. `out` and `err` get its output, `stdin` is its input.

    Raise ResourceError if it could not be started or the connection broke before its end.
    """
    import aiohttp  # noqa: PLC0415 - slow to load

    async with client.websocket(command.path(stdin=stdin is not None), [PROTOCOL]) as socket:
        sending = asyncio.create_task(_send_input(socket, stdin)) if stdin is not None else None
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, data = message.data[0], message.data[1:]
                if channel == RESULT:
                    return exit_code(orjson.loads(data))
                if data and channel in (STDOUT, STDERR):
                    (out if channel == STDOUT else err)(data)
        finally:
            if sending is not None:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await sending
    raise ResourceError(f"{client.place}: the connection to {command.pod} broke before {command.argv[0]} ended")


def exit_code(status: dict[str, Any]) -> int:
    """Return the exit code in the connection's last Status; raise ResourceError if the command did not start."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ResourceError(f"the command could not be run: {status.get('message', 'no reason given')}")


async def _send_input(socket: Any, stdin: AsyncIterator[bytes]) -> None:
    async for data in stdin:
        await socket.send_bytes(bytes([STDIN]) + data)
    await socket.send_bytes(bytes([CLOSE, STDIN]))
