"""etcd's declaration: what is known about it without asking one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.apps.etcd import names
from fleet.apps.etcd.client import client
from fleet.apps.etcd.files import CERTIFICATES, FILE, SETTINGS, common, file_of
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.tls import DECLARED
from fleet.apps.etcd.versions import VERSIONS, find_path
from fleet.kit import names as kit_names
from fleet.kit.adoption.stays import list_what_stays
from fleet.kit.app_type import AppType, DataVolume, Port, Ready, Role
from fleet.kit.driver import Path, Problem
from fleet.kit.members import MemberRecord
from fleet.kit.programs import Client
from fleet.kit.workload.settings_text import read_settings

if TYPE_CHECKING:
    from fleet.apps.etcd.adoption import EtcdAdoption
    from fleet.kit.adoption.discovery import Discovery
    from fleet.kit.backup.plan import BackupPlan
    from fleet.model.app import Connection

MEMBER = Role[Etcd](
    command=("etcd",),
    arguments=(f"--config-file={{file:{FILE}}}",),
    ports=(
        Port("client", names.CLIENT),
        Port("peer", names.PEER, used_by="members"),
        Port("metrics", names.METRICS, used_by="probes"),
    ),
    ready=Ready(http=("/health", "metrics")),  # only with a majority, and never a learner: no client comes to one
    volumes=(DataVolume(names.MOUNT),),
    files=names.MEMBER_FILES,
    certificates=CERTIFICATES,
    bootstrap="together",
    joining="announced",
    votes=True,
)


class EtcdType(AppType[Etcd]):
    app = Etcd
    name = "etcd"
    description = "etcd: a small, strictly consistent key-value store."
    short_names = ("ec",)
    versions = VERSIONS
    roles = (MEMBER,)
    settings = SETTINGS
    options = "config.options"
    tls = DECLARED
    ranks = ("leader", "follower", "learner")
    quorum = "majority"
    most = names.MOST
    engine = "fleet.apps.etcd.engine.engine:EtcdEngine"

    def validate(self, spec: Etcd, previous: Etcd | None = None) -> list[Problem]:
        return [*super().validate(spec, previous), *list_what_stays(spec, spec.tls)]

    def losses(self, before: Etcd, after: Etcd) -> list[str]:
        if before.force_quorum or not after.force_quorum:
            return []
        return ["force_quorum: where a majority is lost, goes on from one member; writes may be lost"]

    def adoption_rules(self) -> EtcdAdoption:
        from fleet.apps.etcd.adoption import EtcdAdoption  # noqa: PLC0415 - for apps that run already

        return EtcdAdoption(self)

    def discovery(self) -> Discovery:
        from fleet.apps.etcd.discovery import DISCOVERY  # noqa: PLC0415 - for `fleet adopt` alone

        return DISCOVERY

    def backup_plan(self) -> BackupPlan[Etcd]:
        from fleet.apps.etcd.backup.plan import PLAN  # noqa: PLC0415 - for Jobs alone

        return PLAN

    def path(self, current: str, target: str) -> Path:
        return find_path(current, target)

    def shared_settings(self, app: Etcd, role: Role[Etcd]) -> dict[str, Any]:
        return common(app)

    def files(self, app: Etcd, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> dict[str, str]:
        return {FILE: file_of(app, pod, record, settings)}

    def read_settings(self, files: Mapping[str, str]) -> Mapping[str, Any]:
        return read_settings(files[FILE])

    def connection(self, spec: Etcd) -> Connection:
        return names.connection(spec)

    def connection_texts(self, app: Etcd) -> Mapping[str, str]:
        members = (names.client_url(app, kit_names.pod(app, number)) for number in range(app.members))
        return {**super().connection_texts(app), "endpoints": ",".join(members)}

    def client(self, spec: Etcd) -> Client:
        return client(spec)


DRIVER = EtcdType()
