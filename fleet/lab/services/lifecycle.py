"""Start, stop and look at the services of a lab. Every verb can be repeated at any time; data stays until `down`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from fleet.errors import NotFoundError
from fleet.lab import process, residue
from fleet.lab import spec as specs
from fleet.lab.files import explained
from fleet.lab.lab import remove_orphans
from fleet.lab.launch import PATIENCE, launch, wait_until
from fleet.lab.locks import choosing, locked
from fleet.lab.process import Identity
from fleet.lab.services import address
from fleet.lab.services.ask import answers
from fleet.lab.services.forge import FORGE
from fleet.lab.services.kind import Service
from fleet.lab.services.record import Record, records
from fleet.lab.services.s3 import S3
from fleet.lab.spec import LabSpec

SERVICES = {kind.name: kind for kind in (FORGE, S3)}
GRACE = 10  # seconds for a service to end by itself
PATIENT = 20  # seconds for one that runs to say that it serves, before it counts as stuck


def find(name: str) -> Service:
    if name not in SERVICES:
        raise NotFoundError(f"there is no service {name!r}", hint=f"there are: {', '.join(SERVICES)}")
    return SERVICES[name]


def start(lab: str, names: Sequence[str], *, owner: Identity | None = None) -> list[Record]:
    """Have these services run in a lab, which is made if there is none; what serves already is left alone."""
    specs.check_name(lab, "lab")
    kinds = [find(name) for name in names]
    remove_orphans()
    programs = [kind.build() for kind in kinds]
    with explained("starting a service"), residue.whole_or_gone(lab):
        _have_lab(lab, owner)
        return [_converge(lab, kind, directory) for kind, directory in zip(kinds, programs, strict=True)]


def _have_lab(lab: str, owner: Identity | None) -> None:
    try:
        LabSpec.load(lab)
    except NotFoundError:
        LabSpec(lab, (), owner=owner).save()


def _converge(lab: str, kind: Service, programs: Path) -> Record:
    record = _recorded(lab, kind)
    started = []
    if not _serves(record, kind):
        _end(record, grace=0)  # what is left of one that was killed, or does not answer any more
        address.lay(lab, record.address)
        started = [launch(specs.directory(lab), kind.program(record, programs))]
        wait_until(lambda: answers(f"{record.url}{kind.health}", trust=record.trust), started, lambda: _late(record))
    kind.complete(record, programs)
    return record


def _recorded(lab: str, kind: Service) -> Record:
    """What was decided at its first start, which this may be."""
    known = records(lab)
    if kind.name in known:
        record = replace(known[kind.name], scheme=kind.scheme)
        if record != known[kind.name]:  # of an older version
            record.save()
        return record
    with choosing():
        place = next((record.address for record in known.values()), "") or address.choose()
        record = Record(lab, kind.name, place, address.choose_port(place, kind.port), *kind.credentials(), kind.scheme)
        record.save()
    return record


def _serves(record: Record, kind: Service) -> bool:
    return bool(_processes(record)) and answers(f"{record.url}{kind.health}", timeout=PATIENT, trust=record.trust)


def _processes(record: Record) -> list[psutil.Process]:
    """Of a service and all that it started, the oldest first."""
    return sorted(process.of_role(specs.directory(record.lab), record.role), key=lambda one: one.create_time())


def _late(record: Record) -> str:
    end = process.tail(record.log)
    return f"{record.name} does not answer at {record.url} after {PATIENCE} s; the end of {record.log}:\n{end}"


def stop(lab: str, names: Sequence[str] = ()) -> list[str]:
    """End services, all of them if none is named; what they keep stays. Returns those that ran."""
    LabSpec.load(lab)  # says it when there is no such lab
    wanted = {find(name).name for name in names} or set(SERVICES)
    with locked(lab):
        running = [one for one in records(lab).values() if one.name in wanted and _processes(one)]
        for record in running:
            _end(record, grace=GRACE)
    return [record.name for record in running]


def _end(record: Record, grace: float) -> None:
    """As a service manager does: ask the first, wait, then by force; nothing that it started stays."""
    found = _processes(record)
    with contextlib.suppress(psutil.Error):
        if found and grace:
            found[0].terminate()
            psutil.wait_procs(found, timeout=grace)
    while left := _processes(record):
        for one in left:
            with contextlib.suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(left, timeout=1)


def status(lab: str) -> list[dict[str, Any]]:
    """The services of a lab as data, with what their administrator needs."""
    LabSpec.load(lab)
    return [_status(record) for record in records(lab).values()]


def _status(record: Record) -> dict[str, Any]:
    kind, found = find(record.name), _processes(record)
    return {
        "lab": record.lab,
        "name": record.name,
        "program": kind.title,
        "url": record.url,
        "environment": kind.environment(record),
        "ready": bool(found) and answers(f"{record.url}{kind.health}", trust=record.trust),
        "pid": found[0].pid if found else None,
        "memory": _memory(found[0]) if found else 0,
        "log": str(record.log),
    }


def _memory(one: psutil.Process) -> int:
    try:
        return int(one.memory_info().rss)
    except psutil.Error:
        return 0
