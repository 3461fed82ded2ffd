"""A small app type that is no etcd: a cache with passwords, whose certificates and CAs are reloaded as it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from fleet import TLS, App
from fleet.kit.credentials.tls import CLIENTS, DeclaredCertificate, Tls
from fleet.kit.observe.world import Object

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


class Cache(App, frozen=True):
    """A cache."""

    version: str
    """The version to run."""
    members: int = 3
    """How many."""
    tls: TLS = TLS()
    """Encryption."""

    port: ClassVar[int] = 6379


def names_of(app: Cache) -> tuple[str, ...]:
    service = f"{app.name}.{app.namespace}.svc"
    return service, f"*.{app.name}-peers.{app.namespace}.svc"


SERVER: DeclaredCertificate[Cache] = DeclaredCertificate("server", CLIENTS, lambda app: app.name, names_of)
SENTINEL: DeclaredCertificate[Cache] = DeclaredCertificate(
    "sentinel", CLIENTS, lambda app: f"{app.name}-sentinel", names_of
)


def declared(**options: Any) -> Tls[Cache]:
    return Tls(**{"certificates": (SERVER, SENTINEL), "client": "offered", **options})


def cache(**spec: Any) -> Cache:
    return Cache("hot", namespace="shop", **{"version": "8.0", **spec})


def pod(ordinal: int, *secrets: str, ready: bool = True) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": f"hot-{ordinal}", "namespace": "shop"},
        "spec": {"volumes": [{"secret": {"secretName": secret}} for secret in secrets]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def metadata(name: str) -> Object:
    return {"name": name, "namespace": "shop", "labels": {"fleet.dev/app": "hot", "fleet.dev/kind": "Cache"}}
