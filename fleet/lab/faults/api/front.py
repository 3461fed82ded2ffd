"""The process in front of a cluster's API server while a fault of it lasts: a proxy that does what their plans say.

    python -m fleet.lab.faults.api.front LAB CLUSTER

It has the API server's own certificate. It tells the server in headers whom a client's certificate names, as any front
proxy of Kubernetes may; tokens pass through. Requests of the API server to itself, with a certificate that only it
has, pass untouched. While the API server is down, so is the proxy: clients are refused as they would be.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import time
from collections.abc import Coroutine
from typing import Any

import aiohttp
from aiohttp import web

from fleet.lab.faults.api import plans, ports
from fleet.lab.lab import Lab
from fleet.lab.programs import process
from fleet.lab.proxy.proxy import ProxyService, Route

LOOPBACK_CLIENT = "apiserver-loopback-client"  # the name by which an API server calls itself
INTERVAL = 0.03  # seconds between two looks at the plans
PASSES = 3  # over the connections of clients when it begins
LINGER = 30.0  # seconds without a plan before it goes: the next fault of a test comes soon
GRACE = 0.3  # seconds for requests that are under way when it ends
_CHUNK = 1 << 16
_HELLO = 1 << 14


class Front:
    """The proxy of one cluster; made in the loop that it runs in."""

    def __init__(self, lab: Lab, cluster: str) -> None:
        self._lab = lab
        self._cluster = lab.spec.cluster(cluster)
        self._authority = lab.plane(self._cluster).authority
        self._place = (self._cluster.address, self._cluster.ports["kube-apiserver"])
        self._service = ProxyService(self._route)
        self._server = web.Server(self._service.handle, handler_cancellation=True)
        self._client_context = self._make_client_context()
        self._server_contexts = {is_known: self._server_context(is_known) for is_known in (True, False)}
        self._sessions = {is_known: _session(context) for is_known, context in self._server_contexts.items()}
        self._listener: socket.socket | None = None
        self._server_handle = -1  # of the API server: readable once that is over
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve for as long as there are plans, and a while longer."""
        directory = plans.plans_directory(self._lab, self._cluster.name)
        carried_out: plans.FaultIds = ()
        needed = time.monotonic()
        while directory.exists() and time.monotonic() - needed < LINGER:
            ids = plans.list_plans(directory)
            if ids != carried_out:
                self._service.set_plan(plans.merge_plans(directory, ids))
                self._service.release_held()
            if ids:
                needed = time.monotonic()
                if self._listener is None and ports.count_listeners(*self._place, None):
                    await self._start_listening()
            elif self._listener is not None:
                self._stop_listening()
                await self._server.shutdown(GRACE)
            is_in_place = self._listener is not None or carried_out or not ids  # at first it has to listen
            if ids != carried_out and is_in_place:
                carried_out = ids
                plans.write_carried_out(directory, carried_out)
            self._service.requests.clear()  # this process never reads them
            await asyncio.sleep(INTERVAL)

    async def _start_listening(self) -> None:
        """Listen beside the API server that runs now, for as long as it lives."""
        server = process.running_processes(self._lab.directory).get(f"{self._cluster.name}/kube-apiserver")
        if server is None:
            return
        self._server_handle = os.pidfd_open(server.pid)
        asyncio.get_running_loop().add_reader(self._server_handle, self._stop_listening)
        self._listener = ports.listen_beside(*self._place)
        self._start_task(self._accept(self._listener))
        for _ in range(PASSES):  # one may be under way that is not seen the first time
            ports.end_connections(server.pid, self._place[1])
            await asyncio.sleep(INTERVAL)

    def _stop_listening(self) -> None:
        """Stop listening: spliced connections end at once, the rest when they have no request under way."""
        for task in self._tasks:
            task.cancel()
        if self._server_handle >= 0:
            asyncio.get_running_loop().remove_reader(self._server_handle)
            os.close(self._server_handle)
        if self._listener is not None:
            self._listener.close()
        self._listener, self._server_handle = None, -1

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, address = await loop.sock_accept(listener)
            if address[0] == ports.PROXY_ADDRESS:  # the API server has just gone, and this is the proxy itself
                client.close()
                continue
            self._start_task(self._serve_client(client))

    async def _serve_client(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if ports.read_server_name(await _peek_hello(client)) == LOOPBACK_CLIENT:
                await self._splice(client)
            else:
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(self._server, client, ssl=self._client_context)
        except (OSError, TimeoutError, asyncio.CancelledError):  # ssl.SSLError is an OSError
            client.close()

    async def _splice(self, client: socket.socket) -> None:
        near = await asyncio.open_connection(sock=client)
        far = await asyncio.open_connection(*self._place, local_addr=(ports.PROXY_ADDRESS, 0))
        await asyncio.gather(_pump(near[0], far[1]), _pump(far[0], near[1]))

    def _route(self, request: web.BaseRequest) -> Route:
        certificate = request.get_extra_info("peercert") or {}
        names = [pair for part in certificate.get("subject", ()) for pair in part]
        users = [("X-Remote-User", value) for kind, value in names if kind == "commonName"]
        groups = [("X-Remote-Group", value) for kind, value in names if kind == "organizationName"]
        identity = [*users[:1], *groups]
        if not users:
            identity = [("Authorization", value) for value in request.headers.getall("Authorization", [])]
        context = self._server_contexts[bool(users)]

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection(*self._place, ssl=context, local_addr=(ports.PROXY_ADDRESS, 0))

        return Route(self._sessions[bool(users)], self._cluster.server, identity, connect)

    def _server_context(self, is_known: bool) -> ssl.SSLContext:
        """Return the TLS context of a front proxy for clients known by a certificate, else an anonymous one."""
        context = ssl.create_default_context(cafile=str(self._authority.certificate_file))
        if is_known:
            context.load_cert_chain(*self._authority.issue("front-proxy", "front-proxy"))
        return context

    def _make_client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._authority.certificate_file))
        context.load_cert_chain(*self._authority.issue("kube-apiserver", "kube-apiserver"))
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context, local_addr=(ports.PROXY_ADDRESS, 0)),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def _peek_hello(client: socket.socket, patience: float = 10.0) -> bytes:
    """Return the first bytes of a client, which stay to be read."""
    async with asyncio.timeout(patience):
        while True:
            with contextlib.suppress(BlockingIOError):
                data = client.recv(_HELLO, socket.MSG_PEEK)
                if not data or len(data) == _HELLO or ports.is_whole_record(data):
                    return data
            await asyncio.sleep(0.001)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def _serve(lab: Lab, cluster: str) -> None:
    await Front(lab, cluster).run()


def main(name: str, cluster: str) -> None:
    lab = Lab.open(name)
    with plans.try_lock_front(plans.plans_directory(lab, cluster)) as alone:
        if alone:
            asyncio.run(_serve(lab, cluster))
            os._exit(0)  # with the lock still held: other processes see it run until it is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
