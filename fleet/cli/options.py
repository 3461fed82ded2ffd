"""Options that several commands share, each declared once, and the types of their values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.ParamType[float]):
    """A duration such as 90s, 5m or 1h30m; a bare number counts seconds. `minimum` keeps loops from spinning."""

    name = "duration"

    def __init__(self, minimum: float = 0.0) -> None:
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from fleet.times import parse_duration

        text = str(value).strip()
        try:
            seconds = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
        except ValueError:
            self.fail(f"{text!r} is not a duration such as 90s, 5m or 1h30m", param, ctx)
        if seconds < self.minimum:
            self.fail(f"{text!r} is shorter than {self.minimum:g}s", param, ctx)
        return seconds


INTERVAL = Seconds(minimum=0.1)


class Listen(click.ParamType[tuple[str, int]]):
    """ADDRESS:PORT, or :PORT for all addresses."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not ADDRESS:PORT, such as 127.0.0.1:8080 or :8080", param, ctx)
        return host.strip("[]"), int(port)


def parse_page_url(_: click.Context, __: click.Parameter, value: str | None) -> str:
    """Return an address that Markdown and forges take as it is; raise BadParameter for anything else."""
    import re

    if value and not re.fullmatch(r"https?://[^\s<>\"'`\\]+", value):
        raise click.BadParameter(f"{value!r} is no address such as https://example.com/preview.html")
    return value or ""


def parse_http_url(_: click.Context, __: click.Parameter, value: str) -> str:
    """Return an address with the scheme http or https; raise BadParameter for another one."""
    if value and not value.startswith(("https://", "http://")):
        raise click.BadParameter(f"{value!r} is no address such as https://example.com/health")
    return value


def kubeconfig_option(subject: str = "contexts are") -> Callable[[F], F]:
    """Return --kubeconfig; `subject` completes the sentence of its help that begins with "Where the"."""
    return click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"Where the {subject}. [default: as kubectl finds it]",
    )


def cluster_options(command: F) -> F:
    """Add --cluster, which may be repeated, and --kubeconfig."""
    for option in (
        kubeconfig_option("clusters' contexts are"),
        click.option(
            "--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; may be repeated."
        ),
    ):
        command = option(command)
    return command


def selection_options(command: F) -> F:
    """Add --stack, which may be repeated, and the options of `cluster_options`."""
    option = click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; may be repeated.")
    return option(cluster_options(command))


def wait_options(command: F) -> F:
    """Add --no-wait and --timeout."""
    for option in (
        click.option(
            "--timeout", type=Seconds(), default="10m", show_default=True, help="How long to wait, as 90s, 5m or 1h30m."
        ),
        click.option("--wait/--no-wait", default=True, help="Wait until all is done and healthy. [default: wait]"),
    ):
        command = option(command)
    return command


def ownership_options(command: F) -> F:
    """Add --renamed-from and --take-over: what the user says about names that the clusters remember otherwise."""
    for option in (
        take_over_option,
        click.option(
            "--renamed-from",
            multiple=True,
            metavar="NAME",
            help="A former name of a cluster that was renamed; needed once.",
        ),
    ):
        command = option(command)
    return command


any_branch_option = click.option(
    "--any-branch", is_flag=True, help="Apply a commit of another branch than the one that fleet.toml says is synced."
)


take_over_option = click.option(
    "--take-over",
    multiple=True,
    metavar="REPOSITORY",
    help="Stacks of the same name that belong to this other repository are taken over by a sync; needed once.",
)


signers_option = click.option(
    "--signers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="FLEET_SIGNERS",
    show_envvar=True,
    help="Apply only a commit signed with a key of this file (allowed_signers, or OpenPGP keys), outside of git.",
)


status_option = click.option("--status/--no-status", default=True, help="Write health into git. [default: status]")


resync_option = click.option(
    "--resync", type=INTERVAL, default="10m", show_default=True, help="How often to look at all, besides watching."
)


STATUS_EVERY = 3.0  # seconds
status_every_option = click.option(
    "--status-every", type=INTERVAL, default="3s", show_default=True, help="Write health into git at most this often."
)


def format_status_every(seconds: float) -> list[str]:
    """Return the flag for a process in a cluster; none for the default, which that process has by itself."""
    return [] if seconds == STATUS_EVERY else [f"--status-every={seconds:.15g}s"]


image_option = click.option("--image", metavar="IMAGE", help="For --manifests: an image with fleet and git.")


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log more.")


log_option = click.option(
    "--log",
    "form",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="Form of lines.",
)


def get_terminal_width() -> int | None:
    """Return how long a line may be; None where standard output is no terminal, and lines are as long as they are."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_colour_wanted() -> bool:
    """Return whether standard output is a terminal whose user did not switch colours off."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def get_default_cache() -> Path:
    """Return the user's directory for copies of repositories, where --cache names none."""
    from platformdirs import user_cache_path

    return user_cache_path("fleet") / "mirrors"
