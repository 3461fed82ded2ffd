"""What is known about NATS without asking one. The operator's work follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.kit.app_type import AppType, DataVolume, Port, Ready, Role, Setting
from fleet.kit.members import MemberRecord
from fleet.model.app import Connection
from fleet_nats.spec import VERSIONS, Nats

SERVER = Role[Nats](
    command=("nats-server",),
    arguments=("--config={file:nats.conf}",),
    ports=(Port("client", Nats.port), Port("metrics", 8222, used_by="probes")),
    ready=Ready(http=("/healthz", "metrics")),
    volumes=(DataVolume("/data"),),
    files="/etc/nats",
)


class NatsType(AppType[Nats]):
    contract = 1
    app = Nats
    name = "NATS"
    description = "NATS: a small, fast broker of messages, with JetStream."
    versions = VERSIONS
    roles = (SERVER,)
    settings = (Setting[Nats]("max_payload", lambda app: app.max_payload),)

    def files(self, app: Nats, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> dict[str, str]:
        lines = [f"server_name: {pod}", f"port: {app.port}", "http_port: 8222"]
        lines += [f"{name}: {value}" for name, value in settings.items()]
        lines += [f"jetstream {{ store_dir: /data, max_file: {app.storage} }}"]
        return {"nats.conf": "".join(f"{line}\n" for line in lines)}

    def connection(self, spec: Nats) -> Connection:
        return spec.connection


TYPE = NatsType()
