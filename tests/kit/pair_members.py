"""The members of a `Pair`, as they would answer: what a node is follows from the file that it started with and from
what is in its volume, and the watchers say which nodes they know.

They are in the memory of a cluster in memory, since no program of this engine is run here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Agreement, MemberState, Observation, Silence
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.engine import Allowed, Connector, Declined, Done, NotYet, Progress
from fleet.kit.step import Act
from tests.kit.pair import PAIR, Pair, app
from tests.kit.plain_cluster import PlainCluster

LOST = "this-node-has-lost-its-data.invalid"


class PairEngine(AppEngine[Pair]):
    def __init__(self, half: PairHalf) -> None:
        super().__init__(PAIR, {}, half=half)

    def answers(self, observation: Observation[Pair]) -> Answers[Pair]:
        return Answers(PAIR, self.images, acts=frozenset({"lead", "forget"}))


@dataclass
class PairHalf:
    cluster: PairCluster | None = None
    primary: str = ""
    filled: set[str] = field(default_factory=set)  # UIDs of claims with data
    files: dict[str, str] = field(default_factory=dict)  # by UID of the pod: the file that it started with
    recovering: dict[str, str] = field(default_factory=dict)  # by pod, what it says of that
    deaf: set[str] = field(default_factory=set)  # pods, or their UIDs, that do not answer
    refuses: bool = False

    def connector(self, app: Pair, world: World) -> Connector[str] | None:
        return Connector(b"plain", _open)

    async def close(self, client: str) -> None: ...

    async def probe(self, client: str, observation: Observation[Pair], pod: str) -> MemberState | Silence | None:
        assert self.cluster is not None
        found = self.cluster.objects.get(("Pod", pod))
        if found is None:
            return None
        if {pod, found["metadata"]["uid"]} & self.deaf:
            return Silence("no answer in 2 s")
        version = found["spec"]["containers"][0]["image"].rpartition(":")[2]
        if observation.role.name:
            return MemberState(role="sentinel", version=version)
        text = self.files.setdefault(found["metadata"]["uid"], self.cluster.file(pod))
        claim = self.cluster.get("PersistentVolumeClaim", f"data-{pod}")["metadata"]["uid"]
        if claim not in self.filled and LOST in text:
            return MemberState(role="replica", version=version, obstacle="it has lost its data")
        self.filled.add(claim)
        self.primary = self.primary or (pod if "replicaof" not in text else "")
        if pod in self.recovering:
            return MemberState(role="replica", version=version, obstacle="it loads", progress=self.recovering[pod])
        leads = pod == self.primary
        return MemberState(role="primary" if leads else "replica", version=version, leads=leads)

    async def membership(self, client: str, observation: Observation[Pair]) -> Agreement | None:
        """Nodes with data; of the watchers all that answer."""
        if not observation.states:
            return None
        return Agreement(
            {pod: "" for pod, state in observation.states.items() if state.obstacle != "it has lost its data"}
        )

    async def act(self, client: str, observation: Observation[Pair], act: Act, allowed: Allowed) -> Progress:
        if self.refuses:
            return Declined("no failover while another one is under way", "wait for it")
        if act.what == "lead":
            if act.arguments["pod"] in self.recovering:
                return NotYet("it still loads")
            self.primary = str(act.arguments["pod"])
        return Done()


async def _open() -> str:
    return "open"


@dataclass
class PairCluster(PlainCluster):
    """With the members of a `Pair` in its pods."""

    half: PairHalf = field(default_factory=PairHalf)

    def make_engine(self) -> PairEngine:
        self.half.cluster = self
        return PairEngine(self.half)

    def file(self, pod: str) -> str:
        """Return the file that a pod reads, as the ConfigMap has it now."""
        words = str(self.get("Pod", pod)["spec"])
        data = self.get("ConfigMap", "cache-members")["data"]
        named = [name for name in data if name.startswith(f"{pod}.") and name.removeprefix(f"{pod}.") in words]
        return str(data[named[0]])

    def lose_volume(self, pod: str) -> None:
        """The claim of a pod is lost, and its member serves nobody any more."""
        self.get("PersistentVolumeClaim", f"data-{pod}")["status"] = {"phase": "Lost"}
        self.unready.add(pod)
        self.half.deaf.add(self.get("Pod", pod)["metadata"]["uid"])
        if self.half.primary == pod:  # the watchers choose another one
            self.half.primary = next(other for other in self.names("Pod") if other != pod and "sentinel" not in other)
        self.control()


def pair_cluster(**spec: Any) -> PairCluster:
    """Return an empty cluster for an app."""
    return PairCluster(PAIR, app(**spec))
