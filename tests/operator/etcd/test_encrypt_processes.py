"""TLS is turned on for real members of every version, with the files that the operator would write, under writers.

There is no Kubernetes: a member is a process on an address of its own, and a roll is one restart after the other.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.apps.etcd import Etcd as App
from fleet.apps.etcd import names, secured
from fleet.apps.etcd.engine.act import act
from fleet.apps.etcd.engine.observe import EtcdObservation, members_of
from fleet.apps.etcd.engine.protocol import Endpoint, Etcd, Refused, Unreachable
from fleet.apps.etcd.files import common, file_of
from fleet.apps.etcd.layout import Layout
from fleet.kit.credentials.certificates import Authority, Leaf, client_context
from fleet.kit.members import MemberRecord
from fleet.kit.names import lay_out
from fleet.kit.observe.world import World
from fleet.kit.step import Act, NotYetError
from fleet.lab.programs import process
from fleet.testing.traffic import MemberAddress
from tests.operator.etcd.observations import observe
from tests.operator.etcd.processes import VERSIONS, eventually, programs
from tests.operator.etcd.traffic import EtcdTraffic
from tests.operator.writer import Writer, lost

FOUND = Layout(
    stateful_set="etcd",
    container="etcd",
    claim="data",
    peer_url="http://{pod}.etcd-headless:2380",
    client_url="http://{pod}.etcd-headless:2379",
    port=2379,
    config={
        "data-dir": "/data",
        "listen-client-urls": "http://0.0.0.0:2379",
        "listen-peer-urls": "http://0.0.0.0:2380",
        "enable-grpc-gateway": True,
        "logger": "zap",
        "log-outputs": ["stderr"],
    },
)
OPENING = replace(FOUND, secured="opening")
OPEN = secured.opened(OPENING)
CLOSING = secured.closing(OPEN, {"spec": {"containers": []}})
CLOSED = secured.closed(CLOSING)
SETTLED = MemberRecord("settled")


class Members:
    """Up to four of them. What `files` call by a pod's name is an address of this machine."""

    def __init__(self, version: str, directory: Path) -> None:
        self.program, self.directory = programs(version).etcd, directory
        network = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}"
        self.addresses = {f"etcd-{number}": f"{network}.{number + 1}" for number in range(4)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.authority = Authority.new("clients")
        app = self.app(CLOSED)
        hosts = (*names.server_names(app), *names.peer_names(app))
        ips = ("127.0.0.1", *self.addresses.values())
        for what, authority in (("fleet-server", self.authority), ("fleet-peer", Authority.new("peers"))):
            pair = authority.issue(Leaf(what, tuple(dict.fromkeys(hosts)), ips, server=True, client=True))
            (directory / what).mkdir(parents=True)
            for name, content in (("tls.crt", pair.cert_pem), ("tls.key", pair.key_pem), ("ca.crt", authority.pem)):
                (directory / what / name).write_bytes(content)

    def app(self, layout: Layout) -> App:
        spec = {"version": "3.5", "tls": {"enabled": True}, "adopt": {"identity": "c1"}}
        return lay_out(App.from_manifest({"metadata": {"name": "etcd"}, "spec": spec}), _rolled(layout))

    def start(self, pod: str, layout: Layout, place: MemberRecord = SETTLED) -> None:
        """With the file that this stage gives it; one that runs is stopped as a pod is."""
        self.stop(pod)
        app = self.app(layout)
        text = self._here(file_of(app, pod, place, common(app)), pod)
        file = self.directory / f"{pod}.yaml"
        file.write_text(text)
        with (self.directory / f"{pod}.log").open("ab") as log:
            self.running[pod] = subprocess.Popen(
                [self.program, f"--config-file={file}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, process.MARK: str(self.directory)},
            )

    def stop(self, pod: str) -> None:
        if (known := self.running.pop(pod, None)) is not None:
            known.terminate()
            known.wait(20)

    def _here(self, text: str, pod: str) -> str:
        own = {"0.0.0.0": self.addresses[pod], "/data": f"{self.directory}/{pod}.etcd"}
        files = {f"/etc/{what}/": f"{self.directory}/{what}/" for what in ("fleet-server", "fleet-peer")}
        for name, value in (own | files).items():
            text = text.replace(name, value)
        return self.addressed(text)

    def addressed(self, text: str) -> str:
        for one, address in self.addresses.items():
            text = text.replace(f"{one}.etcd-headless", address)
        return text

    def endpoint(self, pod: str) -> Endpoint:
        return Endpoint(self.addresses[pod], 2379, f"{pod}.etcd-headless")

    def places(self) -> list[MemberAddress]:
        return [MemberAddress(self.addresses[pod], f"{pod}.etcd-headless", 2379) for pod in self.running]

    def tls(self) -> ssl.SSLContext:
        return client_context(self.authority)

    def world(self) -> World:
        pods = [
            {"kind": "Pod", "metadata": {"name": pod}, "status": {"phase": "Running", "podIP": self.addresses[pod]}}
            for pod in self.running
        ]
        found = {"kind": "StatefulSet", "metadata": {"name": "etcd"}, "spec": {"replicas": len(pods)}}
        return World.of([found, *pods], None, World({}).now)

    async def well(self, etcd: Etcd, *pods: str) -> None:
        """They answer what needs a majority, and agree on who leads."""
        end = time.monotonic() + 60
        while True:
            try:
                found = [await etcd.status(self.endpoint(pod)) for pod in pods]
                for pod in pods:
                    await etcd.revision(self.endpoint(pod))
                if found[0].leader and len({one.leader for one in found}) == 1:
                    return
            except (Unreachable, Refused):
                assert time.monotonic() < end
            await asyncio.sleep(0.1)

    async def seen(self, app: App, etcd: Etcd) -> EtcdObservation:
        """Once a majority says who the members are: a busy machine may be late with that."""
        end = time.monotonic() + 60
        while (found := await observe(app, self.world(), etcd)).agreement is None:
            assert time.monotonic() < end
        return found

    async def readdressed(self, etcd: Etcd, layout: Layout) -> None:
        """As the operator does it, which knows members by the URLs that these stand for."""
        app = self.app(layout)
        seen = await self.seen(app, etcd)
        for member in members_of(seen) or ():
            urls = self.addressed(",".join(names.peer_urls(app, member.name)))
            for _ in range(2):  # an answer may be lost
                await _once_allowed(etcd, seen, Act("readdress", {"member": member.id, "peer_urls": urls}))
        assert {url for one in await etcd.members(self.endpoint("etcd-0")) for url in one.peer_urls} == {
            self.addressed(url) for pod in self.running for url in names.peer_urls(app, pod)
        }


def _rolled(layout: Layout) -> Layout:
    baseline: dict[str, Any] = {"version": "3.5", "image": None, "resources": {}, "config": {}, "storage": "8Gi"}
    return replace(layout, baseline=baseline)


@pytest.fixture(params=VERSIONS)
def members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    made = Members(request.param, tmp_path)
    yield made
    for one in made.running.values():
        one.kill()
        one.wait()


def test_members_go_from_plain_to_tls_alone_and_no_acknowledged_write_is_lost(members: Members) -> None:
    asyncio.run(_story(members))


async def _story(members: Members) -> None:
    pods = list(members.addresses)[:3]
    async with Etcd(None, 5.0) as plain, Etcd(members.tls(), 5.0) as encrypted:
        for pod in pods:
            members.start(pod, FOUND, MemberRecord("founding", cluster=tuple(pods)))
        await members.well(plain, *pods)
        serves_both = secured.serves_both((await plain.status(members.endpoint("etcd-0"))).version)
        with ExitStack() as stack:
            before = Writer(EtcdTraffic(), members.places, None, rate=50, workers=6)
            if serves_both:
                await asyncio.to_thread(stack.enter_context, before)
            for pod in reversed(pods):
                members.start(pod, OPENING)
                await members.well(encrypted, pod)
                if serves_both:
                    await members.well(plain, *pods)
            after = await asyncio.to_thread(
                stack.enter_context, Writer(EtcdTraffic(), members.places, members.tls(), rate=50, workers=6)
            )
            await members.readdressed(encrypted, CLOSING)
            members.start("etcd-2", CLOSING)
            await members.well(encrypted, *pods)
            await _joins(members, encrypted)
            if serves_both:
                await asyncio.to_thread(before.goes_on, 10)
            for pod in ("etcd-3", "etcd-1", "etcd-0"):
                members.start(pod, CLOSING)
                await members.well(encrypted, *members.running)
            await members.readdressed(encrypted, CLOSED)
            for pod in ("etcd-1", "etcd-2"):
                members.start(pod, CLOSED)
                await members.well(encrypted, *members.running)
            await asyncio.to_thread(after.goes_on, 10)
            numbers = [one.stop() for one in ((before, after) if serves_both else (after,))]
        for pod in members.running:
            with pytest.raises(Unreachable):
                await plain.status(members.endpoint(pod))
    print(f"longest time without an acknowledgement, with TLS: {after.outage(0):.2f} s")
    for place in members.places():
        for written in numbers:
            assert written
            assert await asyncio.to_thread(lost, EtcdTraffic(), written, place, members.tls()) == []


async def _once_allowed(etcd: Etcd, seen: EtcdObservation, step: Act) -> None:
    """Members must have been in touch with each other for five seconds: over whichever URL it is.

    One that does not answer in time is asked again, as the operator does with its next pass.
    """
    end = time.monotonic() + 60
    while True:
        try:
            return await act(etcd, seen, step)
        except (NotYetError, Unreachable):
            assert time.monotonic() < end
        await asyncio.sleep(0.5)


async def _joins(members: Members, etcd: Etcd) -> None:
    """Somebody new, who listens plainly still, while one of the others listens with TLS already."""
    app, asked = members.app(CLOSING), members.endpoint("etcd-2")
    wanted = members.addressed(",".join(names.peer_urls(app, "etcd-3")))
    await eventually(lambda: etcd.add_learner(asked, *wanted.split(",")), 60)
    listed = await etcd.members(asked)
    known_as = tuple(f"{one.name or 'etcd-3'}={url}" for one in listed for url in one.peer_urls)
    assert len(known_as) == 8
    members.start("etcd-3", OPEN, MemberRecord("joining", cluster=tuple(members.addresses), known_as=known_as))
    learner = next(one for one in listed if one.is_learner)
    await eventually(lambda: etcd.promote(asked, learner.id), 60)
    await members.well(etcd, *members.running)
