"""A directory of backups: which of them are complete, which one a new app starts from, which are too many.

Everything else in the directory belongs to another kind of app or to a person, and is neither counted nor touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from fleet.errors import ConfigurationError, NotFoundError, PolicyError, ResourceError
from fleet.kit.backup import content
from fleet.kit.backup.plan import A, BackupPlan, Facts
from fleet.kit.backup.records import LARGEST, Record, read, record_of

LATEST = "latest"


def complete(plan: BackupPlan[A], directory: Path) -> list[Record]:
    """Return all of them that are of apps of the plan's kind, of whichever app, oldest first."""
    found = (_complete(plan, file) for file in directory.glob("*.json"))
    return sorted((record for record in found if record), key=_age)


def _complete(plan: BackupPlan[A], file: Path) -> Record | None:
    record = read_record_file(file)
    if record is None or record.kind != plan.kind or record.name != file.with_suffix(f".{plan.suffix}").name:
        return None
    return record if is_backup(plan, file.with_name(record.name), record.size) else None


def is_backup(plan: BackupPlan[A], path: Path, size: int | None = None) -> bool:
    """Whether there is what a plan makes, no link to it. A tree has its name only since all of it is there; a file
    could have been cut off later, so that its size is asked for, too, unless nobody knows it."""
    try:
        if path.is_symlink():
            return False
        if plan.how == "tree":
            return path.is_dir()
        return path.is_file() and size in (None, path.stat().st_size)
    except OSError:  # gone meanwhile, or not ours to read
        return False


def read_record_file(file: Path) -> Record | None:
    """Return what a plain file says about a backup; None if it is none, whatever else it is. Others may write here,
    too: a pipe would never answer, and a link could lead to what never ends."""
    try:
        return read(content.read_beginning(file, LARGEST))
    except (OSError, UnicodeDecodeError):
        return None


def same_app(records: Iterable[Record], like: Record) -> list[Record]:
    whose = (like.kind, like.app, like.namespace, like.identity)
    return [record for record in records if (record.kind, record.app, record.namespace, record.identity) == whose]


def superfluous(records: Iterable[Record], newest: Record, keep: int) -> list[Record]:
    """Return the oldest backups of the app that `newest` is of, beyond `keep`; never `newest` itself."""
    older = [record for record in same_app(records, newest) if record.name != newest.name]
    return sorted(older, key=_age, reverse=True)[max(keep - 1, 0) :]


def without_backup(directory: Path, like: Record) -> list[Path]:
    """Return records of the same app's whose backup never came, or went first."""
    found = []
    for file in directory.glob(f"{like.app}-*.json"):
        record = read_record_file(file)
        backup = file.with_suffix(Path(like.name).suffix)
        if record and same_app([record], like) and not backup.exists():
            found.append(file)
    return found


def remove(directory: Path, record: Record) -> None:
    """Delete a backup, and then its record: what is left if that is all that happens is a record of nothing, which
    counts as none. A tree has another name before anything of it goes, so that no half of it is taken for a backup."""
    backup = directory / record.name
    if backup.is_dir():
        backup = backup.rename(directory / f".{record.app}.{record.name}.part")
    content.delete(backup)
    record_of(directory / record.name).unlink(missing_ok=True)


def pick(
    plan: BackupPlan[A],
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
    """Return the backup's record, after every byte of it was read. One that has no record, since a person made it, can
    be named too. Raises NotFoundError, PolicyError, ConfigurationError for one that the app's version cannot start
    from, ResourceError for one that is not whole.

    `origins`: patterns of namespaces beside the app's own whose backups may be taken; None: any. `recorded`: only what
    says whose it is.
    """
    records = complete(plan, directory)
    if origins is not None:
        _refuse_others(records, snapshot, namespace, origins, recorded=recorded)
        records = [one for one in records if _may_take(one, namespace, origins)]
    if snapshot == LATEST:
        chosen: Record | None = latest(records, app, namespace)
    else:
        chosen = next((one for one in records if one.name == snapshot), None)
    name = chosen.name if chosen else plain(snapshot)
    backup = directory / name
    if not is_backup(plan, backup):
        there = ", ".join(one.name for one in records[-5:]) or "none"
        raise NotFoundError(f"there is no backup {name}", hint=f"the newest that are complete: {there}")
    if chosen is None and (record := read_record_file(record_of(backup))) and record.kind != plan.kind:
        raise ConfigurationError(f"{name} is a backup of kind {record.kind}, and not of {plan.kind}")
    facts = plan.verified(backup)
    for wanted in (chosen.checksum if chosen else "", checksum):
        if wanted not in ("", facts.checksum):
            raise ResourceError(f"{name} is not the file that was written: its checksum is {facts.checksum}")
    if (reason := plan.unreadable(facts.data_version, version)) is not None:
        raise ConfigurationError(f"{name} {reason}")
    return chosen or _foreign(plan, name, facts)


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


def plain(name: str) -> str:
    if "/" in name or name.startswith(".") or not name:
        raise ConfigurationError(f"{name!r} is not the name of a backup", hint="a file name without directories")
    return name


def _foreign(plan: BackupPlan[A], name: str, facts: Facts) -> Record:
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


def _age(record: Record) -> tuple[str, str]:
    return record.time, record.name
