"""Backups in one place, of whichever kind: which one a new app starts from, which are too many.

What differs between places is a `Shelf`: a directory of a mounted volume (`directory`), or a bucket (`bucket`).
Everything else that is there belongs to another kind of app or to a person, and is neither counted nor touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError
from fleet.kit.backup.plan import BackupPlan, Facts
from fleet.kit.backup.records import Record

LATEST = "latest"
Describe = Callable[[str, datetime], Record]  # of what was verified: its name, and since when it is complete


class Shelf(Protocol):
    """A place with backups of apps of one kind."""

    @property
    def plan(self) -> BackupPlan[Any]:
        """Return how apps of the kind are backed up."""

    def prepare(self, app: str, job: str) -> None:
        """See that it can be written to, and clear up what earlier tries left; raise AccessError or ResourceError if it
        cannot be."""

    def put(self, part: Path, version: str, describe: Describe, *, app: str, job: str, now: datetime | None) -> Record:
        """Make a backup of what was written and verified, and return its record. ResourceError if the place does not
        have it afterwards."""

    def complete(self) -> list[Record]:
        """Return all that are complete, of whichever app, oldest first."""

    def has(self, name: str) -> bool:
        """Tell whether there is a backup of that name, with or without a record."""

    def recorded(self, name: str) -> Record | None:
        """Return what is said about a backup, whatever its kind; None if nothing is."""

    def fetch(self, name: str, record: Record | None) -> Path:
        """Return where a backup can be read."""

    def remove(self, record: Record) -> None:
        """Delete a backup with its record."""

    def tidy(self, newest: Record) -> None:
        """Delete what is left of backups of the app that `newest` is of, and is none itself."""


def same_app(records: Iterable[Record], like: Record) -> list[Record]:
    whose = (like.kind, like.app, like.namespace, like.identity)
    return [record for record in records if (record.kind, record.app, record.namespace, record.identity) == whose]


def superfluous(records: Iterable[Record], newest: Record, keep: int, oldest: str = "") -> list[Record]:
    """Return the backups of the app that `newest` is of, beyond `keep` or complete before the time `oldest`; never
    `newest` itself."""
    older = [record for record in same_app(records, newest) if record.name != newest.name]
    recent = sorted(older, key=age, reverse=True)
    return [record for number, record in enumerate(recent, 1) if number >= keep or record.time < oldest]


def pick(
    shelf: Shelf,
    snapshot: str,
    *,
    app: str,
    namespace: str,
    version: str,
    checksum: str = "",
    origins: Sequence[str] | None = None,
    recorded: bool = False,
    identity: str = "",
) -> Record:
    """Return the backup's record, after every byte of it was read. One that has no record, since a person made it, can
    be named too. Raises NotFoundError, PolicyError, ConfigurationError for one that the app's version cannot start
    from, ResourceError for one that is not whole.

    `origins`: patterns of namespaces beside the app's own whose backups may be taken; None: any. `recorded`: only what
    says whose it is. `identity`: only what this very app made.
    """
    plan, records = shelf.plan, shelf.complete()
    if identity:
        whose = (app, namespace, identity)
        records = [one for one in records if (one.app, one.namespace, one.identity) == whose]
    if origins is not None:
        _refuse_others(records, snapshot, namespace, origins, recorded=recorded)
        records = [one for one in records if _may_take(one, namespace, origins)]
    if snapshot == LATEST:
        chosen: Record | None = latest(records, app, namespace)
    else:
        chosen = next((one for one in records if one.name == snapshot), None)
    name = chosen.name if chosen else plain(snapshot)
    if not shelf.has(name):
        there = ", ".join(one.name for one in records[-5:]) or "none"
        raise NotFoundError(f"there is no backup {name}", hint=f"the newest that are complete: {there}")
    if chosen is None and (record := shelf.recorded(name)) and record.kind != plan.kind:
        raise ConfigurationError(f"{name} is a backup of kind {record.kind}, and not of {plan.kind}")
    facts = plan.verified(shelf.fetch(name, chosen))
    for wanted in (chosen.checksum if chosen else "", checksum):
        if wanted not in ("", facts.checksum):
            raise ResourceError(f"{name} is not the file that was written: its checksum is {facts.checksum}")
    if (reason := plan.unreadable(facts.data_version, version)) is not None:
        raise ConfigurationError(f"{name} {reason}")
    return chosen or _foreign(plan, name, facts)


def _refuse_others(
    records: Sequence[Record], snapshot: str, namespace: str, origins: Sequence[str], *, recorded: bool
) -> None:
    """Refuse what is not to be had. One that is named and is not to be had says why; `latest` is looked for among the
    others."""
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
    """Return the newest. Where backups of several apps lie together it must be clear whose: the app's own, or say a
    name."""
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


def plain(name: str) -> str:
    if "/" in name or name.startswith(".") or not name:
        raise ConfigurationError(f"{name!r} is not the name of a backup", hint="a file name without directories")
    return name


def _foreign(plan: BackupPlan[Any], name: str, facts: Facts) -> Record:
    return Record(
        name=name,
        app="",
        namespace="",
        identity="",
        time="",
        version=facts.data_version,
        data_version=facts.data_version,
        position=facts.position,
        size=facts.size,
        checksum=facts.checksum,
        place=name,
        kind=plan.kind,
    )


def age(record: Record) -> tuple[str, str]:
    return record.time, record.name
