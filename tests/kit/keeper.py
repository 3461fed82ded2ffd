"""A type whose members keep users and take settings while they run, with its members in memory.

`SUBJECT` is for the conformance suite: what a server in memory accepts is what it was told, and it forgets both with
its volume. Settings are read from the file at the start, and changed by `reload` after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fleet.kit.app_type import AppType, DataVolume, Port, Ready, Role, Setting
from fleet.kit.credentials.declared import read_passwords
from fleet.kit.credentials.users import User, mark_password
from fleet.kit.driver import Impact
from fleet.kit.members import MemberRecord
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Agreement, MemberState, Observation, Silence
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.engine import Allowed, Begun, Connector, Declined, Done, Progress
from fleet.kit.simulate.cluster import Container, Disk
from fleet.kit.step import Act
from fleet.kit.versions import Versions
from fleet.model.app import App
from fleet.model.app_settings import Passwords, Resources, Volume
from fleet.model.types import Quantity, Version
from fleet.testing.conformance import Subject, Trial
from fleet.testing.conformance.subject import Change, change_spec, kill_pod, lose_volume


class Keeper(App, frozen=True):
    """A store with users."""

    version: Version
    """The version to run."""
    members: int = 3
    """How many members."""
    storage: Quantity = "1Gi"
    """The size of each member's volume."""
    resources: Resources = Resources()
    """CPU and memory of each member."""
    volume: Volume = Volume()
    """How the members' volumes are made."""
    passwords: Passwords = Passwords()
    """Passwords of its users."""
    entries: int = 100
    """How many entries each member keeps."""
    verbose: bool = False
    """Whether members write much into their logs."""
    threads: int = 2
    """How many threads each member has: read at the start, and worth no restart of its own."""

    port: ClassVar[int] = 7070


class KeeperType(AppType[Keeper]):
    app = Keeper
    name = "Keeper"
    versions = Versions({"1.0": "1.0.0", "1.1": "1.1.0"}, "docker.io/library/keeper:{version}", step="any")
    roles = (
        Role[Keeper](
            command=("keeper", "--config={file:keeper.conf}"),
            ports=(Port("client", 7070),),
            ready=Ready(tcp="client"),
            volumes=(DataVolume("/data"),),
            files="/etc/keeper",
            environment={"KEEPER_OPERATOR": "{password:fleet}", "KEEPER_NAME": "{pod}"},
        ),
    )
    settings: tuple[Setting[Keeper], ...] = (
        Setting[Keeper]("entries", lambda app: app.entries, costs=Impact.RELOAD),
        Setting[Keeper]("verbose", lambda app: app.verbose, costs=Impact.RELOAD),
        Setting[Keeper]("threads", lambda app: app.threads, follows=lambda app: True),
    )
    users: tuple[User, ...] = (User("app"), User("peer", "members"), User("fleet", "operator"))

    def files(self, app: Keeper, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> dict[str, str]:
        lines = [f"name={pod}", *(f"{name}={text}" for name, text in self.setting_texts(app, self.roles[0]).items())]
        return {"keeper.conf": "".join(f"{line}\n" for line in lines)}


KEEPER = KeeperType()


def app(**spec: Any) -> Keeper:
    return Keeper("store", namespace="shop", **{"version": "1.0", **spec})


@dataclass(slots=True)
class _Server:
    disk: Disk
    version: str
    in_force: dict[str, str]
    hangs: bool = False
    coming: dict[str, str] = field(default_factory=dict)  # settings whose reload is under way

    @property
    def accepts(self) -> dict[str, set[str]]:
        """The passwords of each user, which are on its volume."""
        accepts: dict[str, set[str]] = self.disk.content.setdefault("users", {})
        return accepts

    @property
    def uses(self) -> dict[str, str]:
        uses: dict[str, str] = self.disk.content.setdefault("uses", {})
        return uses


@dataclass(slots=True)
class KeeperServers:
    """All members of a trial, by pod. Each tick a client writes one number to every member."""

    servers: dict[str, _Server] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)  # pods on which a request has no effect, as one that was lost
    slow: bool = False  # a reload takes effect with the next tick
    hung: set[str] = field(default_factory=set)  # images whose servers serve nobody, ever
    recovering: str = ""  # what such a server says that it is busy with; "" is silent
    acts: list[tuple[str, str]] = field(default_factory=list)  # what members were asked for, and of whom
    elections: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)

    def start(self, container: Container) -> str:
        if container.image in self.broken:
            return "exec format error"
        name = container.arguments[-1].rpartition("/")[2]
        if name not in container.files or container.volume is None:
            return f"open {name}: no such file or directory"
        lines = dict(line.split("=", 1) for line in container.files[name].splitlines())
        settings = {key: text for key, text in lines.items() if key != "name"}
        version, hangs = container.image.rpartition(":")[2], container.image in self.hung
        self.servers[container.pod] = _Server(container.volume, version, settings, hangs)
        return ""

    def stop(self, pod: str) -> None:
        self.servers.pop(pod, None)

    def is_ready(self, pod: str) -> bool:
        return pod in self.servers and not self.servers[pod].hangs

    def tick(self) -> None:
        for server in self.servers.values():
            server.in_force |= server.coming
            disk = server.disk
            disk.content["log"] = self.acknowledged[disk.uid] = disk.content.get("log", 0) + 1

    def is_served(self) -> bool:
        return bool(self.servers)

    def lost_writes(self) -> int:
        logs = {server.disk.uid: server.disk.content.get("log", 0) for server in self.servers.values()}
        return sum(max(0, self.acknowledged[uid] - log) for uid, log in logs.items() if log)

    def membership(self) -> Mapping[str, str]:
        return dict.fromkeys(sorted(self.servers), "member")


