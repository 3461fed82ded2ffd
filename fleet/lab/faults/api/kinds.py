"""The faults of a cluster's API server: it answers with errors, is slow, forgets, or tells the time of Leases wrong.

Each is a plan for the proxy in front of it. They can be had together, and meet every client of the cluster.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fleet.errors import AccessError, ConfigurationError, ResourceError
from fleet.lab import process
from fleet.lab.faults.api import connections, plans
from fleet.lab.faults.fault import Active, Fault
from fleet.lab.faults.kind import Facts, Kind
from fleet.lab.proxy.act import Act, Answer, Delay, Expire, SkewLeases
from fleet.lab.proxy.match import Match
from fleet.lab.proxy.plan import Plan, Rule

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

API = "/api"  # and /apis: whether it is well, a server goes on to say
WHICH = tuple(field.name for field in fields(Match))


class ApiKind(Kind):
    """A rule of the proxy; its options are those of `ApiWords`."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        said = fault.options
        match = Match(**{"path": API, **{name: said[name] for name in WHICH if name in said}})
        plan = Plan([Rule(match, self.act(said), share=said.get("share"))], seed=said.get("seed", 0))
        _check(lab, fault.cluster)
        return {"plan": plan.to_json()}

    @abstractmethod
    def act(self, said: Mapping[str, Any]) -> Act:
        """What happens to a request."""

    def begin(self, lab: Lab, active: Active) -> None:
        plans.add(lab, active.fault.cluster, active.id, Plan.from_json(active.facts["plan"]))

    def end(self, lab: Lab, active: Active) -> None:
        plans.remove(lab, active.fault.cluster, active.id)


class Fail(ApiKind):
    def act(self, said: Mapping[str, Any]) -> Act:
        return Answer(said.get("status", 500), said.get("message", ""), said.get("retry-after"))


class Slow(ApiKind):
    def act(self, said: Mapping[str, Any]) -> Act:
        return Delay(said["seconds"])


class Forget(ApiKind):
    def act(self, said: Mapping[str, Any]) -> Act:
        return Expire(said.get("after-events", 0))


class Skew(ApiKind):
    def act(self, said: Mapping[str, Any]) -> Act:
        return SkewLeases(said["seconds"])


def _check(lab: Lab, cluster: str) -> None:
    if sys.platform != "linux":
        raise ConfigurationError("faults of an API server need Linux")
    server = process.running(lab.directory).get(f"{cluster}/kube-apiserver")
    if server is None:
        raise ResourceError(
            f"the API server of {cluster} does not run", hint=f"start it with `fleet lab up --name {lab.spec.name}`"
        )
    if "--permit-port-sharing=true" not in server.cmdline():
        raise ResourceError(
            f"the API server of {cluster} was started by a fleet that knew no such faults",
            hint=f"`fleet lab down --name {lab.spec.name}` and `fleet lab up` again",
        )
    if not connections.may_be_ended():
        raise AccessError(
            "clients that are connected already would notice nothing: the system does not let you touch that",
            hint="do it as root, or allow it: `sysctl kernel.yama.ptrace_scope=0`",
        )
