"""Connections that become something else after a request, as those for commands in pods do: bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from email.parser import BytesParser

from aiohttp import web

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_CHUNK = 1 << 16


def says_who(name: str) -> bool:
    """Whether a header, in lower case, is about who asks. That is not for the client to say to the server."""
    return name == "authorization" or name.startswith("x-remote-")


class _Onwards:
    """What aiohttp calls a parser: it gets what comes from the client."""

    def __init__(self, server: asyncio.StreamWriter) -> None:
        self._server = server

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._server.write(data)
        return False, b""

    def feed_eof(self) -> None:
        self._server.close()


async def tunnel(
    request: web.BaseRequest, connect: Connect, identity: Sequence[tuple[str, str]], note: Callable[[int], None]
) -> web.StreamResponse:
    """Ask for the other protocol. If the server agrees, pass on what either side says, until one has enough."""
    reader, writer = await connect()
    try:
        writer.write(_head(request, identity))
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        status = int(first.split()[1])
        note(status)
        if status != 101:
            said = BytesParser().parsebytes(rest, headersonly=True)
            body = await reader.readexactly(int(said.get("Content-Length") or 0))
            return web.Response(status=status, body=body, headers={"Content-Type": said.get_content_type()})
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        request.protocol.set_parser(_Onwards(writer))  # type: ignore[arg-type]  # all that it is asked for
        transport.write(head)
        while data := await reader.read(_CHUNK):
            transport.write(data)
            await request.protocol._drain_helper()
        transport.close()
        return web.Response()  # to nobody
    except asyncio.IncompleteReadError as broken:
        raise ConnectionResetError from broken
    finally:
        with contextlib.suppress(OSError):
            writer.close()


def _head(request: web.BaseRequest, identity: Sequence[tuple[str, str]]) -> bytes:
    headers = [(name, value) for name, value in request.headers.items() if not says_who(name.lower())]
    lines = [f"{request.method} {request.raw_path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (*headers, *identity)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
