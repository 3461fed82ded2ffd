"""What is known about etcd without asking one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fleet.apps.etcd import names
from fleet.apps.etcd.client import client
from fleet.apps.etcd.layout import read as read_layout
from fleet.apps.etcd.ledger import LEDGER
from fleet.apps.etcd.ledger import read as read_ledger
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.unserved import unserved
from fleet.apps.etcd.upgrade import SERIES, path
from fleet.kit.client import Client
from fleet.kit.driver import Capabilities, Driver, EngineMeta, Impact, Path, Problem

if TYPE_CHECKING:
    from fleet.kit.discovery import Discovery
    from fleet.model.app import Connection


class EtcdDriver(Driver[Etcd]):
    app = Etcd
    meta = EngineMeta(
        name="etcd",
        versions=SERIES,
        roles=("leader", "follower", "learner"),
        ports={"client": 2379, "peer": 2380, "metrics": 2381},
        quorum="majority",
        fewest=1,
        most=7,
        short_names=("ec",),
        words="etcd: a small, strictly consistent key-value store.",
    )
    caps = Capabilities(downgrade=True)
    impacts: ClassVar[Mapping[str, Impact]] = {
        "version": Impact.UPGRADE,
        "members": Impact.SCALE,
        "storage": Impact.GROW,
        "volume.storage_class": Impact.IMMUTABLE,
        "volume": Impact.NONE,
        "tls.enabled": Impact.RESTART,  # of members that others set up without it; else it cannot be changed
        "tls.authority": Impact.RESTART,  # and whom to trust only when it starts
        "tls": Impact.RELOAD,  # etcd reads certificates anew at every handshake
        "backup": Impact.NONE,
        "restore_from": Impact.NONE,
        "force_quorum": Impact.LOSS,
        "paused": Impact.NONE,
        "config": Impact.RESTART,
        "resources": Impact.RESTART,
        "image": Impact.RESTART,
    }

    def validate(self, spec: Etcd, previous: Etcd | None = None) -> list[Problem]:
        return [*super().validate(spec, previous), *unserved(spec)]

    def losses(self, before: Etcd, after: Etcd) -> list[str]:
        if before.force_quorum or not after.force_quorum:
            return []
        return ["force_quorum: where a majority is lost, goes on from one member; writes may be lost"]

    def objection(self, spec: Etcd, found: dict[str, Any]) -> str:
        from fleet.apps.etcd.fitting import foreseen  # noqa: PLC0415 - for apps that run already, and are new here

        known = foreseen(spec, found)
        return known.message if known else ""

    def discovery(self) -> Discovery:
        from fleet.apps.etcd.discovery import DISCOVERY  # noqa: PLC0415 - for `fleet adopt` alone

        return DISCOVERY

    def path(self, current: str, target: str) -> Path:
        return path(current, target)

    def stays(self, spec: Etcd, status: Mapping[str, Any]) -> str:
        from fleet.apps.etcd.image import same_image  # noqa: PLC0415 - for plans alone

        return same_image(spec, status)

    def unknown_release(self, spec: Etcd) -> str:
        from fleet.apps.etcd.image import unknown_release  # noqa: PLC0415 - for plans and checks alone

        return unknown_release(spec)

    def notes(self, spec: Etcd) -> str:
        return names.members_map(spec)

    def as_noted(self, spec: Etcd, notes: Mapping[str, Any]) -> Etcd:
        text = (notes["metadata"].get("annotations") or {}).get(LEDGER)
        ledger = read_ledger(text) if text else None
        return names.laid_out(spec, read_layout(ledger.layout) if ledger and ledger.layout else None)

    def connection(self, spec: Etcd) -> Connection:
        return names.connection(spec)

    def client(self, spec: Etcd) -> Client:
        return client(spec)


DRIVER = EtcdDriver()
