"""A real HTTP server on this machine that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    target: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body) if self.body else None


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: Any = None  # bytes as they are, None as nothing, all else as JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else b"" if self.body is None else orjson.dumps(self.body)


@dataclass(slots=True)
class Server:
    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def serving(
    answer: Callable[[Asked], Reply], wrap: Callable[[socket.socket], socket.socket] | None = None
) -> Iterator[Server]:
    """Until the block ends. `answer` may be called by several threads; `wrap` puts TLS on."""
    seen: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a body would wait 40 ms for the other side's word about the headers

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            one = Asked(self.command, self.path, headers, self.rfile.read(length))
            seen.append(one)
            try:
                reply = answer(one)
            except AssertionError as error:  # the client sees it in the message, and the test with it
                reply = Reply(599, {"message": str(error)})
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if wrap:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield Server(f"{'https' if wrap else 'http'}://127.0.0.1:{server.server_address[1]}", seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
