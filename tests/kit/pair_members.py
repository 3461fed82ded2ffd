"""The members of a `Pair` in memory: what a node is follows from the file that it starts with and from what is on its
volume, and the watchers choose another primary when it is gone.

A write is acknowledged when every node that runs has it. So the one that is chosen must be one that has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Agreement, MemberState, Observation, Silence
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.engine import Allowed, Connector, Declined, Done, NotYet, Progress
from fleet.kit.simulate.cluster import Container, Disk
from fleet.kit.step import Act
from tests.kit.pair import PAIR, Pair

LOST = "this-node-has-lost-its-data.invalid"
WATCHES = "sentinel"


@dataclass(slots=True)
class _Node:
    disk: Disk
    version: str
    waits: bool = False  # it must have data, and has none


@dataclass(slots=True)
class PairServers:
    """All servers of a trial, by pod."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    watchers: dict[str, str] = field(default_factory=dict)  # with their version
    primary: str = ""
    acknowledged: int = 0
    elections: int = 0
    silent: set[str] = field(default_factory=set)  # pods that do not answer
    broken: set[str] = field(default_factory=set)  # images with which no server starts
    isolated: set[str] = field(default_factory=set)  # pods that the others do not reach
    unready: set[str] = field(default_factory=set)  # pods that their kubelet calls unready though they run
    recovering: dict[str, str] = field(default_factory=dict)  # by pod, what it says of that
    asked: list[tuple[str, str]] = field(default_factory=list)  # what members were asked for, and about which pod
    refuses: bool = False
    _ready: set[str] = field(default_factory=set)

    # What a kubelet learns

    def start(self, container: Container) -> str:
        if container.image in self.broken:
            return "exec format error"
        version = container.image.rpartition(":")[2]
        named = {word.rpartition("/")[2] for word in container.prepared} & {*container.files}
        if not named:
            return f"cp: cannot stat '{container.prepared[-1]}': No such file or directory"
        if WATCHES in container.pod:
            self.watchers[container.pod] = version
            return ""
        assert container.volume is not None
        text = container.files[named.pop()]
        node = _Node(container.volume, version)
        if "log" not in node.disk.content:
            node.waits = LOST in text
            if not node.waits and "replicaof" not in text:
                node.disk.content["log"] = 0
                self.primary = self.primary or container.pod
        self.nodes[container.pod] = node
        return ""

    def stop(self, pod: str) -> None:
        self.nodes.pop(pod, None)
        self.watchers.pop(pod, None)
        self._ready.discard(pod)

    def is_ready(self, pod: str) -> bool:
        return pod in self._ready and pod not in self.unready

    def tick(self) -> None:
        self._choose()
        leads = self.nodes.get(self.primary)
        if leads is not None:
            log = leads.disk.content["log"] = leads.disk.content["log"] + 1
            for node in self.nodes.values():
                if not node.waits:
                    node.disk.content["log"] = log  # all of it, as a replica takes it over
            self.acknowledged = max(self.acknowledged, log)
        nodes = {pod for pod, node in self.nodes.items() if not node.waits and "log" in node.disk.content}
        self._ready = nodes | {*self.watchers}

    def _choose(self) -> None:
        """Have another node lead if the primary is gone and watchers are there to see it."""
        present = self.nodes.get(self.primary)
        if present is not None and "log" in present.disk.content:
            return
        full = {pod: node.disk.content["log"] for pod, node in self.nodes.items() if "log" in node.disk.content}
        if self.primary and full and (len(self.watchers) > 1 or self.primary in full):
            self.elections += 1
            self.primary = max(sorted(full), key=lambda pod: full[pod])

    # What a trial asks

    def is_served(self) -> bool:
        return self.primary in self.nodes and "log" in self.nodes[self.primary].disk.content

    def lost_writes(self) -> int:
        logs = [node.disk.content.get("log", 0) for node in self.nodes.values()]
        return max(0, self.acknowledged - max(logs)) if logs else 0

    def membership(self) -> Mapping[str, str]:
        return {**dict.fromkeys(sorted(self.nodes), "node"), **dict.fromkeys(sorted(self.watchers), WATCHES)}


class PairEngine(AppEngine[Pair]):
    def __init__(self, servers: PairServers, images: Mapping[str, str] | None = None) -> None:
        super().__init__(PAIR, images or {}, half=PairHalf(servers))

    def answers(self, observation: Observation[Pair]) -> Answers[Pair]:
        return Answers(PAIR, self.images, acts=frozenset({"lead", "forget"}))


@dataclass
class PairHalf:
    servers: PairServers

    def connector(self, app: Pair, world: World) -> Connector[str] | None:
        return Connector(b"plain", _open)

    async def close(self, client: str) -> None: ...

    async def probe(self, client: str, observation: Observation[Pair], pod: str) -> MemberState | Silence | None:
        servers = self.servers
        if observation.world.pod(pod) is None:
            return None
        if pod in servers.silent or pod not in {*servers.nodes, *servers.watchers}:
            return Silence("no answer in 2 s")
        if observation.role.name:
            return MemberState(role=WATCHES, version=servers.watchers[pod])
        node = servers.nodes[pod]
        if node.waits:
            return MemberState(role="replica", version=node.version, obstacle="it has lost its data")
        if pod in servers.recovering:
            progress = servers.recovering[pod]
            return MemberState(role="replica", version=node.version, obstacle="it loads", progress=progress)
        leads = pod == servers.primary
        return MemberState(role="primary" if leads else "replica", version=node.version, leads=leads)

    async def membership(self, client: str, observation: Observation[Pair]) -> Agreement | None:
        """Nodes with data; of the watchers all that answer."""
        if not observation.states:
            return None
        return Agreement(
            {pod: "" for pod, state in observation.states.items() if state.obstacle != "it has lost its data"}
        )

    async def act(self, client: str, observation: Observation[Pair], act: Act, allowed: Allowed) -> Progress:
        if self.servers.refuses:
            return Declined("no failover while another one is under way", "wait for it")
        pod = str(act.arguments["pod"])
        self.servers.asked.append((act.what, pod))
        if act.what == "lead":
            if pod in self.servers.recovering:
                return NotYet("it still loads")
            self.servers.primary = pod
        return Done()


async def _open() -> str:
    return "open"
