"""`fleet crds`: the definitions of our custom resources, written from the models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.output import format_json

if TYPE_CHECKING:
    from fleet.errors import FleetError


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]…")
@click.option(
    "-w",
    "--write",
    "write",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Write one file per definition into DIRECTORY, and remove those of kinds that are gone.",
)
@click.option(
    "--check",
    "check",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIRECTORY",
    help="Change nothing; exit with code 7 when DIRECTORY differs from the models.",
)
@click.option("-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(kinds: tuple[str, ...], write: Path | None, check: Path | None, form: str) -> None:
    """Print the custom resource definitions, for `kubectl apply --server-side -f -`.

    KIND (such as etcd) limits them to some; all of them otherwise.

    \b
    fleet crds etcd | kubectl apply --server-side -f -
    fleet crds --check crds
    """
    from fleet.render.crd import crd_yaml, definitions

    if (write or check) and kinds:
        raise click.UsageError("--write and --check are about all definitions: name no KIND")
    if write is None and check is None:
        _print_definitions(kinds, form)
        return
    files = {name: crd_yaml(definition) for name, definition in definitions().items()}
    if check is not None:
        _check_directory(check, files)
    if write is not None:
        _write_directory(write, files)


def _print_definitions(kinds: tuple[str, ...], form: str) -> None:
    from fleet.apps.registry import load_drivers
    from fleet.render.crd import crd_yaml, definition, operation_definition

    usable, errors = load_drivers()
    selected = _select([*(definition(driver) for driver in usable), operation_definition()], kinds, errors)
    if form == "json":
        click.echo(format_json({"apiVersion": "v1", "kind": "List", "items": selected}))
    else:
        click.echo("---\n".join(crd_yaml(definition) for definition in selected), nl=False)


def _select(
    every: list[dict[str, object]], kinds: tuple[str, ...], errors: Sequence[FleetError]
) -> list[dict[str, object]]:
    """Return the definitions of the kinds that the user named, or all.

    Raise NotFoundError for an unknown kind; one of the errors of types that cannot be used where it may be about those.
    """
    from fleet.errors import NotFoundError
    from fleet.suggestion import suggestion

    by_name: dict[str, dict[str, object]] = {}
    for definition in every:
        names = definition["spec"]["names"]  # type: ignore[index]
        for name in (names["kind"].lower(), names["plural"], *names.get("shortNames", ())):
            by_name[name] = definition
    if errors and not all(kind.lower() in by_name for kind in kinds or [""]):
        raise errors[0]
    selected = []
    for kind in kinds:
        if kind.lower() not in by_name:
            raise NotFoundError(f"there is no app type {kind!r}", hint=suggestion(kind.lower(), by_name))
        selected.append(by_name[kind.lower()])
    return selected or every


def _check_directory(directory: Path, files: dict[str, str]) -> None:
    """Raise ChangesError if a directory differs from the models."""
    from fleet.errors import ChangesError

    existing = {path.name: path.read_text(encoding="utf-8") for path in _list_files(directory)}
    differing = sorted(name for name in existing.keys() | files.keys() if existing.get(name) != files.get(name))
    if differing:
        raise ChangesError(
            f"{directory}: {', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'} from the models",
            hint=f"run `fleet crds --write {directory}` and commit the result",
        )
    click.echo(f"{directory} is as the models are", err=True)


def _write_directory(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in _list_files(directory):
        if path.name not in files:
            path.unlink()
            click.echo(f"removed {path}", err=True)
    for name, content in files.items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            click.echo(f"wrote {path}", err=True)


def _list_files(directory: Path) -> list[Path]:
    """Return the files that this command writes; it leaves others in the directory alone."""
    from fleet.names import GROUP
    from fleet.render.crd import HEADER

    def is_written(path: Path) -> bool:
        text = path.read_text(encoding="utf-8", errors="replace")
        return path.name.startswith(f"{GROUP}_") or text.startswith(HEADER)  # of a group of the type's own

    return sorted(path for path in directory.glob("*_*.yaml") if is_written(path))
