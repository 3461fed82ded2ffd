"""Faults of the networks of nodes and pods: partition and disturbance.

In a partition no packet passes between two sides, or between one side and all other addresses. Disturbed packets come
late, not at all, or in another order. Both are rules in the network of each node or pod, which this module enters.

The kernels of many machines (small virtual ones, for instance) come without `netem`, so packets go through a queue into
a program of ours (`packet_queue.py`), which lets them go when their time has come. If it dies, they pass untouched.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab.faults import lookup, records
from fleet.lab.faults.fault import (
    ActiveFault,
    Facts,
    Fault,
    Kind,
    Owner,
    Target,
    Thing,
    expect_target,
    parse_target,
)
from fleet.lab.faults.kinds import packet_queue, packets
from fleet.lab.faults.kinds.packets import Chains, PacketEndpoint, Peer
from fleet.lab.faults.verb import (
    API_SERVER,
    Draw,
    FaultVerb,
    Option,
    TargetArgument,
    TargetScope,
    check_at_least,
    check_share,
    draw_seed,
)
from fleet.lab.programs import process
from fleet.lab.programs.process import read_tail

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

RESTORE = ("iptables-restore", "--noflush", "--wait", "5")


def find_members(lab: Lab, cluster: str, targets: Sequence[str]) -> list[PacketEndpoint]:
    """Find the members of a side; raise ConfigurationError for a pod without a network of its own."""
    spec = lab.spec.cluster(cluster)
    lookup.require_real_nodes(spec, "network of their own")
    return [_find_member(lab, cluster, parse_target(text)) for text in targets]


def find_sides(lab: Lab, fault: Fault) -> tuple[list[PacketEndpoint], list[PacketEndpoint]]:
    """Find the members of both sides of a fault."""
    return find_members(lab, fault.cluster, fault.targets), find_members(lab, fault.cluster, fault.options["from"])


def _find_member(lab: Lab, cluster: str, target: Target) -> PacketEndpoint:
    spec = lab.spec.cluster(cluster)
    if target.thing == "program":
        return PacketEndpoint(str(target), packets.api_server_peers(spec))
    if target.thing == "node":
        node, first = lookup.find_running_node(lab, cluster, target.name)
        return PacketEndpoint(str(target), packets.node_peers(spec, node.index), process.identify(first.pid))
    pod = lookup.find_pod(lab, cluster, target.namespace, target.name)
    if pod.host_network:
        raise ConfigurationError(
            f"{target} uses its node's network and has none of its own",
            hint=f"use node/{pod.object['spec']['nodeName']}",
        )
    return PacketEndpoint(str(target), (Peer(f"{pod.address}/32"),), pod.holder)


def find_holder(lab: Lab, active: ActiveFault, target: str) -> Owner | None:
    """Return a process in a target's network, None if it has none now: a node comes back with another process."""
    if target.startswith("node/"):
        first = process.running_processes(lab.directory).get(f"{active.fault.cluster}/{parse_target(target).name}")
        return process.identify(first.pid) if first else None
    holder = process.parse_identity(active.facts["places"][target]["holder"])
    return holder if process.is_alive(holder) else None


def enter_command(holder: Owner, *command: str) -> list[str]:
    """Return the command line that runs a program of this machine in the network that a process is in."""
    return ["nsenter", f"--target={holder[0]}", "--net", "--", *command]


def set_rules(holder: Owner, fault: int, rules: Chains, *, first: bool) -> None:
    """Set the rules of a fault in a network, and no others of it. A network that goes meanwhile needs none."""
    remove_rules(holder, fault)
    _run_in_network(holder, *RESTORE, script=packets.restore_script(fault, rules, first=first))


def lacks_rules(lab: Lab, active: ActiveFault, target: str) -> bool:
    """Return whether a target of a fault has a network now, and none of the fault's rules in it."""
    holder = find_holder(lab, active, target) if target in active.facts["places"] else None
    return holder is not None and not packets.removal_script(active.id, _read_rules(holder))


def remove_rules(holder: Owner, fault: int) -> None:
    """Remove the rules of a fault from a network."""
    if script := packets.removal_script(fault, _read_rules(holder)):
        _run_in_network(holder, *RESTORE, script=script)


def _read_rules(holder: Owner) -> str:
    return _run_in_network(holder, "iptables-save", "-t", "mangle")


def _run_in_network(holder: Owner, *program: str, script: str = "") -> str:
    """Run a program of the packet filter in a network, and return what it printed.

    Raises ResourceError when it fails, unless the network is gone.
    """
    command = enter_command(holder, *program)
    result = subprocess.run(command, input=script, check=False, capture_output=True, text=True)
    if result.returncode and process.is_alive(holder):
        raise ResourceError(f"`{' '.join(command)}` failed: {result.stderr.strip()}\n{script}".rstrip())
    return result.stdout


