"""Whether a member's data is lost for certain, and in whose words. What is not certain is no reason to act. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet.apps.etcd.engine.seen import Seen
from fleet.kit.roll import under_way
from fleet.kit.stateful_set import last_written
from fleet.kit.step import State
from fleet.kit.volumes import hosts
from fleet.kit.world import (
    cannot_start,
    complaints,
    container,
    is_crashing,
    is_leaving,
    last_words,
    when,
    why_not_started,
)
from fleet.text import quote_output

PATIENCE = 30.0  # seconds that a node has to be known again, with its disks
SETTLING = 120.0  # seconds that a member has to become ready after the operator had its pod started
# What says that data is of no use, in etcd's words. Packages name themselves at the beginning of an error ("wal: crc
# mismatch"), where a path before a system's error only ends so ("open …/member/wal: permission denied").
_UNUSABLE = re.compile(
    r"couldn't find local name|has been permanently removed|already been bootstrapped|member count is unequal|"
    r"(?<![\w./-])(?-i:walpb|wal|snap|proto): |crc mismatch|failed to (read|recover|verify) .*(wal|snap|db)|"
    r"invalid database|database corruption|unexpected (EOF|fault)|freelist|bolt|no such file or directory.*(wal|snap)|"
    r"tocommit\(\d+\) is out of range|failed to find \[SnapshotIndex|"
    r"cannot use none as id|state\.commit \d+ is out of range|file size too small|checksum error|"
    r"freepages: |page expected to be",
    re.IGNORECASE,
)
# What says that data could not be got at, whatever else is said: it may be as good as ever.
_OUT_OF_REACH = re.compile(
    r"no space left|quota exceeded|permission denied|operation not permitted|input/output error|already locked|"
    r"too many open files|read-only file system|temporarily unavailable|device or resource busy|"
    r"cannot allocate memory|out of memory|file too large|stale (nfs )?file handle|not connected|"
    r"structure needs cleaning|no such device|interrupted system call|connection timed out",
    re.IGNORECASE,
)
# These need no second try: the first is what the file of a member that must have data makes etcd say without any (see
# `fleet.kit.members`), the second is what the others say to one that they have taken out.
_CERTAIN = re.compile(r"couldn't find local name|has been permanently removed", re.IGNORECASE)
_OPENING = re.compile(r"^go\.etcd\.io/bbolt\.Open\(", re.MULTILINE)  # of a panic so long that its words were cut off


def spoiled(seen: Seen, pod: str) -> str | None:
    """Why the data of a settled or joining member is of no use, or None."""
    member = seen.by_pod.get(pod)
    if member is not None and any(alarm.kind == "CORRUPT" and alarm.member_id == member.id for alarm in seen.alarms):
        return "etcd found its data corrupt"
    claim = seen.claim_of(pod)
    if claim is not None and claim.get("status", {}).get("phase") == "Lost":
        return "its volume is lost"
    found = seen.world.pod(pod)
    if found is None or is_leaving(found) or pod in seen.statuses:
        return None
    if "running" not in container(found, seen.container).get("state", {}):
        words = last_words(found, seen.container)
        complaint = complaints(words) or ("panic: unexpected fault in its database" if _OPENING.search(words) else "")
        unusable = _UNUSABLE.search(complaint) and not _OUT_OF_REACH.search(words)
        if _CERTAIN.search(complaint) or (is_crashing(found, seen.container) and unusable):
            return f"it does not start: {quote_output(complaint)}"
    volume = seen.world.volume(claim) if claim is not None and found["spec"].get("nodeName") is None else None
    known, there = seen.world.nodes, hosts(volume) if volume is not None else None
    if known is not None and there is not None and not there & known and seen.world.age(found) > PATIENCE:
        return f"its volume was on {', '.join(sorted(there))}, which is gone"
    return None


def describe(seen: Seen, pod: str) -> str:
    """Why a member is not well, for people."""
    found = seen.world.pod(pod)
    if found is None:
        return "its pod is not there"
    if is_leaving(found):
        return "its pod is going away"
    if reason := why_not_started(found, seen.container):
        return reason
    if pod in seen.silent:
        return seen.silent[pod]
    if pod not in seen.statuses:
        return "its container starts"
    member = seen.by_pod.get(pod)
    if member is None:
        return "it is not on the list of members"
    if member.is_learner:
        return "it catches up"
    return "it is not ready" if seen.statuses[pod].leader else "it knows no leader"


def unwell(seen: Seen) -> str:
    """Who is not well and why; "" when all are."""
    return "; ".join(f"{pod}: {describe(seen, pod)}" for pod in unwell_pods(seen))


def is_settling(seen: Seen, pod: str) -> bool:
    """Whether a member is not well only because the operator has just had its pod started: it joins, or a roll restarts
    it. What starts for another reason, does not start at all or takes too long is not."""
    parent, found = seen.stateful_set, seen.world.pod(pod)
    written = last_written(parent) if parent is not None else ""
    if parent is None or not written or (seen.world.now - when(written)).total_seconds() > SETTLING:
        return False
    if found is None or is_leaving(found):
        return under_way(parent)  # the roll restarts it
    return not cannot_start(found, seen.container) and seen.world.age(found) < SETTLING


def state_of(seen: Seen, pods: Iterable[str]) -> State:
    """The state of an app of which these members are not well."""
    return State.PROGRESSING if all(is_settling(seen, pod) for pod in pods) else State.DEGRADED


def unwell_pods(seen: Seen) -> list[str]:
    return [pod for pod in seen.pods if not seen.healthy(pod)]
