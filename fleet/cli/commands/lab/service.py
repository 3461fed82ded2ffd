"""`fleet lab service`: services of a lab beside its clusters, a forge and an S3 server."""

from __future__ import annotations

from typing import Any

import click

from fleet.cli.commands.lab.options import name_option
from fleet.cli.output import emit_result, format_table, output_option, print_message

NAMES = ("forge", "s3")  # those of fleet.lab.services, which is not imported for `--help`


class ServiceGroup(click.Group):
    """`fleet lab service forge` is `fleet lab service start forge`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, ["start", *args] if args[0] in NAMES else args)


service_choice = click.Choice(NAMES)


@click.group(cls=ServiceGroup)
def service() -> None:
    """A forge (Gitea) and an S3 server for the programs of a lab.

    \b
    fleet lab service forge   short for `start forge`: repositories, pull requests, webhooks
    fleet lab service s3      buckets, for backups

    This machine and the pods of every lab reach them by the same URL. `fleet lab down` removes them with all they keep.
    """


@service.command()
@name_option
@click.argument("services", nargs=-1, required=True, type=service_choice, metavar="SERVICE…")
@output_option
def start(name: str, services: tuple[str, ...], form: str) -> None:
    """Start services and say how to use them: forge, s3. Those that run are left alone.

    They belong to a lab, which is made if there is none of that name; it needs no clusters. The first start builds
    the programs from source; `fleet lab prepare forge s3` does that ahead of time.
    """
    from fleet.lab.services import read_status as status_of
    from fleet.lab.services import start_services

    start_services(name, services)
    rows = [row for row in status_of(name) if row["name"] in services]

    def text() -> str:
        return "\n".join(
            "\n  ".join([f"{row['name']}: {row['program']} at {row['url']}", *_format_exports(row["environment"])])
            for row in rows
        )

    emit_result(rows, form, text)
    option = "" if name == "default" else f" --name {name}"
    print_message(f'set these in a shell with: eval "$(fleet lab service env{option})"')


@service.command()
@name_option
def env(name: str) -> None:
    """Print the addresses and keys of a lab's services, for a shell to read.

    \b
    eval "$(fleet lab service env)"
    """
    from fleet.lab.services import read_status as status_of

    for row in status_of(name):
        for line in _format_exports(row["environment"]):
            click.echo(line)


def _format_exports(environment: dict[str, str]) -> list[str]:
    import shlex

    return [f"export {key}={shlex.quote(value)}" for key, value in environment.items()]


@service.command()
@name_option
@click.argument("services", nargs=-1, type=service_choice, metavar="[SERVICE]…")
def stop(name: str, services: tuple[str, ...]) -> None:
    """Stop services, or all of a lab. What they keep stays, and is there after the next start."""
    from fleet.lab.services import stop_services

    stopped = stop_services(name, services)
    for stopped_name in stopped:
        print_message(f"{stopped_name} is stopped")
    if not stopped:
        print_message(f"no service of lab {name!r} was running")


@service.command()
@name_option
@output_option
def status(name: str, form: str) -> None:
    """Show the services of a lab. Exits with 4 when one does not serve."""
    from fleet.lab.services import read_status as status_of

    rows = status_of(name)
    emit_result(
        rows, form, lambda: _format_rows(rows) if rows else "no services; start one with `fleet lab service forge`"
    )
    if not all(row["ready"] for row in rows):
        raise SystemExit(4)


@service.command("list")
@output_option
def list_services(form: str) -> None:
    """List the services of all labs of this machine."""
    from fleet.errors import FleetError
    from fleet.lab.services import read_status as status_of
    from fleet.lab.spec import list_lab_names

    rows: list[dict[str, Any]] = []
    for name in list_lab_names():
        try:
            rows += status_of(name)
        except FleetError:  # half made or broken: `fleet lab list` shows it
            continue
    emit_result(
        rows, form, lambda: _format_rows(rows) if rows else "no services; start one with `fleet lab service forge`"
    )


def _format_rows(rows: list[dict[str, Any]]) -> str:
    lines = [
        [
            row["name"],
            row["lab"],
            "ready" if row["ready"] else "not ready" if row["pid"] else "stopped",
            row["url"],
            row["program"],
            f"{row['memory'] // 1_000_000} MB" if row["pid"] else "",
        ]
        for row in rows
    ]
    return format_table(["service", "lab", "state", "url", "program", "memory"], lines)


@service.command()
@name_option
@click.option("-n", "--lines", default=50, show_default=True, help="Lines from the end.")
@click.argument("service_name", type=service_choice, metavar="SERVICE")
def logs(name: str, lines: int, service_name: str) -> None:
    """Show the end of a service's log."""
    from pathlib import Path

    from fleet.errors import NotFoundError
    from fleet.lab.programs.process import read_tail
    from fleet.lab.services import read_status as status_of

    log_paths = {row["name"]: row["log"] for row in status_of(name)}
    if service_name not in log_paths:
        raise NotFoundError(
            f"lab {name!r} has no {service_name}", hint=f"start it with `fleet lab service {service_name}`"
        )
    click.echo(read_tail(Path(log_paths[service_name]), lines))
