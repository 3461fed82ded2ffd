"""A proxy in front of an API server that counts requests, loses answers and, at the k-th, kills whoever sent it.

Crashes between any two requests are how half-done work comes to be. With this in between, a test makes every one of
them happen: run once and count, then for each k run again, be killed at k, and look at what the next run makes of it.
It ends TLS with a certificate of its own and writes a kubeconfig that points to it.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web
from yarl import URL

from fleet.kube.credentials import Credentials

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_OF_ONE_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "authorization", "te"})


Counts = Callable[[str, str], bool]  # of method and path


def _any(method: str, path: str) -> bool:
    return True


def _writes(method: str, path: str) -> bool:
    return method in WRITES


@dataclass(frozen=True, slots=True)
class Request:
    """One request that came by; `status` is 0 when it was not passed on."""

    method: str
    path: str
    status: int
    agent: str = ""

    @property
    def writes(self) -> bool:
        return self.method in WRITES and "dryRun=" not in self.path


@dataclass(slots=True)
class _Trap:
    """Kill `process` at the `at`-th request that counts, before it is passed on or once it is done."""

    at: int
    counts: Counts
    before: bool
    process: subprocess.Popen[Any] | None = None
    seen: int = 0
    sprung: bool = False


class Proxy:
    """`with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:` – then use `proxy.kubeconfig`."""

    def __init__(self, kubeconfig: Path, context: str, directory: Path) -> None:
        self.requests: list[Request] = []
        self.context = context
        self.kubeconfig = directory / f"{context}.proxy.kubeconfig"
        self._upstream = (kubeconfig, context)
        self._directory = directory
        self.lose_every = 0  # of the writes, every so-manieth reaches the server and gets no answer; 0: none
        self._writes = 0
        self._trap: _Trap | None = None
        self._armed = threading.Condition()
        self._under_way = 0
        self._open: set[asyncio.Transport | None] = set()
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

    def run(
        self,
        command: list[str],
        *,
        kill_at: int | None = None,
        writes: bool = False,
        counts: Counts | None = None,
        before: bool = False,
        timeout: float = 120.0,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end or its death, with `requests` counted anew.

        It is killed by SIGKILL at request `kill_at` (from 1; of the writes only, with `writes`, or of those that
        `counts` says yes to, given method and path), `before` that is passed on or else as soon as the server has
        answered it and before the command can know.
        """
        self.requests.clear()
        counts = counts or (_writes if writes else _any)
        trap = _Trap(kill_at, counts, before) if kill_at else None
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
        )
        with self._armed:
            if trap:
                trap.process = process
            self._trap = trap
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self._trap = None
        self.settle()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def break_connections(self) -> None:
        """End every request that is under way, in the middle of its answer: watches above all."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        for transport in list(self._open):
            if transport is not None:
                transport.abort()

    def settle(self, seconds: float = 10.0) -> None:
        """Wait until no request is under way: those of a dead process may still be."""
        end = time.monotonic() + seconds
        while self._under_way and time.monotonic() < end:
            time.sleep(0.005)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            self._failure = problem
            self._ready.set()
            raise

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        credentials = await Credentials.from_kubeconfig(*self._upstream)
        certificate, key = _certificate(self._directory, self.context)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        # As it comes: what is compressed stays so.
        timeout = aiohttp.ClientTimeout(total=None)
        async with credentials.session(trust_env=False, auto_decompress=False, timeout=timeout) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self._handle(request, session, credentials)

            server = web.Server(handle)
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            self._port = runner.addresses[0][1]
            self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url, certificate, self.context)))
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(
        self, request: web.BaseRequest, session: aiohttp.ClientSession, credentials: Credentials
    ) -> web.StreamResponse:
        self._under_way += 1
        if request.transport is not None:
            self._open.add(request.transport)
        try:
            dies = self._falls_into_trap(request)
            body = await request.read()
            if dies and dies.before:
                self._note(request, 0)
                return _kill(dies)
            headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
            if credentials.authorization:
                headers["Authorization"] = credentials.authorization
            url = URL(credentials.server + request.raw_path, encoded=True)
            async with session.request(request.method, url, headers=headers, data=body or None) as answer:
                self._note(request, answer.status)
                if dies or self._is_to_be_lost(request):
                    await answer.read()
                    return _kill(dies) if dies else _lose(request)
                return await _pass_on(request, answer)
        except (aiohttp.ClientError, ConnectionError) as problem:
            return web.Response(status=502, text=f"proxy: {problem}")
        finally:
            self._under_way -= 1
            self._open.discard(request.transport)

    def _note(self, request: web.BaseRequest, status: int) -> None:
        self.requests.append(Request(request.method, request.raw_path, status, request.headers.get("User-Agent", "")))

    def _is_to_be_lost(self, request: web.BaseRequest) -> bool:
        if not self.lose_every or request.method not in WRITES:
            return False
        self._writes += 1
        return self._writes % self.lose_every == 0

    def _falls_into_trap(self, request: web.BaseRequest) -> _Trap | None:
        with self._armed:
            trap = self._trap
        if trap is None or trap.sprung or not trap.counts(request.method, request.raw_path):
            return None
        trap.seen += 1
        if trap.seen < trap.at:
            return None
        trap.sprung = True
        return trap


def _kill(trap: _Trap) -> web.Response:
    if trap.process is not None:
        trap.process.send_signal(signal.SIGKILL)
        trap.process.wait()
    return web.Response(status=503)  # to nobody


def _lose(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)  # to nobody


async def _pass_on(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_ONE_HOP}
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    async for part in answer.content.iter_any():  # a watch comes bit by bit and has to go on so
        await response.write(part)
    await response.write_eof()
    return response


def _kubeconfig(url: str, certificate: Path, context: str) -> dict[str, Any]:
    """Without a user: the proxy speaks to the server with the credentials that it was given itself."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority": str(certificate)}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "users": [{"name": context, "user": {}}],
    }


def _certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate for loopback, signed by itself, good for a day."""
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
