"""`fleet lab fault api`: what the clients of a cluster's API server meet, all of them, also nodes and pods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fleet.cli.commands.lab.fault import Asked
from fleet.cli.commands.lab.lab import name_option
from fleet.cli.options import Seconds

if TYPE_CHECKING:
    from fleet.lab.faults import Fault
    from fleet.lab.faults.api.kinds import ApiFaultBuilder
    from fleet.lab.proxy.plan import Match

F = TypeVar("F", bound=Callable[..., Any])


def which(command: F) -> F:
    """Which API server, for how long, and which requests: the command gets an `Asked` and a `Match`."""

    @wraps(command)
    def with_match(
        *,
        name: str,
        cluster: str | None,
        seconds: float | None,
        verb: str,
        resource: str,
        namespace: str,
        thing: str,
        agent: str,
        writes: bool,
        **rest: Any,
    ) -> Any:
        from fleet.lab.proxy.plan import Match

        match = Match(
            verb=verb, resource=resource, namespace=namespace, name=thing, agent=agent, writes=True if writes else None
        )
        return command(Asked(name, cluster, namespace, seconds), match, **rest)

    found: Any = with_match
    for option in (
        click.option("--writes", is_flag=True, help="Only requests that may change something."),
        click.option("--agent", default="", metavar="BEGINNING", help="Only clients whose name begins so."),
        click.option("--object", "thing", default="", metavar="NAME", help="Only the object of this name."),
        click.option("-n", "--namespace", default="", help="Only in this namespace. [default: everywhere]"),
        click.option("--resource", default="", metavar="PLURAL", help="Only this resource, as pods or pods/log."),
        click.option("--verb", default="", help="Only this verb: get, list, watch, create, update, patch or delete."),
        click.option(
            "--for", "seconds", type=Seconds(), help="Undo it after that time, as 30s. [default: when it is cleared]"
        ),
        click.option("--cluster", help="Cluster. [default: the lab's first]"),
        name_option,
    ):
        found = option(found)
    return cast("F", found)


def chance(command: F) -> F:
    for option in (
        click.option("--seed", type=int, default=0, help="Chance that can be had again: which requests it hits."),
        click.option("--share", type=float, metavar="SHARE", help="Only a share of them, as 0.1. [default: all]"),
    ):
        command = option(command)
    return command


def _begin(asked: Asked, make: Callable[[ApiFaultBuilder], Fault]) -> None:
    from fleet.lab.faults.api.kinds import ApiFaultBuilder

    asked.begin(make(ApiFaultBuilder(asked.words.cluster)))


@click.group()
def api() -> None:
    """Let the API server answer with errors, be slow, forget, or tell the time of Leases wrong.

    All clients of the cluster meet it, also nodes, controllers and pods. When such a fault begins or ends, their
    connections break once.
    """


@api.command()
@which
@chance
@click.option("--retry-after", type=int, metavar="SECONDS", help="Say when to come again.")
@click.option("--status", default=500, show_default=True, help="What it answers: 429, 500, 410 ...")
def fail(asked: Asked, match: Match, *, status: int, retry_after: int | None, share: float | None, seed: int) -> None:
    """Answer requests with an error; they are not carried out.

    \b
    fleet lab fault api fail --status 429 --retry-after 1 --share 0.2
    fleet lab fault api fail --verb list --resource pods --for 30s
    """
    _begin(asked, lambda say: say.fail(status, match, share=share, retry_after=retry_after, seed=seed))


@api.command()
@which
@chance
@click.option("--by", type=Seconds(), default="1s", show_default=True, help="How much later, as 0.2s.")
def slow(asked: Asked, match: Match, by: float, share: float | None, seed: int) -> None:
    """Carry requests out later."""
    _begin(asked, lambda say: say.slow(by, match, share=share, seed=seed))


@api.command()
@which
@chance
@click.option("--after-events", default=0, show_default=True, help="How many events come before.")
def forget(asked: Asked, match: Match, after_events: int, share: float | None, seed: int) -> None:
    """End watches with 410, as a server does that has forgotten the past: clients have to list anew."""
    _begin(asked, lambda say: say.forget(match, after_events=after_events, share=share, seed=seed))


@api.command()
@which
@click.option("--by", type=float, required=True, metavar="SECONDS", help="How much later, as 40; earlier, as -40.")
def skew(asked: Asked, match: Match, by: float) -> None:
    """Show times in Leases shifted: who judges a holder by them takes it for dead, or for alive.

    \b
    fleet lab fault api skew --by -40
    """
    _begin(asked, lambda say: say.skew(by, match))
