"""Faults of a cluster's API server: it answers with errors, is slow, forgets, or tells the time of Leases wrong.

Each is a plan for the proxy in front of the server. They can be active together, and meet every client of the cluster.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, fields
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from fleet.errors import AccessError, ConfigurationError, ResourceError
from fleet.lab.faults.api import plans, ports
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind
from fleet.lab.faults.verb import API_SERVER, Draw, FaultVerb, Option, TargetScope, draw_seed
from fleet.lab.programs import process
from fleet.lab.proxy.actions import Act, Answer, Delay, Expire, SkewLeases
from fleet.lab.proxy.plan import Match, Plan, Rule

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

API_PATH = "/api"  # and /apis: whether it is well, a server goes on to say
MATCH_FIELDS = tuple(field.name for field in fields(Match))


class ApiKind(Kind):
    """A rule of the proxy; its options are those of its verb and of `Match`."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        options = fault.options
        match = Match(**{"path": API_PATH, **{name: options[name] for name in MATCH_FIELDS if name in options}})
        plan = Plan([Rule(match, self.act(options), share=options.get("share"))], seed=options.get("seed", 0))
        _check_cluster(lab, fault.cluster)
        return {"plan": plan.to_json()}

    @abstractmethod
    def act(self, options: Mapping[str, Any]) -> Act:
        """Return what happens to a request."""

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        plans.add_plan(lab, active.fault.cluster, active.id, Plan.from_json(active.facts["plan"]))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        plans.remove_plan(lab, active.fault.cluster, active.id)


class Fail(ApiKind):
    """Requests that are answered with an error."""

    def act(self, options: Mapping[str, Any]) -> Act:
        return Answer(options.get("status", 500), options.get("message", ""), options.get("retry-after"))


class Slow(ApiKind):
    """Requests that are carried out later."""

    def act(self, options: Mapping[str, Any]) -> Act:
        return Delay(options["seconds"])


class Forget(ApiKind):
    """Watches that end as if the server had forgotten the past."""

    def act(self, options: Mapping[str, Any]) -> Act:
        return Expire(options.get("after-events", 0))


class Skew(ApiKind):
    """Leases with shifted times."""

    def act(self, options: Mapping[str, Any]) -> Act:
        return SkewLeases(options["seconds"])


def _check_cluster(lab: Lab, cluster: str) -> None:
    """Raise ConfigurationError, ResourceError or AccessError if a cluster cannot have such faults now."""
    if sys.platform != "linux":
        raise ConfigurationError("faults of an API server need Linux")
    server = process.running_processes(lab.directory).get(f"{cluster}/kube-apiserver")
    if server is None:
        raise ResourceError(
            f"the API server of {cluster} does not run", hint=f"start it with `fleet lab up --name {lab.spec.name}`"
        )
    if "--permit-port-sharing=true" not in server.cmdline():
        raise ResourceError(
            f"the API server of {cluster} was started by a fleet that knew no such faults",
            hint=f"`fleet lab down --name {lab.spec.name}` and `fleet lab up` again",
        )
    if not ports.can_end_connections():
        raise AccessError(
            "clients that are connected already would notice nothing: the system does not let you touch that",
            hint="do it as root, or allow it: `sysctl kernel.yama.ptrace_scope=0`",
        )


ALL_REQUESTS = Match()
Share = Annotated[float | None, Option("Only a share of them, as 0.1. [default: all]", metavar="SHARE")]
Seed = Annotated[int, Option("Chance that can be had again: which requests it hits.")]


def _describe_fault(kind: str, scope: TargetScope, match: Match, options: Mapping[str, Any]) -> Fault:
    conditions = {name: value for name, value in asdict(match).items() if value != getattr(ALL_REQUESTS, name)}
    return Fault(kind, scope.cluster, (API_SERVER,), {**options, **conditions})


def fail(
    scope: TargetScope,
    status: Annotated[int, Option("What it answers: 429, 500, 410 ...", show_default=True)] = 500,
    match: Match = ALL_REQUESTS,
    *,
    share: Share = None,
    seed: Seed = 0,
    retry_after: Annotated[int | None, Option("Say when to come again.", metavar="SECONDS")] = None,
    message: str = "",
) -> Fault:
    """Answer requests with an error; they are not carried out.

    \b
    fleet lab fault api fail --status 429 --retry-after 1 --share 0.2
    fleet lab fault api fail --verb list --resource pods --for 30s
    """
    Rule(match, Answer(status, message, retry_after), share=share)
    error = {"status": status, "retry-after": retry_after, "message": message}
    return _describe_fault("fail-api", scope, match, {**error, "share": share, "seed": seed})


def slow(
    scope: TargetScope,
    by: Annotated[float, Option("How much later, as 0.2s.", is_duration=True, show_default=True)] = 1,
    match: Match = ALL_REQUESTS,
    *,
    share: Share = None,
    seed: Seed = 0,
) -> Fault:
    """Carry requests out later."""
    if by <= 0:
        raise ConfigurationError(f"{by:g} s later is not later", hint="more than 0")
    return _describe_fault("slow-api", scope, match, {"seconds": by, "share": share, "seed": seed})


def forget(
    scope: TargetScope,
    match: Match = ALL_REQUESTS,
    *,
    share: Share = None,
    seed: Seed = 0,
    after_events: Annotated[int, Option("How many events come before.", show_default=True)] = 0,
) -> Fault:
    """End watches with 410, as a server does that has forgotten the past: clients have to list anew."""
    return _describe_fault("forget-api", scope, match, {"after-events": after_events, "share": share, "seed": seed})


def skew(
    scope: TargetScope,
    by: Annotated[float, Option("How much later, as 40; earlier, as -40.", metavar="SECONDS")],
    match: Match = ALL_REQUESTS,
) -> Fault:
    """Show times in Leases shifted: who judges a holder by them takes it for dead, or for alive.

    \b
    fleet lab fault api skew --by -40
    """
    if not by:
        raise ConfigurationError("times that differ by 0 s do not differ", hint="positive for later, or negative")
    return _describe_fault("skew-leases", scope, match, {"seconds": by})


def _draw_failure(scope: TargetScope, target: str, chance: Random) -> Fault:
    return fail(scope, chance.choice([429, 500, 503]), share=chance.choice([0.1, 0.5, 1]), seed=draw_seed(chance))


def _draw_slowness(scope: TargetScope, target: str, chance: Random) -> Fault:
    return slow(scope, chance.choice([0.1, 0.5, 2]), share=chance.choice([0.1, 1]), seed=draw_seed(chance))


def _draw_forgetting(scope: TargetScope, target: str, chance: Random) -> Fault:
    return forget(scope, after_events=chance.choice([0, 1, 5]))


def _draw_skew(scope: TargetScope, target: str, chance: Random) -> Fault:
    return skew(scope, chance.choice([-60, -10, 10, 60]))


FAIL = FaultVerb(fail, {"fail-api": Fail}, (Draw(("program",), _draw_failure, is_default=False, program=API_SERVER),))
SLOW = FaultVerb(slow, {"slow-api": Slow}, (Draw(("program",), _draw_slowness, is_default=False, program=API_SERVER),))
FORGET = FaultVerb(
    forget, {"forget-api": Forget}, (Draw(("program",), _draw_forgetting, is_default=False, program=API_SERVER),)
)
SKEW = FaultVerb(skew, {"skew-leases": Skew}, (Draw(("program",), _draw_skew, is_default=False, program=API_SERVER),))
