"""`fleet-operator backup …`: the steps of backups and restores that run in pods beside etcd's own tools.

The last words of each, a record or the reason of its failure, go where Kubernetes looks for them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import click

from fleet.errors import FleetError, ResourceError

_LAST_WORDS = Path("/dev/termination-log")
_directory = click.option(
    "--directory", type=click.Path(path_type=Path), required=True, metavar="PATH", help="Where the backups are."
)
_app = click.option("--app", required=True, metavar="NAME", help="The app's name.")
_namespace = click.option("--namespace", required=True, metavar="NAME", help="The app's namespace.")
_job = click.option("--job", required=True, metavar="NAME", help="The Job's name.")
_volume = click.option(
    "--volume", type=click.Path(path_type=Path, exists=True), metavar="PATH", help="Where the member's volume is."
)


@click.group()
def backup() -> None:
    """The steps of backups and restores. Pods run them; the operator makes the pods."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


@backup.command()
@_directory
@_app
@_job
def prepare(directory: Path, app: str, job: str) -> None:
    """Have a directory to write to, without what earlier tries left."""
    from fleet.apps.etcd.backup.keep import prepare as prepared  # noqa: PLC0415 - imports are slow, pods are many

    _told(lambda: prepared(directory, app, job))


@backup.command()
@_directory
@_app
@_namespace
@_job
@click.option("--version", required=True, metavar="VERSION", help="That the app's members run.")
@click.option("--identity", default="", metavar="ID", help="What tells the app from another of the same name.")
@click.option("--keep", "count", type=click.IntRange(min=1), required=True, metavar="N", help="How many are kept.")
@click.option("--place", required=True, metavar="TEXT", help="What the directory is called, in words.")
def keep(
    *, directory: Path, app: str, namespace: str, job: str, version: str, identity: str, count: int, place: str
) -> None:
    """Check the snapshot that was written, make a backup of it, delete those that are too many."""
    from fleet.apps.etcd.backup.keep import keep as kept  # noqa: PLC0415
    from fleet.apps.etcd.backup.keep import part_of  # noqa: PLC0415

    part = directory / part_of(app, job)
    _told(
        lambda: kept(
            directory,
            part,
            app=app,
            namespace=namespace,
            identity=identity,
            version=version,
            count=count,
            place=place,
        ).write()
    )


@backup.command()
@_directory
@_app
@_namespace
@click.option("--snapshot", required=True, metavar="NAME", help="Which; `latest` is the newest that is complete.")
@click.option("--version", required=True, metavar="VERSION", help="Of the etcd that shall start from it.")
@click.option("--checksum", default="", metavar="TEXT", help="That it must have.")
@click.option(
    "--origin", "origins", multiple=True, metavar="PATTERN", help="Namespaces whose backups may be taken too."
)
@click.option("--recorded", is_flag=True, help="Only what says whose it is.")
@click.option("--link", type=click.Path(path_type=Path), metavar="PATH", help="A name to give to it.")
@_volume
def pick(
    *,
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
) -> None:
    """Choose a backup and read it through; with a volume, make room on it too."""
    from fleet.apps.etcd.backup import pick as choice  # noqa: PLC0415
    from fleet.apps.etcd.backup import place as places  # noqa: PLC0415

    def work() -> str:
        if volume is not None:
            places.clear(volume, checksum)  # before anything is read: a volume with data of another origin ends it here
        record = choice.pick(
            directory,
            snapshot,
            app=app,
            namespace=namespace,
            version=version,
            checksum=checksum,
            origins=origins,
            recorded=recorded,
        )
        if link is not None:
            places.link(directory / record.name, link)
        return record.write()

    _told(work)


@backup.command()
@_volume
@click.option("--snapshot", required=True, metavar="NAME", help="Which backup it was.")
@click.option("--checksum", required=True, metavar="TEXT", help="Its checksum.")
def place(volume: Path, snapshot: str, checksum: str) -> None:
    """Make what was restored the member's data."""
    from fleet.apps.etcd.backup.place import place as placed  # noqa: PLC0415

    def work() -> str:
        new = placed(volume, snapshot, checksum)
        return f"{snapshot} has been put back" if new else f"{snapshot} was put back before"

    _told(work)


def _told(work: Callable[[], str | None]) -> None:
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
