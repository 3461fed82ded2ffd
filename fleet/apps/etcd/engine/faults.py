"""Whether a member's data is lost for certain, and in whose words. What is not certain is no reason to act. Pure."""

from __future__ import annotations

import re

from fleet.apps.etcd.engine.observe import EtcdObservation, alarms_of
from fleet.kit.observe.world import complaints, container, is_crashing, is_leaving, last_words
from fleet.text import quote_output

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


def find_spoiled_data(observation: EtcdObservation, pod: str) -> str | None:
    """Say why the data of a settled or joining member is of no use, in etcd's words; None while there is any doubt."""
    member = observation.members.get(pod)
    corrupt = {f"{alarm.member_id:x}" for alarm in alarms_of(observation) if alarm.kind == "CORRUPT"}
    if member is not None and member in corrupt:
        return "etcd found its data corrupt"
    found, name = observation.world.pod(pod), observation.role.container
    if found is None or is_leaving(found) or pod in observation.states:
        return None
    if "running" in container(found, name).get("state", {}):
        return None
    words = last_words(found, name)
    complaint = complaints(words) or ("panic: unexpected fault in its database" if _OPENING.search(words) else "")
    unusable = _UNUSABLE.search(complaint) and not _OUT_OF_REACH.search(words)
    if _CERTAIN.search(complaint) or (is_crashing(found, name) and unusable):
        return f"it does not start: {quote_output(complaint)}"
    return None
