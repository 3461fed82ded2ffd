"""Who is told by a webhook: a small HTTP server on loopback that keeps what it gets."""

from __future__ import annotations

import hashlib
import hmac
import queue
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson


@dataclass(frozen=True, slots=True)
class Delivery:
    event: str
    signature: str
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.body)
        return found

    def signed_with(self, secret: str) -> bool:
        wanted = hmac.new(secret.encode(), self.body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(self.signature, wanted)


class Receiver:
    """`with Receiver() as receiver: … receiver.url … receiver.next("push")`"""

    def __init__(self) -> None:
        self._arrived: queue.Queue[Delivery] = queue.Queue()
        arrived = self._arrived

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event, signature = self.headers["X-Gitea-Event"], self.headers["X-Gitea-Signature"]
                arrived.put(Delivery(event, signature, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next(self, event: str, about: str = "", patience: float = 60) -> Delivery:
        """The next delivery of this event; others before it are passed over.

        `about`: a commit that it has to speak of. A forge handles pushes later than it takes them, and then delivers
        to a hook that was made in between.
        """
        while (delivery := self._arrived.get(timeout=patience)).event != event or about.encode() not in delivery.body:
            pass
        return delivery
