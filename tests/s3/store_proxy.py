"""A proxy before a real S3 server that does to requests what networks and bad stores do.

A fault is a function that is asked about each request, and answers with what happens instead; `None`: it passes.
Requests keep their Host, since their signatures cover it.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from fleet.testing.proxy import make_certificate


@dataclass(frozen=True, slots=True)
class Seen:
    """A request, and which of its kind it is, counted from 1."""

    method: str
    path: str
    query: str
    number: int
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a request."""

    status: int = 0  # answered with it, and not passed on, unless 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    pass_on: bool = False  # the server gets it, whatever is answered
    wait: float = 0.0  # seconds before anything
    cut: int = -1  # after so many bytes of the response's content
    flip: bool = False  # one bit of the response's content
    hang_up: bool = False  # no answer


Decide = Callable[[Seen], Fault | None]


def _pass(_seen: Seen) -> Fault | None:
    return None


class StoreProxy:
    """`with StoreProxy(s3.url) as proxy: proxy.decide = …`; requests go to `proxy.url`."""

    def __init__(self, upstream: str, tls: Path | None = None) -> None:
        self._upstream = urlsplit(upstream).netloc
        self.decide: Decide = _pass
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.authority = ""
        if tls is not None:
            certificate, key = make_certificate(tls, "store")
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.authority = certificate.read_text()
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, method: str, query: str = "") -> int:
        return sum(one.method == method and query in one.query for one in self.seen)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            def log_message(self, *_: Any) -> None:
                pass

        for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        return Handler

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        parts = urlsplit(handler.path)
        number = 1 + sum((one.method, one.query[:9]) == (handler.command, parts.query[:9]) for one in self.seen)
        seen = Seen(handler.command, parts.path, parts.query, number, dict(handler.headers.items()))
        self.seen.append(seen)
        fault = self.decide(seen) or Fault()
        time.sleep(fault.wait)
        status, headers, content = fault.status, {**fault.headers}, b""
        if not fault.status or fault.pass_on:
            onwards = http.client.HTTPConnection(self._upstream, timeout=60)
            onwards.request(handler.command, handler.path, body or None, dict(handler.headers.items()))
            response = onwards.getresponse()
            if not fault.status:
                status, content = response.status, response.read()
                keep = ("etag", "date", "content-range", "content-type")
                headers = {**{k: v for k, v in response.getheaders() if k.lower() in keep}, **headers}
            onwards.close()
        elif fault.code:
            content = f"<Error><Code>{fault.code}</Code><Message>by the proxy</Message></Error>".encode()
        if fault.hang_up:
            handler.close_connection = True
            return
        if fault.flip and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        handler.send_response_only(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            if name.lower() != "content-length" or name == "Content-Length":
                handler.send_header(name, value)
        handler.end_headers()
        if fault.cut >= 0:
            handler.wfile.write(content[: fault.cut])
            handler.close_connection = True
            return
        handler.wfile.write(content)
