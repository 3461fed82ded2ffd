"""Real etcd processes on loopback with TLS, each on an address of its own like a pod, of every version at hand.

3.4 and 3.5 come out of the lab's images, 3.6 out of the lab's control plane. Peers and clients have an authority
each, as the operator makes them.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import ssl
import subprocess
import tarfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from fleet.apps.etcd.engine.protocol import Endpoint, Refused, Unreachable
from fleet.kit.credentials.certificates import Authority, Leaf, client_context
from fleet.lab import files as paths
from fleet.lab.images.bake import bake
from fleet.lab.images.recipes import find_recipes
from fleet.lab.programs import process
from fleet.lab.programs.binaries import Binaries
from fleet.lab.spec import KUBERNETES
from tests.operator.etcd.client import EtcdClient

T = TypeVar("T")
VERSIONS = ("3.4", "3.5", "3.6")
WITH_TOOLS = ("3.4", "3.5")  # those that come with etcdctl
CLIENT, PEER = 2379, 2380


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one version; the lab's control plane has etcd alone."""

    version: str
    directory: Path

    @property
    def etcd(self) -> Path:
        return self.directory / "etcd"

    @property
    def etcdctl(self) -> Path:
        return self.directory / "etcdctl"

    def restore(self) -> list[str]:
        """The command that restores snapshots: a program of its own since 3.5."""
        own = self.directory / "etcdutl"
        return [str(own if own.exists() else self.etcdctl), "snapshot", "restore"]


@cache
def programs(version: str) -> Programs:
    if version not in WITH_TOOLS:
        return Programs(version, Binaries(KUBERNETES)["etcd"].parent)
    (recipe,) = find_recipes(f"etcd:{version}")
    image = bake(recipe)
    target = paths.cache_directory() / "programs" / image.stem
    if not target.exists():
        partial = target.with_name(f".{target.name}-{random.getrandbits(32):08x}")
        with tarfile.open(image) as archive:
            for layer in (name for name in archive.getnames() if name.endswith("/layer.tar")):
                with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                    for name in ("etcd", "etcdctl", "etcdutl"):
                        _extract(files, f"usr/bin/{name}", partial / name)
        try:
            partial.rename(target)
        except OSError:
            if not target.exists():
                raise
            shutil.rmtree(partial)  # another process of the tests was quicker
    return Programs(version, target)


def _extract(files: tarfile.TarFile, name: str, target: Path) -> None:
    """If this layer has it; a layer may begin its names with `./`."""
    found = next((one for one in files if one.name.removeprefix("./") == name), None)
    if found is None:
        return
    content = files.extractfile(found)
    assert content
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.read())
    target.chmod(0o755)


class Process:
    """One member: its addresses, its directory, and the process once it was started."""

    def __init__(self, cluster: EtcdCluster, index: int) -> None:
        self.cluster = cluster
        self.name = f"m{index}"
        self.endpoint = Endpoint(f"{cluster.network}.{index + 1}", CLIENT, f"{self.name}.test")
        self.peer_url = f"https://{self.endpoint.address}:{PEER}"
        self.url = f"https://{self.endpoint.address}:{CLIENT}"
        self.data = cluster.directory / f"{self.name}.etcd"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, joins: Sequence[Process] = (), programs: Programs | None = None) -> None:
        """Start it: with the founders, or by joining those that are there."""
        every = [*joins, self] if joins else self.cluster.founders
        certificates = self.cluster.directory
        command = [
            (programs or self.cluster.programs).etcd,
            f"--name={self.name}",
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={','.join(f'{one.name}={one.peer_url}' for one in every)}",
            f"--initial-cluster-state={'existing' if joins else 'new'}",
            f"--initial-cluster-token={self.cluster.network}",
            f"--cert-file={certificates / 'server.crt'}",
            f"--key-file={certificates / 'server.key'}",
            f"--trusted-ca-file={certificates / 'ca.crt'}",
            "--client-cert-auth=true",
            f"--peer-cert-file={certificates / 'peer.crt'}",
            f"--peer-key-file={certificates / 'peer.key'}",
            f"--peer-trusted-ca-file={certificates / 'peer-ca.crt'}",
            "--peer-client-cert-auth=true",
            "--logger=zap",
            "--unsafe-no-fsync=true",
            *self.cluster.options,
        ]
        if self.cluster.programs.version == "3.4" and programs is None:
            command.remove("--unsafe-no-fsync=true")
        with (certificates / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, process.MARK: str(self.cluster.directory)},  # so no lab's test takes it for its own
            )

    def freeze(self) -> None:
        """Until it stands still: on a busy machine it may answer for a moment after the signal."""
        self._signal(signal.SIGSTOP)
        assert self.process
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)


