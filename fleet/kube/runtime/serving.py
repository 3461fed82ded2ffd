"""An address at which a process can be asked how it is; one handler for every path.

Anybody who reaches the address may open connections and send nothing, or very much. So a connection that sends no whole
header, or asks nothing, is closed after a while; of very many the oldest is closed for the newest, so that a probe of a
kubelet is always answered; and of a body nobody asked for, little is taken.
"""

from __future__ import annotations

import contextlib
from asyncio import Transport
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from fleet.errors import ConfigurationError

Handle = Callable[[web.BaseRequest], Awaitable[web.Response]]
MOST_CONNECTIONS = 128
IDLE = 20.0  # seconds until a header is there whole, and between two requests
LINGERING = 2.0  # seconds in which the rest of a refused body is read and forgotten, so that the answer arrives
HEADERS, HEADER_BYTES = 48, 8190
BUFFER = 16 * 1024  # bytes of a body that are read ahead


class _Server(web.Server):
    """One that keeps so many connections, and the newest of them."""

    def connection_made(self, handler: RequestHandler, transport: Transport) -> None:
        super().connection_made(handler, transport)
        for oldest in self.connections[:-MOST_CONNECTIONS]:
            oldest.force_close()


@contextlib.asynccontextmanager
async def serving(address: tuple[str, int], handle: Handle) -> AsyncIterator[tuple[str, int]]:
    """For as long as the block lasts; gives the address that it really has (port 0 is any)."""
    server = _Server(
        handle,
        access_log=None,  # probes and scrapes ask for ever, and nothing is to be learnt from it
        keepalive_timeout=IDLE,
        lingering_time=LINGERING,
        max_headers=HEADERS,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
        read_bufsize=BUFFER,
        auto_decompress=False,  # a small body would be a large one
    )
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, *address).start()
        except OSError as problem:
            raise ConfigurationError(f"cannot listen at {address[0]}:{address[1]}: {problem}") from problem
        host, port = runner.addresses[0][:2]
        yield host, port
    finally:
        await runner.cleanup()
