"""A port that leads to another address: git without TLS is for this machine only."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from fleet.lab.pki import Authority


@contextmanager
def forwarded(url: str, authority: Authority | None = None) -> Iterator[str]:
    """The same by a port of this machine, or with an authority by another port there and TLS, while the block lasts."""
    place = urlsplit(url)
    address, scheme, context = "127.0.0.1", place.scheme, None
    if authority:
        address, scheme, context = place.hostname or "", "https", ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.issue("forge", "forge", addresses=[address]))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve() -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs, ours = await asyncio.open_connection(place.hostname, place.port)
            await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer))

        return await asyncio.start_server(connected, address, 0, ssl=context)

    server = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    port = server.sockets[0].getsockname()[1]
    try:
        yield place._replace(scheme=scheme, netloc=f"{address}:{port}").geturl()
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(server: asyncio.Server) -> None:
    """With every connection that is still open."""
    server.close()
    open_ones = asyncio.all_tasks() - {asyncio.current_task()}
    for one in open_ones:
        one.cancel()
    await asyncio.gather(*open_ones, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    writer.close()
