"""One address for the services of a lab, on a link of its own: the same URL works on this machine and in every pod.

A forge writes its URL into what it answers (where to clone from, where a pull request is) and a signature for S3
covers the host's name, so two addresses for one service would be two services. Pods reach it because all that is not
theirs goes to the host. The link begins with the lab's identity and so is found and removed like the others.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
from ipaddress import IPv4Address, IPv4Network

from fleet.errors import FleetError, ResourceError
from fleet.lab import network
from fleet.lab import spec as specs
from fleet.lab.plan import PORTS
from fleet.lab.services.record import records

LOOPBACK = "127.0.0.1"
POOLS = [IPv4Network(f"10.{octet}.0.0/16") for octet in range(99, 63, -1)]  # clusters take theirs above


def choose() -> str:
    """An address for a lab: its own where links can be made, else loopback, where there are no pods to reach it."""
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("ip"):
        return LOOPBACK
    routes = [route["dst"] for route in json.loads(network.ip("-json", "-4", "route", "show", "table", "all"))]
    return free(routes, _known())


def free(routes: list[str], known: set[str]) -> str:
    """One that no route of the machine leads to and no other lab has."""
    taken = [IPv4Network(route, strict=False) for route in routes if route != "default" and "." in route]
    for pool in POOLS:
        address = str(pool[secrets.randbelow(pool.num_addresses - 2) + 1])
        if address not in known and not any(IPv4Address(address) in network for network in taken):
            return address
    raise ResourceError("no free address is left for services", hint="`fleet lab list` shows labs to take down")


def _known() -> set[str]:
    found = set()
    for name in specs.all_names():
        try:
            found |= {record.address for record in records(name).values()}
        except FleetError:  # a lab that cannot be read has no say here
            continue
    return found


def choose_port(address: str, usual: int) -> int:
    """The usual one on an address of its own; on loopback any that is free."""
    while address == LOOPBACK:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        return port
    return usual


def lay(lab: str, address: str) -> None:
    """Make the link with the address; what is there already stays."""
    if address == LOOPBACK:
        return
    link = f"fl{specs.identity(lab)}-svc"
    if link not in network.links(specs.identity(lab)):
        network.ip("link", "add", link, "type", "bridge")  # without ports: nothing but a place for an address
    network.ip("addr", "replace", f"{address}/32", "dev", link)
    network.ip("link", "set", link, "up")
