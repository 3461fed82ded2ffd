"""An HTTPS server that writes down who asked it for what and how, and kubectl as the original to compare with."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fleet.lab.cluster.certificates import LabAuthority
from fleet.lab.programs.binaries import Binaries
from fleet.lab.spec import KUBERNETES

PODS = {"name": "pods", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
READ_FIRST: dict[str, Any] = {  # what kubectl reads before it runs a command in the pod p
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [PODS]},
    "/api/v1/namespaces/n/pods/p": {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "c"}]}},
}
TELLING = ("authorization", "impersonate-")  # headers that say who asks, or in whose name


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a request arrived, and as whom."""

    port: int
    headers: tuple[tuple[str, str], ...]
    certificate: str  # the common name in the client's, "" without one
    name: str | None  # that the client asked TLS for


@dataclass
class Recording:
    """What arrived at one server. It refuses the tokens of `refused`, and sends on to `sends_on` if that is a URL."""

    port: int = 0
    refused: Collection[str] = ()
    sends_on: str = ""
    status: int = 307
    requests: list[tuple[str, str, Identity, bytes]] = field(default_factory=list)
    encodings: list[str | None] = field(default_factory=list)  # in which each request lets the server answer
    handshakes: list[Identity] = field(default_factory=list)  # of the requests that ask for a websocket

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def identities(self) -> list[Identity]:
        return [identity for _, _, identity, _ in self.requests]


@contextmanager
def recording(authority: LabAuthority, **options: Any) -> Iterator[Recording]:
    recorded = Recording(**options)
    names: dict[int, str | None] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            assert isinstance(self.connection, ssl.SSLSocket)
            subject: Any = (self.connection.getpeercert() or {}).get("subject") or ()
            common = next((value for part in subject for name, value in part if name == "commonName"), "")
            told = sorted(
                (name.lower(), value.encode("latin-1").decode())
                for name, value in self.headers.items()
                if name.lower().startswith(TELLING)
            )
            identity = Identity(recorded.port, tuple(told), common, names.get(self.connection.fileno()))
            recorded.requests.append((self.command, self.path, identity, body))
            recorded.encodings.append(self.headers.get("Accept-Encoding"))
            if self.headers.get("Upgrade", "").lower() == "websocket":
                recorded.handshakes.append(identity)
            if self.headers.get("Authorization", "").partition(" ")[2] in recorded.refused:
                return self.say(401, b'{"kind":"Status","message":"Unauthorized"}')
            if recorded.sends_on:
                return self.say(recorded.status, b"", {"Location": recorded.sends_on + self.path})
            if document := READ_FIRST.get(self.path.partition("?")[0]):
                return self.say(200, json.dumps(document).encode())
            return self.say(200, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n')

        def say(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = do_POST = answer  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    def named(socket: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        names[socket.fileno()] = name

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "server", addresses=["127.0.0.1", "cluster.test"]))
    context.load_verify_locations(authority.certificate_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.sni_callback = named  # type: ignore[assignment]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    recorded.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def config(
    path: Path, cluster: dict[str, Any], user: Any, *, context: str = "ctx", of: str = "c", by: str = "u"
) -> Path:
    """A kubeconfig with one context."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": of, "cluster": cluster}],
        "users": [{"name": by, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": of, "user": by}}],
        "current-context": context,
    }
    path.write_text(json.dumps(document))
    return path


@cache
def _kubectl() -> Path:
    return Binaries(KUBERNETES)["kubectl"]


def kubectl(*arguments: str, within: Collection[str] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """The original, with nothing of this shell that would tell it where to go."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return subprocess.run(
        [*within, str(_kubectl()), *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
