"""A proxy between a client and an API server, with plans written as data: what goes wrong with which requests.

with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy:
    proxy.plan = Plan([Rule(Match(writes=True), Lose(), every=5)])
    my_client(proxy.kubeconfig)
"""

from fleet.lab.proxy.act import (
    Act,
    Answer,
    Break,
    Cut,
    Delay,
    DelayEvents,
    DropEvents,
    EmptyList,
    Expire,
    Freeze,
    Kill,
    Lose,
    SkewLeases,
)
from fleet.lab.proxy.call import Call
from fleet.lab.proxy.match import Match
from fleet.lab.proxy.plan import Plan, Rule, State, decide
from fleet.lab.proxy.record import Recorded
from fleet.testing.proxy.proxy import Proxy

__all__ = [
    "Act",
    "Answer",
    "Break",
    "Call",
    "Cut",
    "Delay",
    "DelayEvents",
    "DropEvents",
    "EmptyList",
    "Expire",
    "Freeze",
    "Kill",
    "Lose",
    "Match",
    "Plan",
    "Proxy",
    "Recorded",
    "Rule",
    "SkewLeases",
    "State",
    "decide",
]
