"""What has to be remembered about the members of an app, and the phase of each. It lies in the members' ConfigMap.

The phase in a member's record decides what an empty volume may become, because the member's file follows from it:
founding members begin a cluster together, a joining one is let in as the member that was announced, and a settled one
must have data. So a volume that is lost can neither found a second cluster under the old name nor come back with the
identity of a member whose promises it does not know.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

LEDGER = "fleet.dev/members"  # the annotation of the members' ConfigMap
BUSY = "fleet.dev/busy"  # another one: a release that does not know it reads the ledger all the same
MOST_RECORDS = 64
Phase = Literal["founding", "joining", "settled", "forced"]
_OPTIONAL = ("known_as", "role")  # of a record: left out where they say nothing, as before they existed


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What is remembered of the member in one pod. The stored form has these names."""

    phase: Phase
    member: str = ""  # the engine's id of it, as text
    cluster: tuple[str, ...] = ()  # the pods that a founding or joining member finds as members, itself included
    spoiled: str = ""  # the UID of a claim whose data is of no use: it goes before another member starts here
    known_as: tuple[str, ...] = ()  # `cluster` as the engine writes it, where addresses may not all be of one pattern
    role: str = ""  # the role of its pod; "" is the first


@dataclass(frozen=True, slots=True)
class Ledger:
    """The records of all members, and what else must outlive a reconcile. The stored form has these names."""

    identity: str = ""  # the cluster's id; while it is empty the founding members have not met yet
    places: Mapping[str, MemberRecord] = field(default_factory=dict)  # by pod
    failed: str = ""  # the hash of a template that members did not start with: not tried again
    failure: str = ""  # why
    survivor: str = ""  # the pod from which a cluster without a majority is made to go on
    layout: Mapping[str, Any] = field(default_factory=dict)  # of an app that a user set up without fleet
    busy: Mapping[str, str] = field(default_factory=dict)  # by pod, when a member was last seen to recover in a roll

    def with_place(self, pod: str, record: MemberRecord) -> Ledger:
        return replace(self, places={**self.places, pod: record})

    def without(self, pod: str) -> Ledger:
        return replace(self, places={name: record for name, record in self.places.items() if name != pod})

    def of_role(self, role: str) -> dict[str, MemberRecord]:
        """Return the records of one role, by pod."""
        return {pod: record for pod, record in self.places.items() if record.role == role}

    def write(self) -> str:
        """Return the text of the annotation."""
        data = asdict(self)
        del data["busy"]
        if not self.layout:
            del data["layout"]
        for record in data["places"].values():
            for name in _OPTIONAL:
                if not record[name]:
                    del record[name]
        return json.dumps(data, sort_keys=True)

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations that hold all of it."""
        return {LEDGER: self.write(), **({BUSY: json.dumps(dict(self.busy), sort_keys=True)} if self.busy else {})}


def founders(pods: Sequence[str], role: str = "") -> Ledger:
    """Return the first ledger: these pods begin a cluster together."""
    return Ledger(places={pod: MemberRecord("founding", cluster=tuple(pods), role=role) for pod in pods})


def read(text: str) -> Ledger:
    """Return the ledger that `write` wrote.

    Raises ValueError for a text that is none, or that has more members than any app: a user of the namespace may have
    written it.
    """
    data: dict[str, Any] = json.loads(text)
    if len(data["places"]) > MOST_RECORDS:
        raise ValueError(f"a ledger of {len(data['places'])} members: {MOST_RECORDS} is the most")
    lists = ("cluster", "known_as")
    places = {
        pod: MemberRecord(**{**record, **{name: tuple(record.get(name, ())) for name in lists}})
        for pod, record in data["places"].items()
    }
    return Ledger(**{**data, "places": places})


def read_annotations(annotations: Mapping[str, str]) -> Ledger | None:
    """Return the ledger that is in the annotations of a ConfigMap; None where there is none. Raises as `read`."""
    text, busy = annotations.get(LEDGER), annotations.get(BUSY)
    if not text:
        return None
    return replace(read(text), busy=_read_times(busy)) if busy else read(text)


def _read_times(text: str) -> dict[str, str]:
    """Return times by pod. One that is none makes a ValueError, as all that cannot be read."""
    found = {str(pod): str(time) for pod, time in dict(json.loads(text)).items()}
    for time in found.values():
        if datetime.datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"{time} is of no time zone")
    return found
