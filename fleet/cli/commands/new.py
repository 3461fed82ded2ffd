"""`fleet new`: packages that extend fleet, written so that they work at once."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.output import emit_result, output_option


@click.group()
def new() -> None:
    """Write a package that extends fleet."""


@new.command("app-type")
@click.argument("name")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), required=False)
@click.option(
    "--level",
    type=click.Choice(["pods", "probed", "clustered"]),
    default="pods",
    show_default=True,
    help="What the type answers. pods: nothing; members are known by their readiness. probed: how each member is. "
    "clustered: also who the members are, and how one joins and leaves.",
)
@output_option
def app_type(name: str, directory: Path | None, level: str, form: str) -> None:
    """Write an app type called NAME as a package, into DIRECTORY (fleet-NAME, unless named).

    It has a spec, a declaration from which the operator's work follows, a test, a sample stack and a page that says
    what to do next; from the level probed on also a client of a small protocol to replace by the engine's own, the half
    that asks members with it, and members in memory for its tests. It works as it is written. Nothing that exists is
    overwritten.

    \b
    fleet new app-type ledgerd && cd fleet-ledgerd && pip install -e . && pytest
    """
    from fleet.apps.scaffold import package_of, write_app_type

    target = directory if directory is not None else Path(package_of(name))
    files = write_app_type(name, target, level)
    steps = [f"cd {target}", "pip install -e .", "pytest", f"fleet crds {name.replace('-', '')}"]
    data = {"directory": str(target), "files": list(files), "next": steps}
    emit_result(data, form, lambda: "\n".join([*files, "", "Next:", *(f"  {step}" for step in steps)]))
