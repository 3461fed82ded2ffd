"""Faults made, listed and undone, in an order of steps that makes a crash at any point harmless.

The guardian runs before the record exists, and the record exists before anything is changed.

Some faults outlive a node: it comes back without what they had put into its namespaces, and gets it again. A node comes
back when the fault that ended it is cleared, or by `lab up`, which may be interrupted before it gets here. So each
fault checks what is missing, and the next `up` completes the work of the last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import orjson
import psutil

from fleet.errors import ConfigurationError, FleetError, NotFoundError, ResourceError
from fleet.lab.faults import guardian, records
from fleet.lab.faults.fault import ActiveFault, Fault, Owner
from fleet.lab.faults.registry import load_kind
from fleet.lab.programs import process

if TYPE_CHECKING:
    from fleet.lab.cluster.node import Node
    from fleet.lab.lab import Lab


def inject(lab: Lab, fault: Fault, *, owner: Owner | None = None, seconds: float | None = None) -> ActiveFault:
    """Make a fault, and return it with its id and facts.

    It ends with the process `owner`, or after so many seconds, or when a user clears it.
    """
    lab.spec.cluster(fault.cluster)
    kind = load_kind(fault.kind)
    if seconds is not None and not kind.lasts:
        raise ConfigurationError(f"{fault} happens once: there is no end to it", field="--for")
    sweep(lab)
    with records.lock_faults(lab.directory):
        now = time.time()
        until = None if seconds is None else now + seconds
        if not kind.lasts:  # it is this process that brings it to its end
            owner = process.identify(os.getpid())
        facts = orjson.loads(orjson.dumps(kind.resolve(lab, fault)))  # as the process that undoes it will read them
        active = ActiveFault(records.next_id(lab.directory), fault, facts, now, owner, until)
        if active.is_watched:
            guardian.ensure_guardian(lab.directory)
        records.save_fault(lab.directory, active)
        try:
            kind.begin(lab, active)
        except BaseException:
            _end_fault(lab, active)
            raise
        if not kind.lasts:
            _end_fault(lab, active)
    return active


def list_active(lab: Lab) -> list[ActiveFault]:
    """Return the faults that are active now, the oldest first."""
    sweep(lab)
    return records.read_faults(lab.directory)


def clear(lab: Lab, ids: Collection[int] | None = None) -> list[ActiveFault]:
    """Undo the faults with these ids, or all, and return them; the last one first, as one may be built on another.

    Raises NotFoundError for an id without a fault, and ResourceError when a fault could not be undone.
    """
    if not records.faults_directory(lab.directory).exists() and not ids:
        return []
    with records.lock_faults(lab.directory):
        faults = records.read_faults(lab.directory)
        missing = set(ids or ()) - {active.id for active in faults}
        if missing:
            active_ids = ", ".join(str(active.id) for active in faults) or "none"
            raise NotFoundError(
                f"there is no fault {min(missing)} in lab {lab.spec.name!r}", hint=f"active faults: {active_ids}"
            )
        return _end_all(lab, [active for active in faults if ids is None or active.id in ids])


def sweep(lab: Lab) -> list[ActiveFault]:
    """Undo the faults whose owner has ended or whose time is up, and return them.

    This is the guardian's work, done here in case the guardian was killed as well.
    """
    if not any(_is_over(active) for active in records.read_faults(lab.directory)):
        return []
    with records.lock_faults(lab.directory):
        return _end_all(lab, [active for active in records.read_faults(lab.directory) if _is_over(active)])


def _is_over(active: ActiveFault) -> bool:
    return active.is_over(time.time(), _is_alive)


def _is_alive(owner: Owner) -> bool:
    """Return whether an owner lives; a process that was killed is dead, also before its parent has reaped it."""
    try:
        return process.is_alive(owner) and psutil.Process(owner[0]).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end_all(lab: Lab, faults: list[ActiveFault]) -> list[ActiveFault]:
    """Undo faults and wait until all works again; one that cannot be undone does not keep the rest."""
    ended, failures = _run_each(_end_fault, lab, faults[::-1])
    _, late = _run_each(_settle_fault, lab, ended)
    if failures or late:
        raise ResourceError(
            "not undone: " + "; ".join(failures + late),
            hint=f"try again: `fleet lab fault clear --all --name {lab.spec.name}`; `fleet lab down` ends everything",
        )
    return faults


def _run_each(
    step: Callable[[Lab, ActiveFault], None], lab: Lab, faults: list[ActiveFault]
) -> tuple[list[ActiveFault], list[str]]:
    """Run a step for each fault; return the faults for which it succeeded, and the errors of the rest."""
    succeeded, failures = [], []
    for active in faults:
        try:
            step(lab, active)
            succeeded.append(active)
        except (FleetError, OSError) as error:
            failures.append(f"{active.id} ({active.fault}): {error}")
    return succeeded, failures


def _end_fault(lab: Lab, active: ActiveFault) -> None:
    load_kind(active.fault.kind).end(lab, active)
    records.delete_fault(lab.directory, active)


def _settle_fault(lab: Lab, active: ActiveFault) -> None:
    load_kind(active.fault.kind).settle(lab, active)


def renew_nodes(lab: Lab, nodes: Iterable[Node]) -> None:
    """Give nodes what they miss of the active faults. The caller holds the lock of the faults."""
    for active in records.read_faults(lab.directory):
        for node in nodes:
            if node.cluster.name == active.fault.cluster:
                load_kind(active.fault.kind).renew(lab, active, node.name)


def renew_all(lab: Lab) -> None:
    """Give all nodes what they miss of the active faults, after an `up` that may have started nodes.

    The lab's lock is not held any more: a command that clears faults waits for that one.
    """
    sweep(lab)  # those that are over shall not come back
    if not records.read_faults(lab.directory):
        return
    with records.lock_faults(lab.directory):
        renew_nodes(lab, [node for cluster in lab.spec.clusters for node in lab.nodes(cluster)])
