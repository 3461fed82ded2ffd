"""A bridge per cluster, one /16 for all that is on it, and a cable from each node's network namespace to it.

All links begin with the lab's identity, so they are found and removed without any record. Nothing is added to the
host's packet filter: nodes are neighbours on the bridge, and the host has a route to each node's pods.
"""

from __future__ import annotations

import json
import subprocess
import time
from ipaddress import IPv4Network
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import spec as specs
from fleet.lab.spec import ClusterSpec


def run_ip(*arguments: str | int) -> str:
    """Run `ip` and return what it printed; raise ResourceError when it fails."""
    command = ["ip", *(str(argument) for argument in arguments)]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode:
        raise ResourceError(f"`{' '.join(command)}` failed: {process.stderr.strip()}")
    return process.stdout


def free_network(other_networks: list[str]) -> str:
    """Return a /16 that neither the host's routes, nor its addresses, nor another lab use."""
    used_networks = [IPv4Network(network) for network in other_networks]
    for lab in specs.load_readable_specs():
        used_networks += [IPv4Network(cluster.network) for cluster in lab.clusters if cluster.network]
    for route in json.loads(run_ip("-json", "-4", "route", "show", "table", "all")):
        destination = route["dst"]
        if destination != "default" and "." in destination:
            used_networks.append(IPv4Network(destination, strict=False))
    for octet in [*range(200, 255), *range(100, 200)]:
        candidate = IPv4Network(f"10.{octet}.0.0/16")
        if not any(candidate.overlaps(other) for other in used_networks):
            return str(candidate)
    raise ResourceError("no free 10.x.0.0/16 is left for a cluster", hint="`fleet lab list` shows labs to take down")


def bridge_name(lab: str, cluster: ClusterSpec) -> str:
    return f"fl{lab}-{IPv4Network(cluster.network)[0].packed[1]}"


def hardware_address(lab: str, cluster: ClusterSpec) -> str:
    """Return the hardware address of the host's end of the bridge.

    Its second digit says that no manufacturer assigned it.
    """
    octets = bytes.fromhex(lab) + IPv4Network(cluster.network)[0].packed[1:2]
    return f"02:f1:{octets.hex(':')}"


def cable_name(lab: str, cluster: ClusterSpec, node: int) -> str:
    return f"{bridge_name(lab, cluster)}n{node}"


def find_links(lab: str) -> list[str]:
    """Return the links of a lab on the host."""
    prefix = f"fl{lab}-"
    if not Path("/sys/class/net").is_dir():
        return []
    return sorted(path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(prefix))


def lay_bridge(lab: str, cluster: ClusterSpec) -> None:
    """Make the cluster's bridge with its address and routes; an existing bridge stays."""
    bridge = bridge_name(lab, cluster)
    if bridge not in find_links(lab):
        # With an address of its own: else it has one of its nodes', and when that node goes, all others and the API
        # server look for the bridge where it was, in vain, for half a minute.
        address = hardware_address(lab, cluster)
        run_ip("link", "add", bridge, "address", address, "type", "bridge", "stp_state", 0, "forward_delay", 0)
    # Where a firewall looks at bridged packets too (Docker turns that on), neighbours would not reach each other.
    for family in ("iptables", "ip6tables", "arptables"):
        switch = Path(f"/sys/class/net/{bridge}/bridge/nf_call_{family}")
        if switch.exists():
            switch.write_text("0")
    run_ip("addr", "replace", f"{cluster.gateway}/24", "dev", bridge)
    run_ip("link", "set", bridge, "up")


def lay_cable(lab: str, cluster: ClusterSpec, node: int, process: int) -> bool:
    """Connect the network namespace of `process` to the bridge; inside, the end is called eth0.

    Returns whether there was anything to do. It may have been cut short before: plugging it in is the last step, so a
    cable that is plugged in and has an end inside is laid whole. An existing end is kept, because its node gives it an
    address once.
    """
    bridge, cable = bridge_name(lab, cluster), cable_name(lab, cluster, node)
    _wait_for_namespace(process)
    has_end = _has_link(process, "eth0")
    if has_end and _is_plugged(cable, bridge):
        return False
    if not has_end:
        _remove_link(cable)  # of a node that ended a moment ago and whose namespace is not collected yet
        run_ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", process)
    run_ip("route", "replace", str(cluster.pods(node)), "via", cluster.node_address(node), "dev", bridge)
    run_ip("link", "set", cable, "master", bridge, "up")
    return True


def _has_link(process: int, name: str) -> bool:
    """Return whether the network namespace that a process is in has a link of this name."""
    lines = Path(f"/proc/{process}/net/dev").read_text().splitlines()
    return any(line.partition(":")[0].strip() == name for line in lines)


def _is_plugged(cable: str, bridge: str) -> bool:
    port = Path("/sys/class/net") / cable / "master"
    return port.exists() and port.readlink().name == bridge


def _wait_for_namespace(process: int, patience: float = 10) -> None:
    """Wait until a process has a network namespace of its own.

    A process that was just started is in the host's namespace until it has made one. Raises ResourceError if it ends
    before, or makes none.
    """
    deadline = time.monotonic() + patience
    host_namespace, namespace = Path("/proc/self/ns/net"), Path(f"/proc/{process}/ns/net")
    try:
        while namespace.readlink() == host_namespace.readlink():
            if time.monotonic() > deadline:
                raise ResourceError(f"process {process} has no network namespace of its own")
            time.sleep(0.005)
    except FileNotFoundError:
        raise ResourceError(f"process {process} ended before it had a network namespace of its own") from None


def remove_links(lab: str) -> None:
    for link in find_links(lab):
        _remove_link(link)


def _remove_link(link: str) -> None:
    """Remove a link, whether it exists or not.

    The kernel removes those of a namespace without processes by itself, some time later.
    """
    subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)
