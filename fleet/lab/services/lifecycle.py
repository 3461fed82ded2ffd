"""The life of a lab's services: they are started, stopped and described, and have one address.

Every operation can be repeated at any time; data stays until `down`.

The address is on a link of its own, so that the same URL works on this machine and in every pod. A forge writes its URL
into its responses (where to clone from, where a pull request is) and a signature for S3 covers the host's name, so two
addresses for one service would be two services. Pods reach it because all addresses that are not theirs go to the host.
The link begins with the lab's identity and so is found and removed like the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import psutil

from fleet.errors import FleetError, NotFoundError, ResourceError
from fleet.lab import cleanup
from fleet.lab import spec as specs
from fleet.lab.cluster import network
from fleet.lab.files import explain_disk_errors
from fleet.lab.lab import remove_orphans
from fleet.lab.locks import lock_addresses, lock_lab
from fleet.lab.planning import PORTS
from fleet.lab.programs import process
from fleet.lab.programs.launch import PATIENCE, launch, wait_until
from fleet.lab.programs.process import Identity
from fleet.lab.services.forge import FORGE
from fleet.lab.services.s3 import S3
from fleet.lab.services.service import ServiceKind, ServiceRecord, is_answering, read_records
from fleet.lab.spec import LabSpec

LOOPBACK = "127.0.0.1"
POOLS = [IPv4Network(f"10.{octet}.0.0/16") for octet in range(99, 63, -1)]  # clusters take theirs above


def choose_address() -> str:
    """Choose an address for a lab: its own where links can be made, else loopback.

    Where no link can be made there are no pods that would have to reach it.
    """
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("ip"):
        return LOOPBACK
    routes = [route["dst"] for route in json.loads(network.run_ip("-json", "-4", "route", "show", "table", "all"))]
    return free_address(routes, _used_addresses())


def free_address(routes: list[str], used: set[str]) -> str:
    """Choose an address that no route of the machine leads to and no other lab has."""
    networks = [IPv4Network(route, strict=False) for route in routes if route != "default" and "." in route]
    for pool in POOLS:
        address = str(pool[secrets.randbelow(pool.num_addresses - 2) + 1])
        if address not in used and not any(IPv4Address(address) in network for network in networks):
            return address
    raise ResourceError("no free address is left for services", hint="`fleet lab list` shows labs to take down")


def _used_addresses() -> set[str]:
    """Return the addresses of the services of all labs."""
    addresses = set()
    for name in specs.list_lab_names():
        try:
            addresses |= {record.address for record in read_records(name).values()}
        except FleetError:  # a lab that cannot be read has no say here
            continue
    return addresses


def choose_port(address: str, usual: int) -> int:
    """Return the usual port on an address of its own; on loopback a free one."""
    while address == LOOPBACK:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        return port
    return usual


def lay_link(lab: str, address: str) -> None:
    """Make the link with a lab's address; an existing link stays."""
    if address == LOOPBACK:
        return
    link = f"fl{specs.lab_identity(lab)}-svc"
    if link not in network.find_links(specs.lab_identity(lab)):
        network.run_ip("link", "add", link, "type", "bridge")  # without ports: nothing but a place for an address
    network.run_ip("addr", "replace", f"{address}/32", "dev", link)
    network.run_ip("link", "set", link, "up")


SERVICES = {kind.name: kind for kind in (FORGE, S3)}
GRACE = 10  # seconds for a service to end by itself
STUCK_AFTER = 20  # seconds for one that runs to say that it serves, before it counts as stuck


def find_service(name: str) -> ServiceKind:
    """Return a service by its name; raise NotFoundError if there is none."""
    if name not in SERVICES:
        raise NotFoundError(f"there is no service {name!r}", hint=f"there are: {', '.join(SERVICES)}")
    return SERVICES[name]


def start_services(lab: str, names: Sequence[str], *, owner: Identity | None = None) -> list[ServiceRecord]:
    """Start services in a lab, and return their records.

    The lab is made if it does not exist; a service that answers is left alone.
    """
    specs.check_name(lab, "lab")
    kinds = [find_service(name) for name in names]
    remove_orphans()
    programs = [kind.build() for kind in kinds]
    with explain_disk_errors("starting a service"), cleanup.create_atomically(lab):
        _ensure_lab(lab, owner)
        return [_converge_service(lab, kind, directory) for kind, directory in zip(kinds, programs, strict=True)]


