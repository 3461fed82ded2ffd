"""Rules for the packet filter of each node's or pod's own network: which packets a fault is about. Pure.

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
    """An address, or a network, at the other end. With ports: only packets to or from these."""

    address: str
    port: int = 0  # there
    own_port: int = 0  # here

    def match(self, *, outgoing: bool) -> str:
        """Return the packet filter's condition for a packet to (or from) this peer."""
        far, near = ("d", "s") if outgoing else ("s", "d")
        parts = [f"-{far} {self.address}"]
        if self.port or self.own_port:
            parts.append("-p tcp")
        if self.port:
            parts.append(f"--{far}port {self.port}")
        if self.own_port:
            parts.append(f"--{near}port {self.own_port}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class PacketEndpoint:
    """A member of a side: how its packets are matched, and a process in whose network rules can be made, if any."""

    target: str
    peers: tuple[Peer, ...]
    holder: Owner | None = None


def node_peers(cluster: ClusterSpec, index: int) -> tuple[Peer, ...]:
    return (Peer(cluster.node_address(index)), Peer(str(cluster.pods(index))))


def api_server_peers(cluster: ClusterSpec) -> tuple[Peer, ...]:
    """Return the peers of requests to an API server, also by its Service's address, and of its own to kubelets.

    Packets of DNS are not among them.
    """
    return (
        Peer(cluster.gateway, port=cluster.ports["kube-apiserver"]),
        Peer(cluster.gateway, own_port=KUBELET),
        Peer(str(cluster.services[1]), port=443),
    )


@dataclass(frozen=True, slots=True)
class Chains:
    """The rules for packets that leave and for those that arrive; each line is a match and what then happens."""

    outgoing: tuple[str, ...] = ()
    incoming: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.outgoing or self.incoming)

    def with_value(self, placeholder: str, value: str) -> Chains:
        """Return the same rules with a placeholder replaced by a value that was not known before."""
        return Chains(
            tuple(rule.replace(placeholder, value) for rule in self.outgoing),
            tuple(rule.replace(placeholder, value) for rule in self.incoming),
        )


def build_chains(
    side: Sequence[PacketEndpoint],
    other: Sequence[PacketEndpoint],
    action: str,
    *,
    one_way: bool = False,
    once: bool = False,
) -> dict[str, Chains]:
    """Return the rules of each member that has a network, by its name. Without another side it is all other addresses.

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
    member: PacketEndpoint,
    side: Sequence[PacketEndpoint],
    other: Sequence[PacketEndpoint],
    action: str,
    *,
    one_way: bool,
) -> Chains:
    """Return the rules of a member of the first side."""
    if other:
        return Chains(_rules(other, action, outgoing=True), () if one_way else _rules(other, action, outgoing=False))
    neighbours = [neighbour for neighbour in side if neighbour.target != member.target]
    return Chains(
        (*_rules(neighbours, "RETURN", outgoing=True), f"-j {action}"),
        () if one_way else (*_rules(neighbours, "RETURN", outgoing=False), f"-j {action}"),
    )


def _rules(members: Sequence[PacketEndpoint], action: str, *, outgoing: bool) -> tuple[str, ...]:
    return tuple(f"{peer.match(outgoing=outgoing)} -j {action}" for member in members for peer in member.peers)


def _chain_names(fault: int) -> tuple[str, str]:
    return f"FLEET-FAULT-{fault}-OUT", f"FLEET-FAULT-{fault}-IN"


def _jumps(fault: int) -> tuple[str, str]:
    out, into = _chain_names(fault)
    return f"POSTROUTING -o eth0 -j {out}", f"PREROUTING -i eth0 -j {into}"


def restore_script(fault: int, rules: Chains, *, first: bool) -> str:
    """Return the input of `iptables-restore --noflush`. `first`: before all other faults' rules."""
    out, into = _chain_names(fault)
    lines = ["*mangle", f":{out} - [0:0]", f":{into} - [0:0]"]
    lines += [f"-A {out} {rule}" for rule in rules.outgoing]
    lines += [f"-A {into} {rule}" for rule in rules.incoming]
    lines += [f"-{'I' if first else 'A'} {jump}" for jump in _jumps(fault)]
    return "\n".join([*lines, "COMMIT", ""])


def removal_script(fault: int, present: str) -> str:
    """Return the script that removes a fault's rules, given the output of `iptables-save`; "" if there are none."""
    lines = []
    for line in present.splitlines():
        parts = line.split()
        if parts[:1] == ["-A"] and parts[-1] in _chain_names(fault):
            lines.append(f"-D {line.removeprefix('-A ')}")
    declared = {line.split()[0][1:] for line in present.splitlines() if line.startswith(":")}
    for name in _chain_names(fault):
        if name in declared:
            lines += [f"-F {name}", f"-X {name}"]
    return "\n".join(["*mangle", *lines, "COMMIT", ""]) if lines else ""
