"""`fleet crds`: the definitions of our custom resources, as the models are now."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.output import json_text


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
    files = {name: crd_yaml(made) for name, made in definitions().items()}
    if check is not None:
        _check(check, files)
    if write is not None:
        _write(write, files)
    if write is None and check is None:
        _print(kinds, form)


def _print(kinds: tuple[str, ...], form: str) -> None:
    from fleet.render.crd import crd_yaml, definitions

    wanted = _chosen(list(definitions().values()), kinds)
    if form == "json":
        found = {"apiVersion": "v1", "kind": "List", "items": wanted}
        click.echo(json_text(found))
    else:
        click.echo("---\n".join(crd_yaml(made) for made in wanted), nl=False)


def _chosen(found: list[dict[str, object]], kinds: tuple[str, ...]) -> list[dict[str, object]]:
    from fleet.errors import NotFoundError
    from fleet.suggestion import suggestion

    known: dict[str, dict[str, object]] = {}
    for made in found:
        names = made["spec"]["names"]  # type: ignore[index]
        for word in (names["kind"].lower(), names["plural"], *names["shortNames"]):
            known[word] = made
    chosen = []
    for kind in kinds:
        if kind.lower() not in known:
            raise NotFoundError(f"there is no app type {kind!r}", hint=suggestion(kind.lower(), known))
        chosen.append(known[kind.lower()])
    return chosen or found


def _check(directory: Path, files: dict[str, str]) -> None:
    from fleet.errors import ChangesError

    there = {path.name: path.read_text(encoding="utf-8") for path in _ours(directory)}
    differing = sorted(name for name in there.keys() | files.keys() if there.get(name) != files.get(name))
    if differing:
        raise ChangesError(
            f"{directory}: {', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'} from the models",
            hint=f"run `fleet crds --write {directory}` and commit the result",
        )
    click.echo(f"{directory} is as the models are", err=True)


def _write(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in _ours(directory):
        if path.name not in files:
            path.unlink()
            click.echo(f"removed {path}", err=True)
    for name, content in files.items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            click.echo(f"wrote {path}", err=True)


def _ours(directory: Path) -> list[Path]:
    """Files that this command writes; others in the directory are left alone."""
    from fleet.names import GROUP

    return sorted(directory.glob(f"{GROUP}_*.yaml"))
