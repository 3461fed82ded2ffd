"""What is known about etcd without asking one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from fleet.apps.client import Client
from fleet.apps.driver import Capabilities, Driver, EngineMeta, Impact, Path
from fleet.apps.etcd.client import client
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.upgrade import SERIES, path


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
        "tls.enabled": Impact.IMMUTABLE,
        "tls.authority": Impact.RESTART,  # and whom to trust only when it starts
        "tls": Impact.RELOAD,  # etcd reads certificates anew at every handshake
        "backup": Impact.NONE,
        "restore_from": Impact.NONE,
        "force_quorum": Impact.NONE,
        "paused": Impact.NONE,
        "config": Impact.RESTART,
        "resources": Impact.RESTART,
        "image": Impact.RESTART,
    }

    def path(self, current: str, target: str) -> Path:
        return path(current, target)

    def client(self, spec: Etcd) -> Client:
        return client(spec)


DRIVER = EtcdDriver()
