"""`fleet lab fault api`: faults of a cluster's API server, which all its clients meet, also nodes and pods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fleet.cli.commands.lab.options import FaultScope, name_option
from fleet.cli.options import Seconds

if TYPE_CHECKING:
    from fleet.lab.faults import Fault
    from fleet.lab.faults.api.kinds import ApiFaultBuilder
    from fleet.lab.proxy.plan import Match

F = TypeVar("F", bound=Callable[..., Any])


def request_options(command: F) -> F:
    """Add which API server, for how long, and which requests: the command gets a `FaultScope` and a `Match`."""

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
        return command(FaultScope(name, cluster, namespace, seconds), match, **rest)

    wrapped: Any = with_match
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
        wrapped = option(wrapped)
    return cast("F", wrapped)


def chance_options(command: F) -> F:
    """Add --share and --seed: which of the requests it hits."""
    for option in (
        click.option("--seed", type=int, default=0, help="Chance that can be had again: which requests it hits."),
        click.option("--share", type=float, metavar="SHARE", help="Only a share of them, as 0.1. [default: all]"),
    ):
        command = option(command)
    return command


def _begin_fault(scope: FaultScope, make: Callable[[ApiFaultBuilder], Fault]) -> None:
    """Begin a fault that `make` makes of a builder."""
    from fleet.lab.faults.api.kinds import ApiFaultBuilder

    scope.begin(make(ApiFaultBuilder(scope.builder.cluster)))


@click.group()
def api() -> None:
    """Let the API server answer with errors, be slow, forget, or tell the time of Leases wrong.

    All clients of the cluster meet it, also nodes, controllers and pods. When such a fault begins or ends, their
    connections break once.
    """


@api.command()
@request_options
@chance_options
@click.option("--retry-after", type=int, metavar="SECONDS", help="Say when to come again.")
@click.option("--status", default=500, show_default=True, help="What it answers: 429, 500, 410 ...")
def fail(
    scope: FaultScope, match: Match, *, status: int, retry_after: int | None, share: float | None, seed: int
) -> None:
    """Answer requests with an error; they are not carried out.

    \b
    fleet lab fault api fail --status 429 --retry-after 1 --share 0.2
    fleet lab fault api fail --verb list --resource pods --for 30s
    """
    _begin_fault(scope, lambda builder: builder.fail(status, match, share=share, retry_after=retry_after, seed=seed))


@api.command()
@request_options
@chance_options
@click.option("--by", type=Seconds(), default="1s", show_default=True, help="How much later, as 0.2s.")
def slow(scope: FaultScope, match: Match, by: float, share: float | None, seed: int) -> None:
    """Carry requests out later."""
    _begin_fault(scope, lambda builder: builder.slow(by, match, share=share, seed=seed))


@api.command()
@request_options
@chance_options
@click.option("--after-events", default=0, show_default=True, help="How many events come before.")
def forget(scope: FaultScope, match: Match, after_events: int, share: float | None, seed: int) -> None:
    """End watches with 410, as a server does that has forgotten the past: clients have to list anew."""
    _begin_fault(scope, lambda builder: builder.forget(match, after_events=after_events, share=share, seed=seed))


@api.command()
@request_options
@click.option("--by", type=float, required=True, metavar="SECONDS", help="How much later, as 40; earlier, as -40.")
def skew(scope: FaultScope, match: Match, by: float) -> None:
    """Show times in Leases shifted: who judges a holder by them takes it for dead, or for alive.

    \b
    fleet lab fault api skew --by -40
    """
    _begin_fault(scope, lambda builder: builder.skew(by, match))
