"""Which backup a new app starts from, and that it is whole and of a version that the app can read."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from fleet.apps.etcd.backup import shelf
from fleet.apps.etcd.backup.record import Record
from fleet.apps.etcd.backup.snapshot import Facts, verified
from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError
from fleet.model.types import release

LATEST = "latest"


def pick(
    directory: Path,
    snapshot: str,
    *,
    app: str,
    namespace: str,
    version: str,
    checksum: str = "",
    origins: Sequence[str] | None = None,
    recorded: bool = False,
) -> Record:
    """The backup, after every byte of it was read. A snapshot that somebody else made can be named too.

    `origins`: patterns of namespaces beside the app's own whose backups may be taken; None: any. `recorded`: only what
    says whose it is.
    """
    records = shelf.complete(directory)
    if origins is not None:
        _refuse_others(records, snapshot, namespace, origins, recorded=recorded)
        records = [one for one in records if _may_take(one, namespace, origins)]
    if snapshot == LATEST:
        chosen: Record | None = latest(records, app, namespace)
    else:
        chosen = next((one for one in records if one.name == snapshot), None)
    name = chosen.name if chosen else plain(snapshot)
    file = directory / name
    if not file.is_file() or file.is_symlink():
        there = ", ".join(one.name for one in records[-5:]) or "none"
        raise NotFoundError(f"there is no backup {name}", hint=f"the newest that are complete: {there}")
    facts = verified(file)
    for wanted in (chosen.checksum if chosen else "", checksum):
        if wanted not in ("", facts.checksum):
            raise ResourceError(f"{name} is not the file that was written: its checksum is {facts.checksum}")
    if (reason := unreadable(facts.data_version, version)) is not None:
        raise ConfigurationError(f"{name} {reason}")
    return chosen or _foreign(name, facts)


def _refuse_others(
    records: Sequence[Record], snapshot: str, namespace: str, origins: Sequence[str], *, recorded: bool
) -> None:
    """One that is named and is not to be had says why; `latest` is looked for among the others."""
    named = next((one for one in records if one.name == snapshot), None)
    if named is not None and not _may_take(named, namespace, origins):
        raise PolicyError(
            f"{snapshot} is a backup of namespace {named.namespace}, and may not be restored in {namespace}",
            hint=f"fleet operator install --allow-restore {named.namespace}",
        )
    if named is None and snapshot != LATEST and recorded and "*" not in origins:
        raise PolicyError(
            f"{plain(snapshot)} does not say whose backup it is, and its place is not of this namespace alone",
            hint="fleet operator install --allow-restore '*'",
        )


def _may_take(record: Record, namespace: str, origins: Sequence[str]) -> bool:
    return record.namespace == namespace or any(fnmatchcase(record.namespace, pattern) for pattern in origins)


def latest(records: Sequence[Record], app: str, namespace: str) -> Record:
    """The newest. Where backups of several apps lie together it must be clear whose: the app's own, or say a name."""
    if not records:
        raise NotFoundError("there is no complete backup", hint="a complete one has a .json file beside it")
    own = [one for one in records if (one.app, one.namespace) == (app, namespace)]
    whose = sorted({f"{one.namespace}/{one.app}" for one in records})
    if not own and len(whose) > 1:
        raise ConfigurationError(
            f"backups of several apps are here: {', '.join(whose)}",
            hint=f"name the one that is meant, such as snapshot={records[-1].name!r}",
        )
    return max(own or records, key=lambda one: (one.time, one.name))


def unreadable(data: str, version: str) -> str | None:
    """Why etcd of a version cannot start from data of a series; None if it can."""
    if not data:
        return None  # so old or so new that it does not say; etcd will
    written, reader = release(data), release(version)
    if written.series == reader.series or written.series == (reader.major, (reader.minor or 0) - 1):
        return None
    return f"has data of etcd {data}, which etcd {version} cannot start from: restore with {data} and upgrade then"


def plain(name: str) -> str:
    if "/" in name or name.startswith(".") or not name:
        raise ConfigurationError(f"{name!r} is not the name of a backup", hint="a file name without directories")
    return name


def _foreign(name: str, facts: Facts) -> Record:
    return Record(
        name=name,
        app="",
        namespace="",
        identity="",
        time="",
        version=facts.data_version,
        data_version=facts.data_version,
        revision=facts.revision,
        size=facts.size,
        checksum=facts.checksum,
        place=name,
    )
