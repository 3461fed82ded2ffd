"""`fleet serve` on two clusters with 1,000 other objects: from a commit to both, back from drift, and doing nothing.

A commit changes one ConfigMap. Its time runs from when the service sees that the branch has moved (its own metric,
`fleet_commit_to_applied_seconds`) until both clusters have it and both inventories say so: fetch, evaluation of the
changed file, a look at all objects of the stack, plan, Lease, record, apply, record. From the push it is besides what
the poll (0.2 s) adds, until a reader sees it in both. Beside it the same object, applied by two PATCH requests at
once over open connections, with nothing read, compared or recorded. The 1,000 others are in the same stack (`one
stack`) or in ten others (`ten more`), of which nothing is evaluated again. The service and both servers share the
machine's cores.

Drift: another manager changes a field of ours and a field of its own in one request, until ours is as git says; the
other's is then looked for, and has to be there.

Nothing: with the settings that it has by default (poll 30 s, a Lease for replicas, health into git) for ten minutes
in which nobody changes anything. CPU is that of the service and of all processes that it starts. A write in an audit
log other than to a Lease, or a commit on the status branch, would be an error and no figure.

An attack: how long somebody else's pull request waits for its preview, from the webhook to the status, and `/healthz`
for its answer, while strangers propose, push and push again what `tests/serve/forks.py` names ATTACKS, each from a fork
of its own, in times of what it is at rest. Against a `fleet serve` of two repositories; by pairs, in turns.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import psutil

from fleet.lab import Lab
from fleet.testing.audit import AuditLog
from fleet.testing.git import GitRemote, git
from tests.bench.bare import access, apply_each, path_of
from tests.bench.command import fleet_command
from tests.bench.figure import Figure, at_most
from tests.bench.place import api_server
from tests.serve.attacked_service import Attacked, attacked
from tests.serve.process import Process
from tests.soak.stranger import Stranger

CLUSTERS = ("c1", "c2")
OTHERS = 1000
ROUNDS = 20
IDLE = 600.0  # seconds
STACK = """
import fleet


@fleet.stack(clusters=["c1", "c2"], name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    for number in range({count}):
        about, data = {{"name": f"c-{{number:04}}"}}, {{"number": str(number), "cluster": cluster.name}}
        fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}})
