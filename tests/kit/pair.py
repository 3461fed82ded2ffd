"""A type with two roles of pods, as Redis with its Sentinels: each has a StatefulSet, Services and a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from fleet.kit.app_type import AppService, AppType, DataVolume, Port, Ready, Role, Setting
from fleet.kit.credentials.tls import CLIENTS, DeclaredCertificate, Tls
from fleet.kit.credentials.users import User
from fleet.kit.driver import Impact
from fleet.kit.members import MemberRecord
from fleet.kit.versions import Versions
from fleet.model.app_settings import TLS, Resources
from fleet.model.network_settings import Measured
from fleet.model.types import Quantity, Version


class Pair(Measured, frozen=True):
    """Nodes, and watchers that agree on which of them takes writes."""

    version: Version
    """The version to run."""
    members: int = 3
    """How many nodes."""
    storage: Quantity = "1Gi"
    """The size of each node's volume."""
    resources: Resources = Resources()
    """CPU and memory of each node."""
    memory: Quantity = "256Mi"
    """How much data each node holds."""
    failover_seconds: int = 5
    """After how long a node counts as down."""
    tls: TLS = TLS(enabled=False)
    """Encryption."""

    port: ClassVar[int] = 6379


NODE = Role[Pair](
    command=("redis-server",),
    arguments=("{data}/redis.conf",),
    prepare=(("cp", "-n", "{file:redis.conf}", "{data}/redis.conf"),),
    before_stop=("redis-cli", "shutdown", "save"),
    ports=(Port("client", 6379),),
    ready=Ready(command=("redis-cli", "-p", "6379", "ping"), period=5, timeout=3, failures=4),
    volumes=(DataVolume("/data"),),
    files="/etc/redis",
    scratch=("/tmp", "/run/redis"),
    certificates={"server": "/etc/redis-server"},
    bootstrap="seed",
    grace=60,
    patience=900.0,
    user=999,
)
WATCHER = Role[Pair](
    name="sentinel",
    container="sentinel",
    command=("redis-sentinel",),
    arguments=("{data}/sentinel.conf",),
    prepare=(("cp", "-n", "{file:sentinel.conf}", "{data}/sentinel.conf"),),
    ports=(Port("sentinel", 26379),),
    ready=Ready(tcp="sentinel"),
    count=lambda app: 3 if app.members > 1 else 0,
    resources=lambda app: Resources(cpu="50m", memory="64Mi"),
    volumes=(DataVolume("/data", size=lambda app: "64Mi"),),
    files="/etc/redis",
)


def _names(app: Pair) -> tuple[str, ...]:
    return (f"*.{app.name}-peers.{app.namespace}.svc",)


class PairType(AppType[Pair]):
    app = Pair
    name = "Pair"
    versions = Versions({"7": "7.4.2", "8": "8.0.2"}, "docker.io/library/redis:{version}", parts=1, step="any")
    roles: tuple[Role[Pair], ...] = (NODE, WATCHER)
    services = (
        AppService(to="primary", kept_by="operator"),
        AppService("replicas", to="replicas", kept_by="operator"),
        AppService("every", to="every"),
        AppService("sentinel", role="sentinel"),
    )
    settings: tuple[Setting[Pair], ...] = (
        Setting[Pair]("maxmemory", lambda app: app.memory, costs=Impact.RELOAD, field="memory"),
        Setting[Pair]("appendonly", lambda app: "yes"),
        Setting[Pair](
            "down-after-milliseconds",
            lambda app: app.failover_seconds * 1000,
            field="failover_seconds",
            role="sentinel",
        ),
    )
    users: tuple[User, ...] = (User("default"), User("replica", "members"))
    tls: Tls[Pair] | None = Tls[Pair](
        certificates=(DeclaredCertificate("server", CLIENTS, lambda app: app.name, _names),),
        client="offered",
    )
    ranks = ("primary", "replica")
    quorum: Literal["majority", "external", "none"] = "external"

    def files(self, app: Pair, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> dict[str, str]:
        lines = [f"{name} {value}" for name, value in settings.items()]
        if record.phase == "joining":
            lines.append(f"replicaof {record.cluster[0]} 6379")
        if record.phase == "settled" and not record.role:
            lines.append("replicaof this-node-has-lost-its-data.invalid 6379")
        return {"sentinel.conf" if record.role else "redis.conf": "".join(f"{line}\n" for line in lines)}


PAIR = PairType()


def app(**spec: Any) -> Pair:
    return Pair("cache", namespace="shop", **{"version": "7", **spec})
