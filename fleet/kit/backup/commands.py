"""`fleet-operator backup …`: the steps of backups and restores that run in pods beside engines' own tools.

The last words of each, a record or the reason of its failure, go where Kubernetes looks for them. Of which kind the app
is, its Job says; one that a release made which could back up etcd alone does not, and is of that.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.errors import FleetError, NotFoundError, ResourceError
from fleet.kit.backup.records import FIRST_KIND

if TYPE_CHECKING:
    from fleet.kit.backup.shelf import Shelf

LoadPlan = Callable[[str], Any]  # of a kind of apps; Any: a BackupPlan, whose module is slow to import, or None
_LAST_WORDS = Path("/dev/termination-log")
_kind = click.option("--kind", default=FIRST_KIND, show_default=True, metavar="KIND", help="Of which kind the app is.")
_directory = click.option(
    "--directory", type=click.Path(path_type=Path), required=True, metavar="PATH", help="Where the backups are."
)
_app = click.option("--app", required=True, metavar="NAME", help="The app's name.")
_namespace = click.option("--namespace", required=True, metavar="NAME", help="The app's namespace.")
_identity = click.option(
    "--identity", default="", metavar="ID", help="What tells the app from another of the same name."
)
_ran = click.option("--version", required=True, metavar="VERSION", help="That the app's members run.")
_checksum = click.option("--checksum", required=True, metavar="TEXT", help="The backup's checksum.")
_place = click.option("--place", required=True, metavar="TEXT", help="Where it is, in words.")
_job = click.option("--job", required=True, metavar="NAME", help="The Job's name, which no other app's Job has.")
_BUCKET = (
    click.option("--bucket", default="", metavar="PLACE", help="In S3: bucket and folder; the directory is scratch."),
    click.option("--endpoint", default="", metavar="URL", help="Of the S3 store; Amazon's unless given."),
    click.option("--region", default="", metavar="NAME", help="Of the bucket."),
    click.option("--style", type=click.Choice(["path", "host"]), help="Where the bucket's name stands in URLs."),
    click.option("--secret", default="", metavar="NAME", help="The Secret with the keys of the store."),
    click.option("--encryption", default="", metavar="NAME", help="The Secret with the key of the backups."),
)
_volume_path = click.Path(path_type=Path, exists=True)
_volume = click.option(
    "--volume", type=_volume_path, required=True, metavar="PATH", help="Where the member's volume is."
)


def backup_commands(load: LoadPlan) -> click.Group:
    """Return the command `backup`. `load` returns the plan of a kind of apps, None for one that has none."""
    return click.Group(
        "backup",
        callback=_begin,
        commands=[prepare, keep, note, pick, copy, place, prove],
        context_settings={"obj": load},
        help="The steps of backups and restores. Pods run them; the operator makes the pods.",
    )


def _begin() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


def _bucket(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which bucket a Job is about."""
    for option in reversed(_BUCKET):
        command = option(command)
    return command


@click.command()
@_kind
@_directory
@_app
@_job
@_bucket
@click.pass_obj
def prepare(load: LoadPlan, /, kind: str, directory: Path, app: str, job: str, **bucket: Any) -> None:
    """Have a place to write to, without what earlier tries left."""
    _report(lambda: _shelf(_plan(load, kind), directory, **bucket).prepare(app, job))


@click.command()
@_kind
@_directory
@_app
@_namespace
@_job
@_ran
@_identity
@click.option("--keep", "count", type=click.IntRange(min=1), required=True, metavar="N", help="How many are kept.")
@click.option("--keep-for", "seconds", type=click.IntRange(min=1), default=None, metavar="N", help="And for how long.")
@_place
@_bucket
@click.pass_obj
def keep(
    load: LoadPlan,
    /,
    *,
    kind: str,
    directory: Path,
    app: str,
    namespace: str,
    job: str,
    version: str,
    identity: str,
    count: int,
    seconds: int | None,
    place: str,
    **bucket: Any,
) -> None:
    """Check what was written, make a backup of it, delete those that are too many."""
    from fleet.kit.backup.records import part_of  # noqa: PLC0415
    from fleet.kit.backup.retention import keep  # noqa: PLC0415

    def work() -> str:
        record = keep(
            _shelf(_plan(load, kind), directory, **bucket),
            directory / part_of(app, job),
            app=app,
            job=job,
            namespace=namespace,
            identity=identity,
            version=version,
            count=count,
            seconds=seconds or 0,
            place=place,
        )
        return record.write()

    _report(work)


@click.command()
@_kind
@_app
@_namespace
@_job
@_ran
@_identity
@_place
def note(*, kind: str, app: str, namespace: str, job: str, version: str, identity: str, place: str) -> None:
    """Say that the engine made a backup in a repository of its own."""
    from fleet.kit.backup.retention import note  # noqa: PLC0415

    _report(
        lambda: note(kind, job, app=app, namespace=namespace, identity=identity, version=version, place=place).write()
    )


