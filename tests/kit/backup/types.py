"""App types that are backed up in other ways than etcd: what the frame must be able to say, as their engines have it.

Postgres   a tree that is the data, with a manifest of checksums; the first member gets it, the others clone it
Nats       a tree of streams, put back into servers that run
Search     a snapshot in a repository that the engine fills itself
Maria      a tool that must be beside the data
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fleet import App
from fleet.errors import ResourceError
from fleet.kit.app_type import DataVolume, Port, Ready, Role
from fleet.kit.backup import content
from fleet.kit.backup.plan import BackupPlan, Facts, PutBack
from fleet.kit.programs import EngineCommand
from fleet.model.app_settings import Backup, Resources, Restore

MANIFEST = "backup_manifest"


class Server(App, frozen=True):
    """What all of them have."""

    members: int = 3
    resources: Resources = Resources()
    backup: Backup | None = None
    restore_from: Restore | None = None


class Postgres(Server, frozen=True): ...


class Nats(Server, frozen=True): ...


class Search(Server, frozen=True): ...


class Maria(Server, frozen=True): ...


def role(path: str, user: int = 65532) -> Role[Any]:
    """The role of members with a volume `disk` at a path."""
    volume = DataVolume[Any](path, "disk", lambda app: "1Gi")
    port = Port("client", 4222)
    return Role(command=("server",), ports=(port,), ready=Ready(tcp="client"), volumes=(volume,), user=user)


def base_backup(app: Postgres, path: str) -> EngineCommand:
    command = ("pg_basebackup", f"--pgdata={path}", "--manifest-checksums=SHA256", f"--host={app.name}-replicas")
    return EngineCommand(command, {"PGPASSFILE": "/etc/operator/pgpass"}, {f"{app.name}-operator": "/etc/operator"})


def verify_base_backup(tree: Path) -> Facts:
    """Compare every file with PostgreSQL's manifest, as pg_verifybackup does; ResourceError if one differs."""
    try:
        manifest = json.loads((tree / MANIFEST).read_text())
        expected = {file["Path"]: file["Checksum"] for file in manifest["Files"]}
        position, version = manifest["WAL-Ranges"][-1]["End-LSN"], (tree / "PG_VERSION").read_text().strip()
    except (OSError, ValueError, LookupError) as error:
        raise ResourceError(f"{tree.name} has no manifest that can be read: {error}") from error
    size, checksum = content.tree_digest(tree)
    files = {file.relative_to(tree).as_posix(): file for file in tree.rglob("*") if file.is_file()}
    if {*files} - {MANIFEST} != {*expected}:
        raise ResourceError(f"{tree.name} is not whole: its files are not those of its manifest")
    for name, digest in expected.items():
        if content.file_digest(files[name])[1] != digest:
            raise ResourceError(f"{tree.name} is damaged: {name} is not as its manifest says")
    return Facts(size, checksum, position, version)


def write_base_backup(tree: Path, rows: str, version: str = "17", position: str = "0/3000100") -> None:
    """Write what pg_basebackup writes, as far as it matters here; empty directories are part of it."""
    files = {"PG_VERSION": f"{version}\n", "base/1/2619": rows, "global/pg_control": "control"}
    for directory in ("base/1", "global", "pg_notify"):
        (tree / directory).mkdir(parents=True)
    for name, text in files.items():
        (tree / name).write_text(text)
    entries = [{"Path": name, "Checksum": hashlib.sha256(text.encode()).hexdigest()} for name, text in files.items()]
    (tree / MANIFEST).write_text(json.dumps({"Files": entries, "WAL-Ranges": [{"End-LSN": position}]}))


def verify_streams(tree: Path) -> Facts:
    return Facts(*content.tree_digest(tree), "", "")


def streams_restored(app: Nats, about: PutBack) -> EngineCommand:
    command = ("nats", "account", "restore", about.snapshot, f"--server={app.endpoint}")
    return EngineCommand(command, {}, {f"{app.name}-operator": "/etc/nats"})


POSTGRES = BackupPlan[Postgres](
    kind="Postgres",
    role=role("/var/lib/postgresql", 999),
    directory="pgdata",
    save=base_backup,
    how="tree",
    suffix="base",
    verify="tests.kit.backup.types:verify_base_backup",
    restore="seed",
    complete=("PG_VERSION", "global/pg_control"),
)
NATS = BackupPlan[Nats](
    kind="Nats",
    role=role("/data"),
    save=lambda app, path: EngineCommand(("nats", "account", "backup", path, f"--server={app.endpoint}")),
    how="tree",
    suffix="streams",
    verify="tests.kit.backup.types:verify_streams",
    restore="after",
    put_back=streams_restored,
)
SEARCH = BackupPlan[Search](
    kind="Search",
    role=role("/data"),
    save=lambda app, name: EngineCommand(("snapshot", "create", name)),
    how="own",
    restore="after",
    put_back=lambda app, about: EngineCommand(("snapshot", "restore", about.snapshot)),
)
MARIA = BackupPlan[Maria](
    kind="Maria",
    role=role("/var/lib/mysql"),
    save=lambda app, path: EngineCommand(("mariadb-backup", "--backup", f"--target-dir={path}")),
    how="tree",
    where="beside",
    verify="tests.kit.backup.types:verify_streams",
)
PLANS: dict[str, BackupPlan[Any]] = {"Postgres": POSTGRES, "Nats": NATS, "Search": SEARCH, "Maria": MARIA}
