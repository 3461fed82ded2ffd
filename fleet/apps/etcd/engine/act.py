"""Requests to etcd that change something. Each may be repeated: what is done already is no error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.observe import FULL, EtcdObservation, alarms_of, endpoint, statuses_of
from fleet.apps.etcd.engine.protocol import Alarm, Endpoint, Etcd, MemberStatus, Refused
from fleet.apps.etcd.files import quota
from fleet.errors import ResourceError
from fleet.kit.protocol.turns import ask_in_turn, pods_to_ask
from fleet.kit.step import Act, NotYetError


async def act(etcd: Etcd, observation: EtcdObservation, step: Act) -> None:
    try:
        await _act(etcd, observation, step)
    except Refused as problem:
        if problem.unhealthy or problem.too_many_learners:
            raise NotYetError("etcd changes its list only when its members have been in touch for a while") from problem
        raise


async def _act(etcd: Etcd, observation: EtcdObservation, step: Act) -> None:
    match step.what:
        case "announce":
            await _add(etcd, observation, names.peer_urls(observation.app, step.arguments["pod"]))
        case "readdress":
            urls = tuple(step.arguments["peer_urls"].split(","))
            await _in_turn(observation, lambda place: etcd.update_peer_urls(place, step.arguments["member"], urls))
        case "drain":
            await _remove(etcd, observation, int(step.arguments["member"], 16))
        case "vote":
            await _promote(etcd, observation, int(step.arguments["member"], 16))
        case "lead":
            await _lead(etcd, observation, step.arguments["pod"])
        case "defragment":
            await _defragment(etcd, observation, step.arguments["pod"])
        case "free-space":
            await _free_space(etcd, observation)
        case "disarm":
            await etcd.disarm(_members(observation)[0], Alarm(step.arguments["member"], "CORRUPT"))
        case "downgrade":
            await _allow_downgrade(etcd, observation, step.arguments["version"])
        case "no-downgrade":
            await _take_back_downgrade(etcd, observation)
        case other:
            raise ResourceError(f"etcd has no act {other!r}")


def _members(observation: EtcdObservation) -> list[Endpoint]:
    """Return whom to ask, in order. Raises ResourceError if there is nobody."""
    app, world = observation.app, observation.world
    places = [place for pod in pods_to_ask(observation) if (place := endpoint(app, world, pod)) is not None]
    if not places:
        raise ResourceError("no member answers")
    return places


async def _in_turn(observation: EtcdObservation, change: Callable[[Endpoint], Awaitable[object]]) -> None:
    """Ask for a change of the list, until one member does not find its cluster unhealthy."""
    await ask_in_turn(_members(observation), change, lambda refusal: isinstance(refusal, Refused) and refusal.unhealthy)


async def _add(etcd: Etcd, observation: EtcdObservation, peer_urls: tuple[str, ...]) -> None:
    try:
        await _in_turn(observation, lambda place: etcd.add_learner(place, *peer_urls))
    except Refused as problem:
        if not problem.already_there:
            raise


async def _remove(etcd: Etcd, observation: EtcdObservation, member: int) -> None:
    try:
        await _in_turn(observation, lambda place: etcd.remove(place, member))
    except Refused as problem:
        if not problem.not_found:
            raise


async def _promote(etcd: Etcd, observation: EtcdObservation, member: int) -> None:
    try:
        await _in_turn(observation, lambda place: etcd.promote(place, member))
    except Refused as problem:
        if problem.learner_not_ready:
            raise NotYetError("it is not in sync with the leader") from problem
        if not problem.not_learner:
            raise


async def _lead(etcd: Etcd, observation: EtcdObservation, pod: str) -> None:
    leader = endpoint(observation.app, observation.world, observation.leader) if observation.leader else None
    if leader is None:
        raise ResourceError("no member leads: leadership cannot be moved")
    try:
        await etcd.move_leader(leader, int(observation.members[pod], 16))
    except Refused as problem:
        if problem.not_leader:
            raise NotYetError(f"{observation.leader} does not lead any more") from problem
        raise


async def _defragment(etcd: Etcd, observation: EtcdObservation, pod: str) -> None:
    """Have one member make its file smaller. It answers nothing meanwhile."""
    place = endpoint(observation.app, observation.world, pod)
    if place is None:
        raise NotYetError(f"{pod} has no address")
    await etcd.defragment(place)


async def _free_space(etcd: Etcd, observation: EtcdObservation) -> None:
    """Compact to now, defragment one member, the leader last, and let writes in again after the last of them.

    One in a pass: a member answers nothing meanwhile, for minutes if it is large, and a pass has its end. What is free
    in its file says whether it is done.
    """
    asked = _members(observation)[0]
    try:
        await etcd.compact(asked, await etcd.revision(asked))
    except Refused as problem:
        if not problem.compacted:
            raise
    used = (await etcd.status(asked)).db_size_in_use
    limit = quota(observation.app)
    if used > FULL * limit:
        raise ResourceError(
            f"the database is full with live data: {used} of {limit} bytes",
            hint="delete keys, or raise config.quota (and storage) in git",
        )
    worn = []
    for pod in sorted(observation.states, key=lambda one: (one == observation.leader, one)):
        if (place := endpoint(observation.app, observation.world, pod)) is not None and _is_worn(
            await etcd.status(place), limit
        ):
            worn.append(place)
    if worn:
        await etcd.defragment(worn[0])
    if len(worn) > 1:
        return
    for alarm in alarms_of(observation):
        if alarm.kind == "NOSPACE":
            await etcd.disarm(asked, alarm)


def _is_worn(status: MemberStatus, limit: int) -> bool:
    """Tell whether its file is larger than what is in it by so much that it matters to the quota."""
    return status.db_size > FULL * limit or status.db_size - status.db_size_in_use > (1 - FULL) * limit


async def _allow_downgrade(etcd: Etcd, observation: EtcdObservation, version: str) -> None:
    if any(status.downgrading_to for status in statuses_of(observation).values()):
        return
    try:
        await etcd.downgrade(_members(observation)[0], "enable", version)
    except Refused as problem:
        if not problem.unsupported and "in progress" not in problem.reason:
            raise


async def _take_back_downgrade(etcd: Etcd, observation: EtcdObservation) -> None:
    try:
        await etcd.downgrade(_members(observation)[0], "cancel", "")
    except Refused as problem:
        if not problem.no_downgrade:
            raise
