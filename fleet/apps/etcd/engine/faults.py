"""etcd's words for data that is lost for certain. Pure."""

from __future__ import annotations

import re

from fleet.apps.etcd.engine.observe import EtcdObservation, alarms_of
from fleet.kit.observe.lost_data import LastWords, find_lost_data

_WORDS = LastWords(
    # Packages name themselves at the beginning of an error ("wal: crc mismatch"), where a path before a system's error
    # only ends so ("open …/member/wal: permission denied").
    unusable=re.compile(
        r"couldn't find local name|has been permanently removed|already been bootstrapped|member count is unequal|"
        r"(?<![\w./-])(?-i:walpb|wal|snap|proto): |crc mismatch|failed to (read|recover|verify) .*(wal|snap|db)|"
        r"invalid database|database corruption|unexpected (EOF|fault)|freelist|bolt|"
        r"no such file or directory.*(wal|snap)|"
        r"tocommit\(\d+\) is out of range|failed to find \[SnapshotIndex|"
        r"cannot use none as id|state\.commit \d+ is out of range|file size too small|checksum error|"
        r"freepages: |page expected to be",
        re.IGNORECASE,
    ),
    # The first is what the file of a member that must have data makes etcd say without any (see `fleet.kit.members`),
    # the second is what the others say to one that they have taken out.
    certain=re.compile(r"couldn't find local name|has been permanently removed", re.IGNORECASE),
    panic=re.compile(r"^go\.etcd\.io/bbolt\.Open\(", re.MULTILINE),
    panic_words="panic: unexpected fault in its database",
)


def find_spoiled_data(observation: EtcdObservation, pod: str) -> str | None:
    """Say why the data of a settled or joining member is of no use, in etcd's words; None while there is any doubt."""
    member = observation.members.get(pod)
    corrupt = {f"{alarm.member_id:x}" for alarm in alarms_of(observation) if alarm.kind == "CORRUPT"}
    if member is not None and member in corrupt:
        return "etcd found its data corrupt"
    return find_lost_data(observation, pod, _WORDS)
