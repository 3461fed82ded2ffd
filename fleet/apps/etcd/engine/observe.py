"""Asks the members of an etcd how they are, all at once and within a few seconds. It changes nothing."""

from __future__ import annotations

import asyncio

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.protocol import Endpoint, Member, MemberStatus, Refused, Unreachable
from fleet.apps.etcd.engine.protocol import Etcd as Protocol
from fleet.apps.etcd.engine.seen import Seen
from fleet.apps.etcd.kept import labels
from fleet.apps.etcd.spec import Etcd
from fleet.kit import members as ledgers
from fleet.kit import names as kit_names
from fleet.kit.members import LEDGER, Ledger
from fleet.kit.world import Object, World, address


def endpoint(app: Etcd, world: World, pod: str) -> Endpoint | None:
    found = address(world.pod(pod))
    return Endpoint(found, names.client_port(app), names.host(app, pod)) if found else None


def ledger_in(app: Etcd, world: World) -> Ledger | None:
    """Of the app as it is. One that was given back has no labels of ours, and what it says is of then."""
    own: Object = (world.get("ConfigMap", kit_names.members_map(app)) or {}).get("metadata", {})
    ours = labels(app).items() <= (own.get("labels") or {}).items()
    text = (own.get("annotations") or {}).get(LEDGER) if ours else None
    return ledgers.read(text) if text else None


async def observe(app: Etcd, world: World, etcd: Protocol | None) -> Seen:
    ledger = ledger_in(app, world)
    blank = Seen(app, world, ledger)
    if etcd is None:
        return blank
    pods = {*blank.pods, *(ledger.places if ledger else ())}
    places = {pod: place for pod in pods if (place := endpoint(app, world, pod)) is not None}
    answers = await asyncio.gather(*(_ask(etcd, place) for place in places.values()))
    statuses = {pod: one for pod, one in zip(places, answers, strict=True) if isinstance(one, MemberStatus)}
    silent = {pod: one for pod, one in zip(places, answers, strict=True) if isinstance(one, str)}
    members = await _agreed(etcd, [places[pod] for pod, status in statuses.items() if _can_be_asked(status)])
    alarms = tuple({alarm for status in statuses.values() for alarm in status.alarms})
    return Seen(app, world, ledger, statuses, silent, members, alarms)


async def _ask(etcd: Protocol, place: Endpoint) -> MemberStatus | str:
    try:
        return await etcd.status(place)
    except Unreachable as problem:
        return problem.why
    except Refused as problem:
        return problem.reason


def _can_be_asked(status: MemberStatus) -> bool:
    return bool(status.leader) and not status.is_learner


async def _agreed(etcd: Protocol, places: list[Endpoint]) -> tuple[Member, ...] | None:
    """The first list that a majority stands behind."""
    for place in places:
        try:
            return await etcd.members(place)
        except (Unreachable, Refused):
            continue
    return None
