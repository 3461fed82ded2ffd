"""A proxy between a client and an API server, with plans written as data: what goes wrong with which requests.

    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
        proxy.plan = Plan([Rule(Match(writes=True), Lose(), every=5)])
        my_client(proxy.kubeconfig)

It runs in a thread, with a certificate for loopback that it signs itself, and its kubeconfig is for the client that is
tested.

Half-done work comes from crashes between any two requests. With a proxy in between, a test makes every one of them
happen: run once and count, then for each k run again, be killed at k, and check what the next run makes of it.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from fleet.kube.client.credentials import Credentials
from fleet.lab.proxy.actions import (
    Act,
    Answer,
    Break,
    Cut,
    Delay,
    DelayEvents,
    DropEvents,
    EmptyList,
    Expire,
    Freeze,
    Kill,
    Lose,
    SkewLeases,
)
from fleet.lab.proxy.plan import Match, Plan, Rule, State, decide
from fleet.lab.proxy.proxy import ProxyService, Route
from fleet.lab.proxy.request import Call, Recorded


def make_certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for a proxy on loopback, good for a day, and return its file and that of the key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "proxy")])
    now = datetime.datetime.now(tz=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / f"{name}.proxy.crt", directory / f"{name}.proxy.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


__all__ = [
    "Act",
    "Answer",
    "Break",
    "Call",
    "Cut",
    "Delay",
    "DelayEvents",
    "DropEvents",
    "EmptyList",
    "Expire",
    "Freeze",
    "Kill",
    "Lose",
    "Match",
    "Plan",
    "Proxy",
    "Recorded",
    "Rule",
    "SkewLeases",
    "State",
    "decide",
]


class Proxy:
    """A proxy to an API server: `with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:`.

    The client that is tested uses `proxy.kubeconfig`. The proxy ends TLS with a certificate of its own and speaks to
    the server with the credentials that it was given.
    """

    def __init__(self, kubeconfig: Path, context: str, directory: Path, plan: Plan | None = None) -> None:
        self.context = context
        self.kubeconfig = directory / f"{context}.proxy.kubeconfig"
        self._upstream = (kubeconfig, context)
        self._directory = directory
        self._plan = plan or Plan()
        self._service = ProxyService(self._route, self._kill)
        self._service.set_plan(self._plan)
        self._onwards: tuple[aiohttp.ClientSession, Credentials] | None = None
        self._victim: subprocess.Popen[Any] | None = None
        self._started = threading.Event()  # there is a process to kill
        self._port = 0
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def requests(self) -> list[Recorded]:
        """Return the requests in the order in which responses began; `requests.clear()` counts anew."""
        return self._service.requests

    def count(self, match: Match) -> int:
        """Count the requests that match."""
        return sum(match(request.call) for request in self.requests)

    @property
    def plan(self) -> Plan:
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        """Set the plan: its rules count from here on, and what the plan before froze or delays goes on."""
        self._plan = plan
        self._service.set_plan(plan)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._service.release_held)

    def run(
        self, command: list[str], plan: Plan, *, timeout: float = 120.0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, or its death by `Kill`, with a plan of its own and `requests` counted anew."""
        self.requests.clear()
        before, self.plan = self.plan, plan
        self._started.clear()
        self._victim = process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
        )
        self._started.set()
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self._victim = None
            self.plan = before
        self.settle()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def aim(self, process: subprocess.Popen[Any]) -> None:
        """Have `Kill` kill this process, where that is not the command of a `run`."""
        self._victim = process
        self._started.set()

    def settle(self, seconds: float = 10.0) -> None:
        """Wait until no request is under way: those of a dead process may still be."""
        end = time.monotonic() + seconds
        while self._service.is_busy and time.monotonic() < end:
            time.sleep(0.005)

    def _kill(self) -> None:
        self._started.wait()
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # raised where the proxy is entered
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        credentials = await Credentials.from_kubeconfig(*self._upstream)
        certificate, key = make_certificate(self._directory, self.context)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        # As it comes: what is compressed stays so.
        timeout = aiohttp.ClientTimeout(total=None)
        async with credentials.session(trust_env=False, auto_decompress=False, timeout=timeout) as session:
            self._onwards = (session, credentials)
            runner = web.ServerRunner(web.Server(self._service.handle, handler_cancellation=True), shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            self._port = runner.addresses[0][1]
            self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url, certificate, self.context)))
            self._ready.set()
            await self._stop.wait()
            self._service.release_held()
            await runner.cleanup()

    def _route(self, request: web.BaseRequest) -> Route:
        assert self._onwards is not None
        session, credentials = self._onwards
        identity = [("Authorization", credentials.authorization)] if credentials.authorization else []
        return Route(session, credentials.server, identity, self._connect)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._onwards is not None
        credentials = self._onwards[1]
        parts = urlsplit(credentials.server)
        return await asyncio.open_connection(
            parts.hostname, parts.port or 443, ssl=credentials.tls, server_hostname=credentials.server_name
        )


def _kubeconfig(url: str, authority: Path, context: str) -> dict[str, Any]:
    """Return a kubeconfig for the proxy; its user has a token only so that kubectl does not ask for a name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "users": [{"name": context, "user": {"token": "none"}}],
    }