@click.command()
@_kind
@_directory
@_app
@_namespace
@click.option("--snapshot", required=True, metavar="NAME", help="Which; `latest` is the newest that is complete.")
@click.option("--version", required=True, metavar="VERSION", help="Of the engine that shall start from it.")
@click.option("--checksum", default="", metavar="TEXT", help="That it must have.")
@click.option(
    "--origin", "origins", multiple=True, metavar="PATTERN", help="Namespaces whose backups may be taken too."
)
@click.option("--recorded", is_flag=True, help="Only what says whose it is.")
@click.option("--link", type=click.Path(path_type=Path), metavar="PATH", help="A name to give to it.")
@click.option("--volume", type=_volume_path, metavar="PATH", help="Where the member's volume is.")
@click.option("--record", type=click.Path(path_type=Path), metavar="PATH", help="A file for what is known about it.")
@_identity
@_bucket
@click.pass_obj
def pick(
    load: LoadPlan,
    /,
    *,
    kind: str,
    directory: Path,
    app: str,
    namespace: str,
    snapshot: str,
    version: str,
    checksum: str,
    origins: tuple[str, ...],
    recorded: bool,
    link: Path | None,
    volume: Path | None,
    record: Path | None,
    identity: str,
    **bucket: Any,
) -> None:
    """Choose a backup and read it through; with a volume, make room on it too."""
    from fleet.kit.backup import volumes  # noqa: PLC0415
    from fleet.kit.backup.shelf import pick  # noqa: PLC0415

    def work() -> str:
        plan = _plan(load, kind)
        if volume is not None:  # before anything is read: a volume with data of another origin ends it here
            volumes.clear(plan, volume, checksum)
        chosen = pick(
            _shelf(plan, directory, **bucket),
            snapshot,
            app=app,
            namespace=namespace,
            version=version,
            checksum=checksum,
            origins=origins,
            recorded=recorded,
            identity=identity,
        )
        if link is not None:
            volumes.link(directory / chosen.name, link)
        if record is not None:
            record.write_text(chosen.write())
        return chosen.write()

    _report(work)


@click.command()
@_kind
@click.option("--backup", type=_volume_path, required=True, metavar="PATH", help="The backup.")
@_volume
@_checksum
@click.pass_obj
def copy(load: LoadPlan, kind: str, backup: Path, volume: Path, checksum: str) -> None:
    """Copy a backup that is a tree to a member's volume, beside its data."""
    from fleet.kit.backup.volumes import copy  # noqa: PLC0415

    _report(lambda: copy(_plan(load, kind), backup, volume, checksum))


@click.command()
@_kind
@_volume
@click.option("--snapshot", required=True, metavar="NAME", help="Which backup it was.")
@_checksum
@click.pass_obj
def place(load: LoadPlan, kind: str, volume: Path, snapshot: str, checksum: str) -> None:
    """Make what was restored the member's data."""
    from fleet.kit.backup.volumes import place  # noqa: PLC0415

    def work() -> str:
        new = place(_plan(load, kind), volume, snapshot, checksum)
        return f"{snapshot} has been put back" if new else f"{snapshot} was put back before"

    _report(work)


@click.command()
@_kind
@click.option("--record", type=_volume_path, required=True, metavar="PATH", help="What is known about the backup.")
@click.option("--restored", type=click.Path(path_type=Path), metavar="PATH", help="Where it was restored to.")
@click.pass_obj
def prove(load: LoadPlan, /, kind: str, record: Path, restored: Path | None) -> None:
    """Check what a restore on trial made, and say which backup it was."""
    from fleet.kit.backup.trial import check_restored  # noqa: PLC0415

    def work() -> str:
        if restored is not None:
            check_restored(_plan(load, kind), restored)
        return record.read_text()

    _report(work)


def _plan(load: LoadPlan, kind: str) -> Any:
    plan = load(kind)
    if plan is None:
        raise NotFoundError(f"this release of fleet makes no backups of kind {kind}")
    return plan


def _shelf(plan: Any, directory: Path, **bucket: Any) -> Shelf:
    """Return the place that a Job is about. What is secret is in its environment, from Secrets."""
    if not bucket["bucket"]:
        from fleet.kit.backup.directory import Directory  # noqa: PLC0415 - imports are slow, pods are many

        return Directory(plan, directory)
    from fleet.kit.backup.bucket import open_shelf  # noqa: PLC0415

    return open_shelf(plan, directory, os.environ, **bucket)


def _report(work: Callable[[], str | None]) -> None:
    """Do it, and leave its result or the reason of its failure as the container's last words."""
    try:
        words = work()
    except FleetError as error:
        _leave(str(error.message))
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        problem = ResourceError(f"{error.filename or 'the volume'}: {error.strerror or error}")
        _leave(problem.message)
        click.echo(f"error: {problem}", err=True)
        sys.exit(problem.exit_code)
    if words:
        _leave(words)
        click.echo(words.rstrip())


def _leave(words: str) -> None:
    if _LAST_WORDS.exists() and not _LAST_WORDS.is_symlink():
        _LAST_WORDS.write_text(words)
