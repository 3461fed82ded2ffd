"""What has to be remembered about the members of an etcd, and the step each is at. It lies in the members' ConfigMap.

A member's file decides what an empty volume may become: founding members begin a cluster together, a joining one is
let in as the learner that was announced, and a settled one must have data. So a volume that is lost can neither found
a second cluster under the old name nor come back with the identity of a member whose promises it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

LEDGER = "fleet.dev/members"  # the annotation of the members' ConfigMap
MOST_PLACES = 64
Phase = Literal["founding", "joining", "settled", "forced"]


@dataclass(frozen=True, slots=True)
class Place:
    """One pod's."""

    phase: Phase
    member: str = ""  # etcd's id, in its hexadecimal form
    cluster: tuple[str, ...] = ()  # the pods that a founding or joining member finds as members, itself included
    spoiled: str = ""  # the UID of a claim whose data is of no use: it goes before another member starts here
    known_as: tuple[str, ...] = ()  # `cluster` as `pod=URL`, where peer URLs may not all be of one pattern


@dataclass(frozen=True, slots=True)
class Ledger:
    identity: str = ""  # etcd's cluster id; while it is empty the founders have not met yet
    places: Mapping[str, Place] = field(default_factory=dict)
    failed: str = ""  # the hash of a template that members did not start with: not tried again
    failure: str = ""  # why
    survivor: str = ""  # the pod from which a cluster without a majority is made to go on
    layout: Mapping[str, Any] = field(default_factory=dict)  # of an etcd that others set up: see `layout`

    def with_place(self, pod: str, place: Place) -> Ledger:
        return replace(self, places={**self.places, pod: place})

    def without(self, pod: str) -> Ledger:
        return replace(self, places={name: place for name, place in self.places.items() if name != pod})

    def write(self) -> str:
        found = asdict(self)
        if not self.layout:
            del found["layout"]
        for place in found["places"].values():
            if not place["known_as"]:
                del place["known_as"]
        return json.dumps(found, sort_keys=True)


def founders(pods: tuple[str, ...]) -> Ledger:
    return Ledger(places={pod: Place("founding", cluster=pods) for pod in pods})


def read(text: str) -> Ledger:
    """Raises ValueError for what is none, or more than any etcd has: it lies where people of the namespace write."""
    found: dict[str, Any] = json.loads(text)
    if len(found["places"]) > MOST_PLACES:
        raise ValueError(f"a ledger of {len(found['places'])} members: {MOST_PLACES} is the most")
    lists = ("cluster", "known_as")
    places = {
        pod: Place(**{**place, **{name: tuple(place.get(name, ())) for name in lists}})
        for pod, place in found["places"].items()
    }
    return Ledger(**{**found, "places": places})
