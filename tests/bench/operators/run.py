"""One operator, from its start to its end, and what it took to make all so and to keep it so."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from fleet.kube.client.client import Client
from fleet.kube.concurrency import end_tasks
from fleet.kube.runtime.cache import Cache, Change, Name
from fleet.kube.runtime.informer import Informer
from tests.bench.operators import kind
from tests.bench.operators.engine import Engine
from tests.bench.operators.kind import THINGS

ROOT = Path(__file__).parents[3]
INTERVAL = 10.0
SETTLE = INTERVAL + 3  # by then each object was probed once
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Took:
    rate: float  # objects per second, from the first that has its status to the last
    start: float  # seconds, from the start of the process to the first
    cpu: float  # seconds, of the process from its start until all have their status
    memory: float  # MB, the most that it had
    probed: float = 0.0  # seconds, of the process from its start until all members were probed once
    steady: float = 0.0  # CPU as a share of one core, while nothing changes
    probes: float = 0.0  # per second, meanwhile


class Work:
    """2,000 objects in a namespace, made anew for each run."""

    def __init__(self, kubeconfig: Path, context: str, engine: Engine, *, namespace: str = "things", count: int = 2000):
        self._place = (kubeconfig, context)
        self._engine = engine
        self._namespace = namespace
        self._count = count

    def run(self, side: str, command: list[str], *, steady: float = 0.0) -> Took:
        kubeconfig, context = map(str, self._place)
        last = [str(self._count)] if side == "bare" else [self._engine.url, str(INTERVAL)]
        return asyncio.run(self._run([*command, kubeconfig, context, self._namespace, *last], steady))

    async def _run(self, command: list[str], steady: float) -> Took:
        async with Client.of(*self._place, agent="bench") as client:
            await kind.make(client, self._namespace, self._count)
            try:
                begin = time.monotonic()
                with _started(command) as process:
                    first, last = await self._until_all_told(client)
                    cpu = _cpu(process)
                    took = Took((self._count - 1) / (last - first), first - begin, cpu, _peak(process))
                    return await self._watched(process, took, steady) if steady else took
            finally:
                await kind.remove(client, self._namespace)

    async def _until_all_told(self, client: Client) -> tuple[float, float]:
        """The moments when the first and the last got their status, as the server tells."""
        cache = Cache(THINGS, namespace=self._namespace)
        told: set[Name] = set()
        first, done = 0.0, asyncio.Event()

        def look(change: Change) -> None:
            nonlocal first
            if change.object.get("status", {}).get("text"):
                first = first or time.monotonic()
                told.add(Name.of(change.object))
                if len(told) == self._count:
                    done.set()

        cache.listeners.append(look)
        following = asyncio.create_task(Informer(client, cache).run())
        try:
            await asyncio.wait_for(done.wait(), PATIENCE)
        except TimeoutError:
            raise RuntimeError(f"{self._count - len(told)} objects got no status in {PATIENCE:g} s") from None
        finally:
            last = time.monotonic()
            await end_tasks(following)
        return first, last

    async def _watched(self, process: psutil.Popen, took: Took, seconds: float) -> Took:
        await asyncio.sleep(SETTLE)
        before = time.monotonic(), _cpu(process), await asyncio.to_thread(self._engine.probes)
        await asyncio.sleep(seconds)
        after = time.monotonic(), _cpu(process), await asyncio.to_thread(self._engine.probes)
        passed, cpu, probes = (later - earlier for later, earlier in zip(after, before, strict=True))
        return replace(took, memory=_peak(process), probed=before[1], steady=100 * cpu / passed, probes=probes / passed)


@contextlib.contextmanager
def _started(command: list[str]) -> Iterator[psutil.Popen]:
    process = psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _cpu(process: psutil.Popen) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def _peak(process: psutil.Popen) -> float:
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    return float(process.memory_info().rss) / 1e6