class EtcdCluster(AbstractContextManager["EtcdCluster"]):
    """`with EtcdCluster(programs, directory, 3) as cluster:` has three members that serve."""

    def __init__(
        self,
        programs: Programs,
        directory: Path,
        size: int = 1,
        options: Sequence[str] = (),
        hosts: Sequence[str] = (),  # names that members have beside their own
    ) -> None:
        self.programs = programs
        self.directory = directory
        self.options = options
        self.network = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}"
        self.members = [Process(self, index) for index in range(7)]
        self.founders = self.members[:size]
        self.authority = Authority.new("etcd")
        peer_authority = Authority.new("etcd-peer")
        addresses = ("127.0.0.1", "::1", *(member.endpoint.address for member in self.members))
        names = (*(member.endpoint.name for member in self.members), *hosts)
        directory.mkdir(parents=True, exist_ok=True)
        for file, authority in (("server", self.authority), ("peer", peer_authority)):
            pair = authority.issue(Leaf(file, dns=names, ips=addresses, server=True, client=True))
            (directory / f"{file}.crt").write_bytes(pair.cert_pem)
            (directory / f"{file}.key").write_bytes(pair.key_pem)
        user = self.authority.issue(Leaf("user", client=True))
        (directory / "user.crt").write_bytes(user.cert_pem)
        (directory / "user.key").write_bytes(user.key_pem)
        (directory / "ca.crt").write_bytes(self.authority.pem)
        (directory / "peer-ca.crt").write_bytes(peer_authority.pem)

    def __enter__(self) -> Self:
        for member in self.founders:
            member.start()
        try:
            self.talk(lambda etcd: leader(etcd, self.founders))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    def tls(self) -> ssl.SSLContext:
        return client_context(self.authority)

    def talk(self, work: Callable[[EtcdClient], Awaitable[T]], seconds: float = 5.0) -> T:
        """Run `await work(etcd)` with a client that has a certificate of this cluster's authority."""

        async def run() -> T:
            async with EtcdClient(self.tls(), seconds) as etcd:
                return await work(etcd)

        return asyncio.run(run())

    def etcdctl(self, *arguments: str) -> str:
        options = [
            "--dial-timeout=30s",
            "--command-timeout=60s",
            f"--cacert={self.directory / 'ca.crt'}",
            f"--cert={self.directory / 'user.crt'}",
            f"--key={self.directory / 'user.key'}",
        ]
        return subprocess.run(
            [self.programs.etcdctl, f"--endpoints={self.founders[0].url}", *options, *arguments],
            env={"ETCDCTL_API": "3"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout


async def leader(etcd: EtcdClient, members: Sequence[Process], seconds: float = 30.0) -> Process:
    """The member that leads, once all agree on one and serve."""
    end = time.monotonic() + seconds
    last: Exception | None = None
    while time.monotonic() < end:
        try:
            found = [await etcd.status(member.endpoint) for member in members]
            for member in members:
                await etcd.revision(member.endpoint)
            if found[0].leader and len({one.leader for one in found}) == 1:
                return next(member for member, one in zip(members, found, strict=True) if one.leads)
        except (Unreachable, Refused, StopIteration) as error:
            last = error
        await asyncio.sleep(0.1)
    raise AssertionError(f"there is no leader after {seconds} s: {last}")


async def eventually(work: Callable[[], Awaitable[T]], seconds: float = 20.0) -> T:
    """What `work` returns as soon as it is not refused for want of time."""
    end = time.monotonic() + seconds
    while True:
        try:
            return await work()
        except Refused as error:
            if time.monotonic() > end or not (
                error.learner_not_ready
                or error.unhealthy
                or error.says("request timed out", "leader changed", "server stopped")
            ):
                raise
        await asyncio.sleep(0.2)