def resolve_members(lab: Lab, fault: Fault, action: str, *, once: bool) -> Facts:
    """Return the facts of `partition` and `disturb`: the targets with a network, and the rules of each."""
    side, other = find_sides(lab, fault)
    rules = packets.build_chains(side, other, action, one_way=bool(fault.options["one-way"]), once=once)
    holders = {member.target: member.holder for member in (*side, *other) if member.holder}
    return {
        "places": {
            target: {"holder": holders[target], "outgoing": chains.outgoing, "incoming": chains.incoming}
            for target, chains in rules.items()
        }
    }


def read_fault_rules(active: ActiveFault, target: str) -> Chains:
    rules = active.facts["places"][target]
    return Chains(tuple(rules["outgoing"]), tuple(rules["incoming"]))


SIDE_THINGS: tuple[Thing, ...] = ("node", "pod", "program")
Side = Annotated[Sequence[str], TargetArgument()]
OtherSide = Annotated[
    Sequence[str],
    Option(
        "The other side; may be repeated. [default: everybody else]",
        flags=("--from",),
        metavar="TARGET",
        is_target=True,
    ),
]
OneWay = Annotated[bool, Option("Only packets that leave the first side.", is_last=True)]


def build_fault(
    kind: str, scope: TargetScope, side: Sequence[str], other: Sequence[str], options: Mapping[str, Any]
) -> Fault:
    """Return the fault between two sides; raise ConfigurationError for sides that cannot be."""
    near = [str(_parse_side(text, kind, scope)) for text in side]
    far = [str(_parse_side(text, kind, scope)) for text in other]
    if not near:
        raise ConfigurationError(f"{kind} needs a node or a pod", hint="node/NAME or pod/NAME")
    if API_SERVER in near:
        near, far = far, near
    if not near or API_SERVER in near:
        raise ConfigurationError(
            "the API server is one side; the other has to be nodes or pods",
            hint=f"`{kind} node/NAME --from {API_SERVER}`; to stop it for all: `freeze {API_SERVER}`",
        )
    both = set(near) & set(far)
    if both:
        raise ConfigurationError(f"{min(both)} is on both sides")
    return Fault(kind, scope.cluster, tuple(near), {"from": far, **options})


def _parse_side(text: str, kind: str, scope: TargetScope) -> Target:
    target = expect_target(text, scope.namespace, kind, *SIDE_THINGS)
    if target.thing == "program" and target.name != API_SERVER:
        raise ConfigurationError(
            f"{text} has no packets of its own to tell apart", hint=f"nodes, pods and {API_SERVER} have"
        )
    return target


class Partition(Kind):
    """A network fault that drops all packets between the sides."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return resolve_members(lab, fault, "DROP", once=False)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        for target in active.facts["places"]:
            self._set_rules(lab, active, target)

    def _set_rules(self, lab: Lab, active: ActiveFault, target: str) -> None:
        if holder := find_holder(lab, active, target):
            set_rules(holder, active.id, read_fault_rules(active, target), first=True)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        for target in active.facts["places"]:
            if holder := find_holder(lab, active, target):
                remove_rules(holder, active.id)

    def renew(self, lab: Lab, active: ActiveFault, node: str) -> None:
        if lacks_rules(lab, active, f"node/{node}"):
            self._set_rules(lab, active, f"node/{node}")


def partition(scope: TargetScope, side: Side, other: OtherSide = (), *, one_way: OneWay = False) -> Fault:
    """Let no packet through between nodes or pods and others, the API server for instance.

    \b
    fleet lab fault partition node/lab-node-1                        from everybody
    fleet lab fault partition node/lab-node-1 --from node/lab-node-2
    fleet lab fault partition node/lab-node-1 --from kube-apiserver
    """
    return build_fault("partition", scope, side, other, {"one-way": one_way})


PARTITION = FaultVerb(
    partition,
    kinds={"partition": Partition},
    draws=(
        Draw(("pod", "node"), lambda scope, target, chance: partition(scope, [target])),
        Draw(("pod", "node"), lambda scope, target, chance: partition(scope, [target], [API_SERVER]), name="isolate"),
    ),
)

QUEUE = "NFQUEUE --queue-num NUMBER --queue-bypass"


class Disturb(Kind):
    """A network fault that delays, drops and reorders packets between the sides."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        facts = resolve_members(lab, fault, QUEUE, once=True)
        _refuse_second_disturbance(lab, fault.cluster, set(facts["places"]))
        return facts

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        for target in active.facts["places"]:
            self._begin_at(lab, active, target)

    def _begin_at(self, lab: Lab, active: ActiveFault, target: str) -> None:
        holder = find_holder(lab, active, target)
        if not holder:
            return
        number, options = str(active.id % 65536), active.fault.options
        settings = [f"{name}={options[name]}" for name in ("delay", "jitter", "loss", "reorder", "hold", "seed")]
        script = Path(packet_queue.__file__)
        command = enter_command(holder, sys.executable, "-I", "-S", str(script), number, *settings)
        name = target.replace("/", "-")
        child = records.start_program(lab, active, name, command)
        log = records.faults_directory(lab.directory) / f"{active.id}-{name}.log"
        deadline = time.monotonic() + 10
        while packet_queue.READY not in read_tail(log):
            if child.poll() is not None or time.monotonic() > deadline:
                raise ResourceError(
                    f"packets of {target} cannot be queued: {read_tail(log)}",
                    hint="the kernel needs nfnetlink_queue and the NFQUEUE target",
                )
            time.sleep(0.01)
        set_rules(holder, active.id, read_fault_rules(active, target).with_value("NUMBER", number), first=False)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        for target in active.facts["places"]:
            if holder := find_holder(lab, active, target):
                remove_rules(holder, active.id)
        records.stop_programs(lab, active)

    def renew(self, lab: Lab, active: ActiveFault, node: str) -> None:
        if lacks_rules(lab, active, f"node/{node}"):
            self._begin_at(lab, active, f"node/{node}")