"""
NAMES = ("one stack", "ten more")


def figures() -> Iterator[Figure]:
    fleet_command()
    yield from while_attacked()
    with api_server(*CLUSTERS) as lab, tempfile.TemporaryDirectory() as directory:
        for name in NAMES:
            place = Path(directory) / name.replace(" ", "-")
            place.mkdir()
            bench = Bench(lab, place, name)
            try:
                bench.begin()
                yield from bench.commits()
                if name == NAMES[-1]:
                    yield from bench.drift()
                    yield from bench.idle()
            finally:
                bench.end()


def while_attacked(rounds: int = 8) -> Iterator[Figure]:
    rest, meanwhile, before = [], [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory, attacked(Path(directory)) as service:
        service.preview()  # to warm up
        service.watch()
        for _ in range(rounds):
            rest.append(timed(service))
            service.attack()
            time.sleep(1)
            meanwhile.append(timed(service))
            service.calm()
        ended = service.rounds
    note = f"{ended} attacks came to an end, load before {before:.1f}"
    for place, name in enumerate(("a preview of somebody else", "an answer to a probe", "the slowest answer")):
        ratios = [attack[place] / quiet[place] for attack, quiet in zip(meanwhile, rest, strict=True)]
        at_rest = f"at rest {1000 * median(one[place] for one in rest):.4g} ms"
        title = f"while forks attack: {name}"
        if place < 2:
            yield at_most(title, ratios, "times", 2, f"{at_rest}; {note}")
        else:
            seconds = tuple(1000 * one[place] for one in meanwhile)
            yield Figure(title, seconds, "ms", note=f"{at_rest}, of some dozens each")


def timed(service: Attacked) -> tuple[float, float, float]:
    """Return how long a preview takes, and meanwhile an answer to a probe: usually, and at its slowest."""
    service.take_probes()
    took = service.preview()
    probes = service.take_probes()
    return took, median(probes), max(probes)


class Bench:
    def __init__(self, lab: Lab, directory: Path, name: str) -> None:
        self.lab = lab
        self.name = name
        self.stack = name.replace(" ", "-")
        self.remote = GitRemote.make(directory / "remote.git")
        self.root = self.remote.clone(directory / "repository")
        self.service = Process(directory, self.remote.url, environment={"KUBECONFIG": str(lab.kubeconfig)})
        self.readers = {one: Stranger(lab.plane(lab.spec.cluster(one)).admin()) for one in CLUSTERS}
        self.logs = {one: AuditLog(lab.plane(lab.spec.cluster(one)).audit_log) for one in CLUSTERS}
        self.numbers = count()
        self.value = ""

    def begin(self) -> None:
        """Everything in place and at rest."""
        (self.root / "stacks").mkdir()
        (self.root / "clusters").mkdir()
        (self.root / "fleet.toml").write_text(f'[fleet]\nname = "{self.stack}"\n')
        (self.root / "clusters/lab.py").write_text('import fleet\n\nfleet.Cluster("c1")\nfleet.Cluster("c2")\n')
        for number in range(10) if self.name == NAMES[1] else ():
            text = STACK.format(name=f"other-{number}", count=OTHERS // 10)
            (self.root / f"stacks/other_{number}.py").write_text(text)
        revision = self.push()
        self.service.start(poll="0.2s", status_every="3s")
        self.service.until("all is there", lambda: self.told() == {revision}, 300)

    def end(self) -> None:
        self.service.kill()
        for reader in self.readers.values():
            for name in (self.stack, *(f"other-{number}" for number in range(10))):
                reader.again("DELETE", f"/api/v1/namespaces/{name}/configmaps?labelSelector=fleet.dev/stack={name}")
            reader.again("DELETE", "/api/v1/namespaces/fleet-system/configmaps")

    def manifest(self, name: str, value: str) -> dict[str, Any]:
        about = {"name": name, "namespace": self.stack}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"value": value}}

    def push(self) -> str:
        """A commit in which one object has another value."""
        self.value = f"v{next(self.numbers)}"
        text = STACK.format(name=self.stack, count=OTHERS if self.name == NAMES[0] else 0)
        changed = f"    fleet.Manifest({self.manifest('changed', self.value)!r})\n"
        (self.root / "stacks/changing.py").write_text(text + changed)
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", self.value)
        git(self.root, "push", "--quiet", "origin", "HEAD:main")
        return git(self.root, "rev-parse", "HEAD").strip()

    def told(self) -> set[str]:
        """The revisions that the status branch has, of all stacks in all clusters."""
        names = [self.stack, *(f"other-{number}" for number in range(10) if self.name == NAMES[1])]
        paths = [f"clusters/{cluster}/{name}.json" for cluster in CLUSTERS for name in names]
        try:
            texts = [self.remote.git("show", f"fleet/status:{path}") for path in paths]
        except AssertionError:
            return set()
        return {line.split('"')[3] for text in texts for line in text.splitlines() if '"revision"' in line}

    def has_it(self, cluster: str) -> bool:
        return bool(self.object(cluster)["data"].get("value") == self.value)

    def is_counted(self, before: float) -> bool:
        return self.lag()[1] > before

    def object(self, cluster: str) -> dict[str, Any]:
        found = self.readers[cluster].again("GET", path_of(self.manifest("changed", "")))
        return found or {"data": {}}

    def commits(self) -> Iterator[Figure]:
        seen, pushed, bare = [], [], []
        for number in range(ROUNDS + 2):
            time.sleep(4)  # so that what is written into git about the last one is no part of this one
            before = self.lag()
            self.push()
            begun = time.monotonic()
            self.until(lambda: all(map(self.has_it, CLUSTERS)))
            visible = time.monotonic() - begun
            self.until(partial(self.is_counted, before[1]), 0.2)
            if number >= 2:  # two to warm up
                pushed.append(visible)
                seen.append(self.lag()[0] - before[0])
                bare.append(asyncio.run(self.bare(f"bare-{number}")))
        note = f"load {os.getloadavg()[0]:.1f}"
        yield at_most(f"{self.name}: a commit, from when it is seen to both clusters", seen, "s", 1.5, note)
        yield Figure(f"{self.name}: a commit, from the push to both clusters", tuple(pushed), "s", note="poll 0.2 s")
        yield Figure(f"{self.name}: a bare apply of the same object to both", tuple(bare), "s", note="the limit")
        ratios = tuple(one / other for one, other in zip(seen, bare, strict=True))
        yield Figure(f"{self.name}: a commit, in bare applies", ratios, "times", note="by pairs")

    def lag(self) -> tuple[float, float]:
        """Seconds of all commits so far, and how many they were."""
        metric = "fleet_commit_to_applied_seconds"
        return self.service.metric(f"{metric}_sum"), self.service.metric(f"{metric}_count")

    async def bare(self, value: str) -> float:
        """Two requests at once, over connections that are open already. To an object of its own of equal size."""
        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(session(self.lab.kubeconfig, name)) for name in CLUSTERS]
            for one in sessions:
                await apply_each(
                    one, iter([self.manifest("bare", "")])
                )  # with the same value: that opens the connection
            changed = self.manifest("bare", value)
            begun = time.monotonic()
            await asyncio.gather(*(apply_each(one, iter([changed])) for one in sessions))
            return time.monotonic() - begun

    def drift(self) -> Iterator[Figure]:
        took = []
        for number in range(ROUNDS):
            time.sleep(1)
            cluster = CLUSTERS[number % 2]
            body = {"data": {"value": "drift", f"theirs-{number}": "kept"}}
            self.readers[cluster].patch(self.stack, "changed", body)
            begun = time.monotonic()
            self.until(partial(self.has_it, cluster))
            took.append(time.monotonic() - begun)
        for index, cluster in enumerate(CLUSTERS):
            theirs = {f"theirs-{number}" for number in range(index, ROUNDS, 2)}
            if not theirs <= self.object(cluster)["data"].keys():
                raise RuntimeError(f"fields of others are gone: {self.object(cluster)}")
        yield Figure(
            "drift of a field of ours is put back after", tuple(took), "s", note=f"{ROUNDS} foreign fields stayed"
        )
        yield at_most("drift of a field of ours is put back after: the worst", [max(took)], "s", 2, f"of {len(took)}")

    def idle(self) -> Iterator[Figure]:
        """The same again with the usual settings, and nobody does anything."""
        if self.service.stop() != 0:
            raise RuntimeError(self.service.tail())
        self.service.start("--management", CLUSTERS[0], poll="30s", status_every="3s")
        self.service.until("it is ready", lambda: self.service.ask("/readyz")[0] == 200, 120)
        time.sleep(20)  # after the start's own work
        marks = {name: log.mark() for name, log in self.logs.items()}
        status = self.remote.git("rev-parse", "fleet/status")
        before, begun = self.cpu(), time.monotonic()
        memory = []
        while time.monotonic() - begun < IDLE:
            time.sleep(5)
            memory.append(self.memory())
        seconds, used = time.monotonic() - begun, self.cpu() - before
        leases = 0
        for name, log in self.logs.items():
            written = log.writes(marks[name], agent="fleet")
            leases += sum(one.resource == "leases" for one in written)
            if other := [one for one in written if one.resource != "leases"]:
                raise RuntimeError(f"{name} was written to: {other[:3]}")
        if self.remote.git("rev-parse", "fleet/status") != status:
            raise RuntimeError("the status branch was written to")
        note = f"{seconds:.0f} s, load {os.getloadavg()[1]:.1f}"
        yield at_most("nothing changes: CPU of one core", [100 * used / seconds], "%", 2, note)
        yield at_most("nothing changes: writes but to Leases", [0.0], "writes", 0, f"{leases} to Leases, 2 audit logs")
        yield Figure(
            "nothing changes: memory", tuple(memory), "MB", note=f"{OTHERS + 1} objects in each of two clusters"
        )

    def cpu(self) -> float:
        """Of the service, of those of its processes that run and of those that ended."""
        assert self.service.process is not None
        main = psutil.Process(self.service.process.pid)
        own = main.cpu_times()
        others = [one.cpu_times() for one in main.children(recursive=True)]
        return sum(own[:4]) + sum(sum(one[:4]) for one in others)

    def memory(self) -> float:
        assert self.service.process is not None
        return psutil.Process(self.service.process.pid).memory_info().rss / (1 << 20)

    def until(self, condition: Callable[[], bool], pause: float = 0.02) -> None:
        """Asked seldom: whoever asks takes the time of those that are asked."""
        end = time.monotonic() + 120
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"it took longer than two minutes:\n{self.service.tail()}")
            time.sleep(pause)


def session(kubeconfig: Path, context: str) -> aiohttp.ClientSession:
    server, tls = access(kubeconfig, context)
    return aiohttp.ClientSession(server, connector=aiohttp.TCPConnector(ssl=tls), cookie_jar=aiohttp.DummyCookieJar())