class KeeperHalf:
    """Asks members in memory."""

    def __init__(self, servers: KeeperServers) -> None:
        self.servers = servers

    def connector(self, app: Keeper, world: World) -> Connector[KeeperServers]:
        async def connect() -> KeeperServers:
            return self.servers

        return Connector(b"memory", connect)

    async def close(self, client: KeeperServers) -> None: ...

    async def probe(
        self, client: KeeperServers, observation: Observation[Keeper], pod: str
    ) -> MemberState | Silence | None:
        server = client.servers.get(pod)
        if server is None or pod in client.silent:
            return Silence("no answer in 2 s")
        if server.hangs:
            busy = MemberState(version=server.version, obstacle="it does not serve yet", progress=client.recovering)
            return busy if client.recovering else Silence("no answer in 2 s")
        accepts = {user: frozenset(map(mark_password, known)) for user, known in server.accepts.items()}
        uses = {user: mark_password(password) for user, password in server.uses.items()}
        return MemberState(
            role="member", version=server.version, accepts=accepts, uses=uses, in_force=dict(server.in_force)
        )

    async def membership(self, client: KeeperServers, observation: Observation[Keeper]) -> Agreement | None:
        return None

    async def act(
        self, client: KeeperServers, observation: Observation[Keeper], act: Act, allowed: Allowed
    ) -> Progress:
        pod = str(act.arguments.get("pod", ""))
        client.acts.append((act.what, pod or str(act.arguments.get("user", ""))))
        if act.what == "reload":
            if client.slow:
                client.servers[pod].coming = dict(act.arguments["settings"])
                return Begun()
            if pod not in client.deaf:
                client.servers[pod].in_force |= act.arguments["settings"]
            return Done()
        if act.what != "user":
            return Declined(f"a keeper has no act {act.what!r}")
        name = act.arguments["user"]
        known = read_passwords(KEEPER, observation.app, observation.world)[name]
        wanted = {known[mark] for mark in act.arguments["accept"]}
        for pod, server in client.servers.items():
            if pod not in client.deaf:
                had = set() if act.arguments["alone"] else server.accepts.get(name, set())
                server.accepts[name] = had | wanted
                server.uses[name] = known[act.arguments["use"]]
        return Done()


class KeeperEngine(AppEngine[Keeper]):
    def __init__(self, servers: KeeperServers, app_type: KeeperType = KEEPER) -> None:
        super().__init__(app_type, {}, half=KeeperHalf(servers))

    def answers(self, observation: Observation[Keeper]) -> Answers[Keeper]:
        return Answers(KEEPER, self.images, acts=frozenset({"user", "reload"}))


def _lose_secret(trial: Trial) -> None:
    found = trial.cluster.get("Secret", "db-user-app")
    if found is not None:
        trial.cluster.delete(found)


ROTATION = change_spec("new passwords", passwords={"rotation": "2031"})
RELOAD = change_spec("settings that need no restart", entries=500, verbose=True)
SECRET_LOST = Change("the Secret of a user is lost", _lose_secret)
SUBJECT = Subject(
    kind="Keeper",
    spec={"version": "1.0", "members": 3, "storage": "1Gi"},
    make_servers=KeeperServers,
    make_engine=KeeperEngine,
    changes=(
        ROTATION,
        RELOAD,
        SECRET_LOST,
        change_spec("scale 3 → 5", members=5),
        change_spec("version 1.1", version="1.1"),
        kill_pod(1),
        lose_volume("data-db-1"),
    ),
    minds=(("new passwords", "scale 3 → 5"), ("settings that need no restart", "version 1.1")),
    bad_image="docker.io/library/keeper:1.1.0",
    bad_spec={"version": "1.1"},
)