def _ensure_lab(lab: str, owner: Identity | None) -> None:
    try:
        LabSpec.load(lab)
    except NotFoundError:
        LabSpec(lab, (), owner=owner).save()


def _converge_service(lab: str, kind: ServiceKind, programs: Path) -> ServiceRecord:
    """Start a service unless it answers, wait until it does, and complete it."""
    record = _ensure_record(lab, kind)
    started = []
    if not _is_serving(record, kind):
        _end_service(record, grace=0)  # what is left of one that was killed, or does not answer any more
        lay_link(lab, record.address)
        started = [launch(specs.lab_directory(lab), kind.program(record, programs))]
        wait_until(
            lambda: is_answering(f"{record.url}{kind.health}", trust=record.trust),
            started,
            lambda: _describe_delay(record),
        )
    kind.complete(record, programs)
    return record


def _ensure_record(lab: str, kind: ServiceKind) -> ServiceRecord:
    """Return what was decided at a service's first start, which this may be."""
    existing = read_records(lab)
    if kind.name in existing:
        record = replace(existing[kind.name], scheme=kind.scheme)
        if record != existing[kind.name]:  # of an older version
            record.save()
        return record
    with lock_addresses():
        address = next((record.address for record in existing.values()), "") or choose_address()
        record = ServiceRecord(
            lab, kind.name, address, choose_port(address, kind.port), *kind.credentials(), kind.scheme
        )
        record.save()
    return record


def _is_serving(record: ServiceRecord, kind: ServiceKind) -> bool:
    return bool(_service_processes(record)) and is_answering(
        f"{record.url}{kind.health}", timeout=STUCK_AFTER, trust=record.trust
    )


def _service_processes(record: ServiceRecord) -> list[psutil.Process]:
    """Return the processes of a service and of all that it started, the oldest first."""
    return sorted(
        process.processes_of_role(specs.lab_directory(record.lab), record.role), key=lambda child: child.create_time()
    )


def _describe_delay(record: ServiceRecord) -> str:
    end = process.read_tail(record.log)
    return f"{record.name} does not answer at {record.url} after {PATIENCE} s; the end of {record.log}:\n{end}"


def stop_services(lab: str, names: Sequence[str] = ()) -> list[str]:
    """End services, all of them if the user names none, and return those that ran; their data stays."""
    LabSpec.load(lab)  # says it when there is no such lab
    kinds = {find_service(name).name for name in names} or set(SERVICES)
    with lock_lab(lab):
        running = [
            record for record in read_records(lab).values() if record.name in kinds and _service_processes(record)
        ]
        for record in running:
            _end_service(record, grace=GRACE)
    return [record.name for record in running]


def _end_service(record: ServiceRecord, grace: float) -> None:
    """End a service as a service manager does: ask its first process, wait, then kill.

    Nothing that it started stays.
    """
    processes = _service_processes(record)
    with contextlib.suppress(psutil.Error):
        if processes and grace:
            processes[0].terminate()
            psutil.wait_procs(processes, timeout=grace)
    while remaining := _service_processes(record):
        for child in remaining:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(remaining, timeout=1)


def read_status(lab: str) -> list[dict[str, Any]]:
    """Return the services of a lab as data, with what their administrator needs."""
    LabSpec.load(lab)
    return [_service_status(record) for record in read_records(lab).values()]


def _service_status(record: ServiceRecord) -> dict[str, Any]:
    kind, processes = find_service(record.name), _service_processes(record)
    return {
        "lab": record.lab,
        "name": record.name,
        "program": kind.title,
        "url": record.url,
        "environment": kind.environment(record),
        "ready": bool(processes) and is_answering(f"{record.url}{kind.health}", trust=record.trust),
        "pid": processes[0].pid if processes else None,
        "memory": _memory(processes[0]) if processes else 0,
        "log": str(record.log),
    }


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
