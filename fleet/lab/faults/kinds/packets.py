"""Which packets a fault is about: rules for the packet filter of each node's or pod's own network. Pure.

A side is nodes, pods or the API server, and a packet goes from one side to the other. It is met where it leaves
(POSTROUTING, after a Service's address was replaced by a pod's) and where it arrives (PREROUTING); what stays inside a
node or a pod is never met, because it does not pass its `eth0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.lab.faults.fault import Owner
from fleet.lab.spec import ClusterSpec

KUBELET = 10250


@dataclass(frozen=True, slots=True)
class Peer:
    """An address, or a network, at the other end. With ports: only what goes to or comes from these."""

    address: str
    port: int = 0  # there
    own_port: int = 0  # here

    def match(self, *, outgoing: bool) -> str:
        """What the packet filter calls a packet to (or from) there."""
        there, here = ("d", "s") if outgoing else ("s", "d")
        parts = [f"-{there} {self.address}"]
        if self.port or self.own_port:
            parts.append("-p tcp")
        if self.port:
            parts.append(f"--{there}port {self.port}")
        if self.own_port:
            parts.append(f"--{here}port {self.own_port}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Member:
    """One of a side: what its packets are called, and a process in whose network rules can be made, if there is one."""

    target: str
    peers: tuple[Peer, ...]
    holder: Owner | None = None


def node_peers(cluster: ClusterSpec, index: int) -> tuple[Peer, ...]:
    return (Peer(cluster.node_address(index)), Peer(str(cluster.pods(index))))


def api_server_peers(cluster: ClusterSpec) -> tuple[Peer, ...]:
    """Requests to it, also by its Service's address as pods see it, and its own to kubelets. Names go on to work."""
    return (
        Peer(cluster.gateway, port=cluster.ports["kube-apiserver"]),
        Peer(cluster.gateway, own_port=KUBELET),
        Peer(str(cluster.services[1]), port=443),
    )


@dataclass(frozen=True, slots=True)
class Chains:
    """What is looked at where packets leave and where they arrive; each line is a match and what then happens."""

    outgoing: tuple[str, ...] = ()
    incoming: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.outgoing or self.incoming)

    def with_value(self, placeholder: str, value: str) -> Chains:
        """The same with a word filled in that was not known before."""
        return Chains(
            tuple(rule.replace(placeholder, value) for rule in self.outgoing),
            tuple(rule.replace(placeholder, value) for rule in self.incoming),
        )


def build_chains(
    side: Sequence[Member], other: Sequence[Member], action: str, *, one_way: bool = False, once: bool = False
) -> dict[str, Chains]:
    """The rules of each member that has a network, by its name. Without another side it is everybody else.

    `once`: a packet is met at one place only, where it leaves if there are rules there; else at both, so that one
    member's restart changes nothing.
    """
    chains = {
        member.target: _near_chains(member, side, other, action, one_way=one_way) for member in side if member.holder
    }
    if not other:
        return chains
    met_at_start = once and all(member.holder for member in side)
    for member in other:
        if member.holder:
            incoming = () if met_at_start else _rules(side, action, outgoing=False)
            outgoing = () if one_way else _rules(side, action, outgoing=True)
            chains[member.target] = Chains(outgoing, incoming)
    if once and all(member.holder for member in other):
        chains |= {member.target: Chains(chains[member.target].outgoing) for member in side if member.target in chains}
    return {target: rules for target, rules in chains.items() if rules}


def _near_chains(
    member: Member, side: Sequence[Member], other: Sequence[Member], action: str, *, one_way: bool
) -> Chains:
    if other:
        return Chains(_rules(other, action, outgoing=True), () if one_way else _rules(other, action, outgoing=False))
    friends = [one for one in side if one.target != member.target]
    return Chains(
        (*_rules(friends, "RETURN", outgoing=True), f"-j {action}"),
        () if one_way else (*_rules(friends, "RETURN", outgoing=False), f"-j {action}"),
    )


def _rules(members: Sequence[Member], action: str, *, outgoing: bool) -> tuple[str, ...]:
    return tuple(f"{peer.match(outgoing=outgoing)} -j {action}" for one in members for peer in one.peers)


def _chain_names(fault: int) -> tuple[str, str]:
    return f"FLEET-FAULT-{fault}-OUT", f"FLEET-FAULT-{fault}-IN"


def _jumps(fault: int) -> tuple[str, str]:
    out, into = _chain_names(fault)
    return f"POSTROUTING -o eth0 -j {out}", f"PREROUTING -i eth0 -j {into}"


def restore_script(fault: int, rules: Chains, *, first: bool) -> str:
    """What `iptables-restore --noflush` is given to have them. `first`: before all other faults' rules."""
    out, into = _chain_names(fault)
    lines = ["*mangle", f":{out} - [0:0]", f":{into} - [0:0]"]
    lines += [f"-A {out} {rule}" for rule in rules.outgoing]
    lines += [f"-A {into} {rule}" for rule in rules.incoming]
    lines += [f"-{'I' if first else 'A'} {jump}" for jump in _jumps(fault)]
    return "\n".join([*lines, "COMMIT", ""])


def removal_script(fault: int, present: str) -> str:
    """The script that takes away a fault's rules, given what `iptables-save -t mangle` says; "" if there are none."""
    lines = []
    for line in present.splitlines():
        words = line.split()
        if words[:1] == ["-A"] and words[-1] in _chain_names(fault):
            lines.append(f"-D {line.removeprefix('-A ')}")
    declared = {line.split()[0][1:] for line in present.splitlines() if line.startswith(":")}
    for name in _chain_names(fault):
        if name in declared:
            lines += [f"-F {name}", f"-X {name}"]
    return "\n".join(["*mangle", *lines, "COMMIT", ""]) if lines else ""
