"""Faults of a cluster's API server: it answers with errors, is slow, forgets, or tells the time of Leases wrong.

Each is a plan for the proxy in front of the server. They can be active together, and meet every client of the cluster.
The command line and tests both describe them with `ApiFaultBuilder`, which is pure.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from fleet.errors import AccessError, ConfigurationError, ResourceError
from fleet.lab.faults.api import plans, ports
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind
from fleet.lab.programs import process
from fleet.lab.proxy.actions import Act, Answer, Delay, Expire, SkewLeases
from fleet.lab.proxy.plan import Match, Plan, Rule

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

API_PATH = "/api"  # and /apis: whether it is well, a server goes on to say
MATCH_FIELDS = tuple(field.name for field in fields(Match))


class ApiKind(Kind):
    """A rule of the proxy; its options are those of `ApiFaultBuilder`."""

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


@dataclass(frozen=True, slots=True)
class ApiFaultBuilder:
    """A builder of faults of one API server. `share` is that of the requests that match; `seed` draws them."""

    cluster: str

    def fail(
        self,
        status: int = 500,
        match: Match = ALL_REQUESTS,
        *,
        share: float | None = None,
        retry_after: int | None = None,
        message: str = "",
        seed: int = 0,
    ) -> Fault:
        """Answer requests with an error; they are not carried out."""
        Rule(match, Answer(status, message, retry_after), share=share)
        error = {"status": status, "retry-after": retry_after, "message": message}
        return self._fault("fail-api", match, {**error, "share": share, "seed": seed})

    def slow(self, seconds: float, match: Match = ALL_REQUESTS, *, share: float | None = None, seed: int = 0) -> Fault:
        """Carry requests out so many seconds later."""
        if seconds <= 0:
            raise ConfigurationError(f"{seconds:g} s later is not later", hint="more than 0")
        return self._fault("slow-api", match, {"seconds": seconds, "share": share, "seed": seed})

    def forget(
        self, match: Match = ALL_REQUESTS, *, after_events: int = 0, share: float | None = None, seed: int = 0
    ) -> Fault:
        """End watches with 410 after so many events: clients have to list anew."""
        return self._fault("forget-api", match, {"after-events": after_events, "share": share, "seed": seed})

    def skew(self, seconds: float, match: Match = ALL_REQUESTS) -> Fault:
        """Show times in Leases so many seconds later than what is stored, or earlier if negative."""
        if not seconds:
            raise ConfigurationError("times that differ by 0 s do not differ", hint="positive for later, or negative")
        return self._fault("skew-leases", match, {"seconds": seconds})

    def _fault(self, kind: str, match: Match, options: dict[str, Any]) -> Fault:
        conditions = {name: value for name, value in asdict(match).items() if value != getattr(ALL_REQUESTS, name)}
        return Fault(kind, self.cluster, ("kube-apiserver",), {**options, **conditions})