def _refuse_second_disturbance(lab: Lab, cluster: str, places: set[str]) -> None:
    """Raise ConfigurationError if packets of a target are disturbed already.

    A packet that one queue has let go does not see another.
    """
    for active in records.read_faults(lab.directory):
        shared = places & set(active.facts.get("places", ()))
        if active.fault.kind == "disturb" and active.fault.cluster == cluster and shared:
            raise ConfigurationError(
                f"packets of {min(shared)} are disturbed already, by fault {active.id}",
                hint=f"`fleet lab fault clear {active.id}` first, or say all that shall happen to them in one",
            )


def disturb(
    scope: TargetScope,
    side: Side,
    other: OtherSide = (),
    *,
    delay: Annotated[float, Option("Packets come that much later, as 0.1s.", is_duration=True)] = 0,
    jitter: Annotated[float, Option("Give or take that much; their order stays.", is_duration=True)] = 0,
    loss: Annotated[float, Option("The share of packets that is lost, as 0.1.")] = 0,
    reorder: Annotated[float, Option("The share of packets that is overtaken by others.")] = 0,
    hold: Annotated[float, Option("How long those are held back.", is_duration=True, show_default=True)] = 0.02,
    seed: Annotated[int, Option("Chance that can be had again: which packets it hits.")] = 0,
    one_way: OneWay = False,
) -> Fault:
    """Delay, drop and reorder packets between nodes or pods and others. Times and shares are of each direction.

    \b
    fleet lab fault disturb node/lab-node-1 --delay 0.1s --jitter 0.02s
    fleet lab fault disturb pod/web-0 --loss 0.1 --from pod/web-1
    """
    options = {
        "delay": check_at_least(0, delay, "--delay"),
        "jitter": check_at_least(0, jitter, "--jitter"),
        "loss": check_share(loss, "--loss"),
        "reorder": check_share(reorder, "--reorder"),
        "hold": check_at_least(0, hold, "--hold") if reorder else 0,
    }
    if jitter > delay:
        raise ConfigurationError(
            f"a delay of {delay:g} s cannot vary by {jitter:g} s", field="--jitter", hint="at most the delay"
        )
    if not any(options.values()):
        raise ConfigurationError(
            "this disturbs nothing", hint="say a delay, or the share of packets to lose or to reorder"
        )
    return build_fault("disturb", scope, side, other, {**options, "seed": seed, "one-way": one_way})


def _draw_delay(scope: TargetScope, target: str, chance: Random) -> Fault:
    return disturb(scope, [target], delay=chance.choice([0.02, 0.1, 0.5]), seed=draw_seed(chance))


def _draw_loss(scope: TargetScope, target: str, chance: Random) -> Fault:
    return disturb(scope, [target], loss=chance.choice([0.01, 0.1, 0.3]), seed=draw_seed(chance))


def _draw_order(scope: TargetScope, target: str, chance: Random) -> Fault:
    return disturb(scope, [target], reorder=chance.choice([0.05, 0.25]), seed=draw_seed(chance))


DISTURB = FaultVerb(
    disturb,
    kinds={"disturb": Disturb},
    draws=(
        Draw(("pod", "node"), _draw_delay, name="delay"),
        Draw(("pod", "node"), _draw_loss, name="drop"),
        Draw(("pod", "node"), _draw_order, name="reorder"),
    ),
)
