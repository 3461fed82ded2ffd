"""How an etcd is backed up and put back: a snapshot of one member, from which all founders of a new one start."""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.client import certificate_flags
from fleet.apps.etcd.driver import MEMBER
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.backup.plan import BackupPlan, PutBack
from fleet.kit.programs import EngineCommand
from fleet.model.types import release

_CERTIFICATES = "/etc/etcd/client"
_OF_OLD_TOOLS = {"ETCDCTL_API": "3"}  # which 3.4 wants to be told


def save(app: Etcd, target: str) -> EngineCommand:
    """Save through the Service: a snapshot is of one member, and any that is ready will do, the leader or another."""
    endpoint = f"--endpoints={names.scheme(app)}://{app.endpoint}"
    if not names.encrypted(app):
        return EngineCommand(("etcdctl", endpoint, "snapshot", "save", target), _OF_OLD_TOOLS)
    command = ("etcdctl", endpoint, *certificate_flags(_CERTIFICATES), "snapshot", "save", target)
    return EngineCommand(command, _OF_OLD_TOOLS, {kit_names.secret(app, "connection"): _CERTIFICATES})


def put_back(app: Etcd, about: PutBack) -> EngineCommand:
    """Restore with etcd's own tool, which has been a program of its own since 3.5. It checks etcd's checksum
    once more."""
    tool = "etcdutl" if release(about.version).series >= (3, 5) else "etcdctl"
    cluster = ",".join(f"{pod}={names.peer_url(app, pod)}" for pod in about.founders)
    command = (
        tool,
        "snapshot",
        "restore",
        about.snapshot,
        f"--name={about.pod}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={names.token(app)}",
        f"--initial-advertise-peer-urls={names.peer_url(app, about.pod)}",
        f"--data-dir={about.target}",
    )
    return EngineCommand(command, _OF_OLD_TOOLS)


def unreadable(data: str, version: str) -> str | None:
    """Return why etcd of a version cannot start from data of a series; None if it can."""
    if not data:
        return None  # so old or so new that it does not say; etcd will
    written, reader = release(data), release(version)
    if written.series == reader.series or written.series == (reader.major, (reader.minor or 0) - 1):
        return None
    return f"has data of etcd {data}, which etcd {version} cannot start from: restore with {data} and upgrade then"


PLAN = BackupPlan[Etcd](
    kind=Etcd.kind(),
    role=MEMBER,
    save=save,
    suffix="db",
    verify="fleet.apps.etcd.backup.snapshot:verified",
    unreadable=unreadable,
    put_back=put_back,
    complete=("member/snap/db", "member/wal"),
)
