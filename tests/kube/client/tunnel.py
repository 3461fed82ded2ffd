"""A proxy on loopback that makes tunnels (CONNECT) and writes down where each leads and what it was told."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Tunnels:
    port: int = 0
    targets: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)  # of each CONNECT, names in lower case

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def tunnels() -> Iterator[Tunnels]:
    recorded = Tunnels()

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            recorded.targets.append(self.path)
            recorded.headers.append({name.lower(): value for name, value in self.headers.items()})
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=10) as server:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_copy, args=(server, self.connection), daemon=True)
                back.start()
                _copy(self.connection, server)
                back.join()
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorded.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Send on what comes until there is no more, and say so to the other side."""
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
