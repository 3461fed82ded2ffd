"""NATS with JetStream by its declaration: a second app type beside etcd, so that the kit has no shape of etcd's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fleet.kit.app_type import AppType, DataVolume, Port, Ready, Remedy, Role, Setting
from fleet.kit.driver import Impact
from fleet.kit.members import MemberRecord
from fleet.kit.versions import Versions, known_version
from fleet.model.app_settings import Resources, Volume
from fleet.model.base import FrozenMap
from fleet.model.network_settings import Measured
from fleet.model.types import Quantity, Version

VERSIONS = Versions(
    {"2.10": "2.10.29", "2.11": "2.11.10"}, "docker.io/library/nats:{version}", step="any", back={"2.11": "roll"}
)


class Nats(Measured, frozen=True):
    """A NATS server with JetStream."""

    version: Annotated[Version, known_version("NATS", VERSIONS)]
    """The version to run."""
    storage: Quantity = "8Gi"
    """The size of its volume."""
    resources: Resources = Resources()
    """CPU and memory."""
    volume: Volume = Volume()
    """How its volume is made."""
    max_payload: Annotated[int, Field(ge=1024, le=64 << 20)] = 1 << 20
    """The largest message, in bytes."""
    debug: bool = False
    """Whether it writes everything that happens into its log."""
    options: Mapping[str, str] = FrozenMap()
    """Any other setting."""

    port: ClassVar[int] = 4222


class NatsType(AppType[Nats]):
    app = Nats
    name = "NATS"
    description = "NATS: a small, fast broker."
    versions = VERSIONS
    roles = (
        Role[Nats](
            command=("nats-server",),
            arguments=("--config={file:nats.conf}",),
            ports=(Port("client", 4222), Port("metrics", 8222, used_by="probes")),
            ready=Ready(http=("/healthz", "metrics")),
            volumes=(DataVolume("/data"),),
            files="/etc/nats",
        ),
    )
    settings = (
        Setting[Nats]("max_payload", lambda app: app.max_payload),
        Setting[Nats]("debug", lambda app: str(app.debug).lower(), costs=Impact.RELOAD),
        Setting[Nats]("write_deadline", lambda app: app.options.get("write_deadline"), costs=Impact.RELOAD),
    )
    options = "options"
    remedies = (Remedy("grow", signal="storage", act="grow", risk="safe"),)
    most = 1

    def files(self, app: Nats, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> dict[str, str]:
        lines = [f"server_name: {pod}", "port: 4222", "http_port: 8222"]
        lines += [f"{name}: {value}" for name, value in settings.items()]
        lines += [f"jetstream {{ store_dir: /data, max_file: {app.storage} }}"]
        return {"nats.conf": "".join(f"{line}\n" for line in lines)}


NATS = NatsType()


def app(**spec: Any) -> Nats:
    return Nats("bus", namespace="shop", **{"version": "2.10", **spec})
