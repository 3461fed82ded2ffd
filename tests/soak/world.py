"""Makes the steps of a soak happen: real git, real API servers behind proxies, `fleet serve` as processes.

It remembers what the end is judged by: what git wants, what strangers did and to which object, what may have gone.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fleet.lab.lab import Lab
from fleet.testing import Broken, Cluster, Faults
from fleet.testing.proxy import Answer, Break, Cut, Delay, EmptyList, Lose, Match, Plan, Proxy, Rule, SkewLeases
from fleet.testing.proxy import Kill as Shot
from tests.serve.process import Process
from tests.serve.status_branch import Told
from tests.soak.actions import (
    UNREACHABLE,
    Action,
    Ail,
    Calm,
    Commit,
    Fault,
    Fleet,
    Kill,
    Meddle,
    Own,
    Settle,
    Squat,
    Step,
)
from tests.soak.repository import Repository
from tests.soak.stranger import Stranger

PATIENCE = 10.0  # seconds for a write to come at which the service is to be killed
MB = 1 << 20
Place = tuple[str, str, str]  # cluster, stack, name of an object there


@dataclass(frozen=True, slots=True)
class Mark:
    """What a stranger wrote into an object of ours: it stays as long as that object is the same one."""

    uid: str
    section: str  # data, or labels of the metadata
    value: str


@dataclass
class World:
    directory: Path
    lab: Lab
    clusters: tuple[str, str]
    patient: str  # the stack with the app
    repository: Repository = field(init=False)
    told: Told = field(init=False)
    proxies: dict[str, Proxy] = field(default_factory=dict)
    strangers: dict[str, Stranger] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    wanted: Fleet = ()
    bad: dict[str, Commit] = field(default_factory=dict)  # commits that must be refused, since the last settle
    may_go: set[tuple[str, str]] = field(default_factory=set)  # stack and name: git took them away
    marks: dict[tuple[Place, str], Mark] = field(default_factory=dict)
    owned: dict[Place, tuple[str, str, str]] = field(default_factory=dict)  # strangers' own: uid, version, value
    health: dict[str, str] = field(default_factory=dict)  # of the app, by cluster
    gone: set[tuple[str, str]] = field(default_factory=set)  # those of them since the last settle
    deleted: set[Place] = field(default_factory=set)  # by strangers, since the last settle
    counts: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, int]] = field(default_factory=list)  # of one life of the service: when, and bytes
    started: set[psutil.Process] = field(default_factory=set)  # by the service, in all its lives, as far as seen
    begun: float = field(default_factory=time.monotonic)
    _troubles: dict[str, tuple[Fault, Broken | None]] = field(default_factory=dict)
    _options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.repository = Repository.make(self.directory, self.clusters, self.patient)
        self.told = Told(self.repository.remote)
        self.strangers = {name: Stranger(self.lab.plane(self.lab.spec.cluster(name)).admin()) for name in self.clusters}

    @contextmanager
    def running(self) -> Iterator[None]:
        """With proxies before the clusters and the service behind them; whatever happens, nothing is left of it."""
        with ExitStack() as stack:
            for name in self.clusters:
                proxy = Proxy(self.lab.kubeconfig, name, self.directory)
                self.proxies[name] = stack.enter_context(proxy)
            stack.callback(self._calm_all)
            stack.callback(self._kill_all)
            self.regroup(1)
            yield

    def carry_out(self, step: Step) -> None:
        time.sleep(step.pause)
        self.sample()
        action = step.action
        self.counts[_word(action)] += 1
        match action:
            case Commit():
                self.commit(action)
            case Kill():
                self._kill(action)
            case Fault():
                self._trouble(action)
            case Calm(cluster=cluster):
                self._calm(cluster)
            case Meddle(cluster=cluster) | Own(cluster=cluster) | Squat(cluster=cluster) | Ail(cluster=cluster):
                if cluster not in self._troubles or self._troubles[cluster][0].trouble not in UNREACHABLE:
                    self._strange(action)
            case Settle():
                self._calm_all()
        for one in self.processes:
            if not one.runs:
                raise AssertionError(
                    f"the service ended by itself with {one.process and one.process.returncode}:\n{one.tail()}"
                )

    def commit(self, action: Commit) -> None:
        revision = self.repository.carry_out(action)
        if not action.good:
            self.counts["bad"] += 1
            self.bad[revision] = action
            if self.counts["bad"] % 2:  # the others are put right as fast as any commit comes
                self._await_word(revision)
            return
        after = {(one.name, name) for one in action.fleet for item in one.items for name in item.names}
        before = {(one.name, name) for one in self.wanted for item in one.items for name in item.names}
        self.gone |= before - after
        self.may_go |= before - after
        self.wanted = action.fleet

    def regroup(self, replicas: int) -> None:
        """So many processes from now on."""
        if len(self.processes) == replicas:
            return
        self._note_started()
        for one in self.processes:
            if one.stop() != 0:
                raise AssertionError(f"the service did not stop in good order:\n{one.tail()}")
        self.memory.clear()
        self._options = ("--management", self.clusters[0]) if replicas > 1 else ()
        self.processes = [self._process(number) for number in range(replicas)]
        for one in self.processes:
            one.start(*self._options, status_every="3s")

    def _kill_all(self) -> None:
        self._note_started()
        for one in self.processes:
            one.kill()

    def _process(self, number: int) -> Process:
        place = self.directory / f"replica-{self.counts['settle']}-{number}"
        place.mkdir(exist_ok=True)
        paths = os.pathsep.join(str(one.kubeconfig) for one in self.proxies.values())
        return Process(place, self.repository.remote.url, environment={"KUBECONFIG": paths})

    def _kill(self, action: Kill) -> None:
        victim = self.processes[action.which % len(self.processes)]
        if action.write:
            proxy = self.proxies[action.cluster]
            assert victim.process is not None
            proxy.aim(victim.process)
            shot = Rule(Match(writes=True), Shot(before=action.before), nth=action.write)
            proxy.plan = Plan([*self._rules(action.cluster), shot])
            end = time.monotonic() + PATIENCE
            while victim.runs and time.monotonic() < end and not self._is_done(victim):
                self._note_started()
                time.sleep(0.05)
            self.counts["killed at a write"] += not victim.runs
            proxy.plan = Plan(self._rules(action.cluster))
        self._note_started()
        victim.kill()
        self.memory.clear()
        victim.start(*self._options, status_every="3s")

    def _await_word(self, revision: str) -> None:
        """Until a process says something about a commit, or has had the time for it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not any(revision[:12] in one.said() for one in self.processes):
            time.sleep(0.1)

    def lines(self) -> Iterator[dict[str, object]]:
        """What the service said in all its lives, as far as it is about commits."""
        for path in sorted(self.directory.glob("replica-*/log-*")):
            for line in path.read_text(errors="replace").splitlines():
                if '"revision":' in line and line.endswith("}"):  # one that is killed leaves half a line
                    yield json.loads(line)

    def _is_done(self, service: Process) -> bool:
        """It has seen the newest commit, and either looked at all stacks of it or found that it is a bad one."""
        status, _ = service.ask("/readyz")
        return status == 200 and (self.repository.head in (text := service.ask("/metrics")[1]) or _is_broken(text))

    def _rules(self, cluster: str) -> list[Rule]:
        if cluster not in self._troubles:
            return []
        fault, _ = self._troubles[cluster]
        share = fault.amount
        match fault.trouble:
            case "dropping":
                some = share / 3
                cut = Rule(Match(), Cut(after_bytes=200, after_events=1), share=some)
                return [Rule(Match(), Break(), share=some), Rule(Match(writes=True), Lose(), share=some), cut]
            case "failing":
                return [Rule(Match(), Answer(500), share=share / 2), Rule(Match(), Answer(403), share=share / 2)]
            case "empty":
                return [Rule(Match(verb="list"), EmptyList(), share=share)]
            case "slow":
                return [Rule(Match(), Delay(share))]
            case "skewed":
                return [Rule(Match(resource="leases"), SkewLeases(share))]
        return []

    def _trouble(self, fault: Fault) -> None:
        broken = None
        faults = Faults(Cluster(self.lab, fault.cluster, "default"))
        if fault.trouble == "frozen":
            broken = faults.freeze("kube-apiserver")
        elif fault.trouble == "down":
            broken = faults.kill("kube-apiserver")
        self._troubles[fault.cluster] = (fault, broken)
        self.counts[fault.trouble] += 1
        self.proxies[fault.cluster].plan = Plan(self._rules(fault.cluster))

    def _calm(self, cluster: str) -> None:
        _, broken = self._troubles.pop(cluster, (None, None))
        self.proxies[cluster].plan = Plan()
        if broken is not None:
            broken.clear()

    def _calm_all(self) -> None:
        for cluster in self.clusters:
            self._calm(cluster)

    def _strange(self, action: Action) -> None:
        match action:
            case Meddle():
                self._meddle(action)
            case Own(cluster=cluster, stack=stack, name=name, value=value):
                made = self.strangers[cluster].own(stack, name, value)
                assert made is not None, f"{stack} has no namespace in {cluster}"
                about = made["metadata"]
                self.owned[cluster, stack, name] = (about["uid"], about["resourceVersion"], value)
            case Squat(cluster=cluster, stack=stack, skew=skew):
                self.strangers[cluster].squat(stack, skew)
            case Ail(cluster=cluster, health=health):
                if self.strangers[cluster].report(self.patient, health) is not None:
                    self.health[cluster] = health

    def _meddle(self, action: Meddle) -> None:
        cluster, stack, item, value = action.cluster, action.stack, action.item, action.value
        them = self.strangers[cluster]
        there = them.maps(stack)
        name = next((one for one in item.names if one in there), None)
        if name is None:
            return
        match action.deed:
            case "delete":
                if them.delete(stack, name):
                    self.deleted.add((cluster, stack, name))
            case "drift":
                them.patch(stack, name, {"data": {"value": value}})
            case "field":
                self._mark(them.patch(stack, name, {"data": {value: "theirs"}}), (cluster, stack, name), "data", value)
            case "label":
                body = {"metadata": {"labels": {value: "theirs"}}}
                self._mark(them.patch(stack, name, body), (cluster, stack, name), "labels", value)

    def _mark(self, written: dict[str, object] | None, place: Place, section: str, value: str) -> None:
        if written is not None:
            uid = str(written["metadata"]["uid"])  # type: ignore[index]
            self.marks[place, value] = Mark(uid, section, value)
            self.counts["foreign fields"] += 1

    def sample(self) -> None:
        """How much memory the service has, and which processes."""
        self._note_started()
        if len(self.processes) != 1 or self.processes[0].process is None:
            return
        try:
            one = psutil.Process(self.processes[0].process.pid)
            self.memory.append((time.monotonic() - self.begun, one.memory_info().rss))
        except psutil.Error:  # it is being killed
            return

    def _note_started(self) -> None:
        """Once a service is gone nobody can tell its own. Processes and not ids, as those are given again."""
        for one in self.processes:
            with suppress(psutil.Error):  # it is being killed
                if one.process is not None and one.runs:
                    self.started.update(psutil.Process(one.process.pid).children(recursive=True))


def _is_broken(metrics: str) -> bool:
    lines = [line for line in metrics.splitlines() if line.startswith("fleet_repository_broken{")]
    return any(float(line.rpartition(" ")[2]) == 1 for line in lines)


def _word(action: Action) -> str:
    return type(action).__name__.lower()
