"""The networks of nodes and pods: enter them, give them rules and take those away."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab import process
from fleet.lab.faults import find, packets
from fleet.lab.faults.fault import Active, Fault, Owner
from fleet.lab.faults.packets import Chains, Member, Peer
from fleet.lab.faults.targets import Target, parse

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

RESTORE = ("iptables-restore", "--noflush", "--wait", "5")


def members(lab: Lab, cluster: str, targets: Sequence[str]) -> list[Member]:
    spec = lab.spec.cluster(cluster)
    find.real(spec, "network of their own")
    return [_member(lab, cluster, parse(text)) for text in targets]


def sides(lab: Lab, fault: Fault) -> tuple[list[Member], list[Member]]:
    return members(lab, fault.cluster, fault.targets), members(lab, fault.cluster, fault.options["from"])


def _member(lab: Lab, cluster: str, target: Target) -> Member:
    spec = lab.spec.cluster(cluster)
    if target.thing == "program":
        return Member(str(target), packets.of_api_server(spec))
    if target.thing == "node":
        node, first = find.running_node(lab, cluster, target.name)
        return Member(str(target), packets.of_node(spec, node.index), process.identify(first.pid))
    pod = find.pod(lab, cluster, target.namespace, target.name)
    if pod.host_network:
        raise ConfigurationError(
            f"{target} uses its node's network and has none of its own",
            hint=f"use node/{pod.object['spec']['nodeName']}",
        )
    return Member(str(target), (Peer(f"{pod.address}/32"),), pod.holder)


def holder(lab: Lab, active: Active, target: str) -> Owner | None:
    """A process in the network of one of a fault's places, if there is one now: a node comes back as another one."""
    if target.startswith("node/"):
        first = process.running(lab.directory).get(f"{active.fault.cluster}/{parse(target).name}")
        return process.identify(first.pid) if first else None
    found = process.known(active.facts["places"][target]["holder"])
    return found if process.alive(found) else None


def enter(holder: Owner, *command: str) -> list[str]:
    """The command line that runs a program of this machine in the network that a process is in."""
    return ["nsenter", f"--target={holder[0]}", "--net", "--", *command]


def give(holder: Owner, fault: int, rules: Chains, *, first: bool) -> None:
    """Have these rules of a fault, and no others of it. A network that goes meanwhile needs none."""
    take(holder, fault)
    _run(holder, *RESTORE, script=packets.script(fault, rules, first=first))


def lacks(lab: Lab, active: Active, target: str) -> bool:
    """Whether a place of a fault has a network now, and none of the fault's rules in it."""
    found = holder(lab, active, target) if target in active.facts["places"] else None
    return found is not None and not packets.removal(active.id, _rules(found))


def take(holder: Owner, fault: int) -> None:
    """Have no rules of a fault."""
    if script := packets.removal(fault, _rules(holder)):
        _run(holder, *RESTORE, script=script)


def _rules(holder: Owner) -> str:
    return _run(holder, "iptables-save", "-t", "mangle")


def _run(holder: Owner, *program: str, script: str = "") -> str:
    """What a program of the packet filter says there. One that fails is no error if its network is gone."""
    command = enter(holder, *program)
    done = subprocess.run(command, input=script, check=False, capture_output=True, text=True)
    if done.returncode and process.alive(holder):
        raise ResourceError(f"`{' '.join(command)}` failed: {done.stderr.strip()}\n{script}".rstrip())
    return done.stdout
