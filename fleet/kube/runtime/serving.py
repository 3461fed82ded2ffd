"""An address at which a process can be asked how it is; one handler for every path."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from fleet.errors import ConfigurationError

Handle = Callable[[web.BaseRequest], Awaitable[web.Response]]


@contextlib.asynccontextmanager
async def serving(address: tuple[str, int], handle: Handle) -> AsyncIterator[tuple[str, int]]:
    """For as long as the block lasts; gives the address that it really has (port 0 is any)."""
    server = web.Server(handle, access_log=None)  # probes and scrapes ask for ever, and nothing is to be learnt from it
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
