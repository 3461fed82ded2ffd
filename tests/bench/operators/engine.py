"""The stand-in for an engine: answers every probe at once and counts them, for next to no CPU time.

A probe is what the operator asks a member of etcd: POST /v3/maintenance/status with an empty object.

with Engine() as engine: engine.url, engine.probes()
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from typing import Self

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
QUESTION = b"{}"
STATUS = (  # of a member that leads, as etcd 3.5 writes it
    b'{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"1","raft_term":"2"},'
    b'"version":"3.5.21","dbSize":"20480","leader":"10276657743932975437","raftIndex":"4","raftTerm":"2",'
    b'"raftAppliedIndex":"4","dbSizeInUse":"16384"}'
)


class Engine:
    """In a process of its own."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def probes(self) -> int:
        """How many it has answered."""
        with urllib.request.urlopen(f"{self.url}/count") as answer:
            return int(answer.read())


class _Answering(asyncio.Protocol):
    probes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._request = b""

    def data_received(self, data: bytes) -> None:
        """Clients wait for the answer before they ask again: what came since is one request, or its beginning."""
        self._request = data = self._request + data
        if not data.endswith(b"\r\n\r\n" + (QUESTION if data.startswith(b"POST ") else b"")):
            return
        self._request = b""
        if data.startswith(b"GET /count "):
            text = str(_Answering.probes).encode()
            self._transport.write(HEAD % (len(text), text))
        else:
            _Answering.probes += 1
            self._transport.write(HEAD % (len(STATUS), STATUS))


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
