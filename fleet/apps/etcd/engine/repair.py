"""What is wrong with an etcd and can be mended: corrupt data, a full database, a downgrade that nobody wants. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.apps.etcd.engine.observe import EtcdObservation, alarms_of, is_crowded, members_of, statuses_of
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.convergence import late
from fleet.kit.decide.join import admit_members
from fleet.kit.decide.leave import scale_in
from fleet.kit.decide.replace import refuse_to_replace, replace_member
from fleet.kit.observe.answers import Answers
from fleet.kit.order import first
from fleet.kit.step import Act, Decision, State, blocked, step
from fleet.model.types import release


def replace_corrupt(
    observation: EtcdObservation, answers: Answers[Etcd], as_others_had_them: Sequence[str]
) -> Decision | None:
    """Replace the member whose data is wrong, and take the alarm back then: etcd stops writes when members' data
    differ."""
    found = [alarm.member_id for alarm in alarms_of(observation) if alarm.kind == "CORRUPT"]
    if not found:
        return None
    if 0 in found:
        return blocked(
            "Corrupt",
            "etcd found that members differ in their data, not who is wrong, and takes no writes. Compare them, remove "
            "the member that is wrong and disarm the alarm, or restore a backup into a new app",
        )
    decision = refuse_to_replace(observation, answers, as_others_had_them) or replace_member(observation, answers)
    gone = sorted(set(found) - {member.id for member in members_of(observation) or ()})
    if decision is not None or not gone:
        return decision
    note = (
        f"the member whose data was corrupt has left ({', '.join(f'{one:x}' for one in gone)}): writes are let in again"
    )
    return step(
        State.DEGRADED, "Disarming", note, *(Act("disarm", {"member": one}, "AlarmDisarmed", note) for one in gone)
    )


def _no_space(observation: EtcdObservation) -> bool:
    return any(alarm.kind == "NOSPACE" for alarm in alarms_of(observation))


def mend_though_full(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """Go on to mend members of what is full. What is full of live data stays full until people do something, and
    members are lost meanwhile as ever."""
    if (
        not _no_space(observation)
        or not is_crowded(observation)
        or refuse_to_replace(observation, answers, late(observation)) is not None
    ):
        return None
    mending = first(
        (
            lambda: replace_member(observation, answers),
            lambda: scale_in(observation, answers),
            lambda: admit_members(observation, answers),
        )
    )
    return mending if mending is not None and mending.steps else None


def free_space(observation: EtcdObservation) -> Decision | None:
    """Drop old revisions and make the files smaller: etcd stops writes when its quota is full."""
    if not _no_space(observation):
        return None
    message = "the database has reached its quota; old revisions are compacted away"
    return step(State.DEGRADED, "NoSpace", message, Act("free-space", {}, "NoSpace", message), after=5.0)


def take_back_downgrade(observation: EtcdObservation) -> Decision | None:
    """Take back a downgrade that git does not want any more: with it allowed, etcd keeps to the older format."""
    targets = {status.downgrading_to for status in statuses_of(observation).values() if status.downgrading_to}
    if not any(release(target).series < release(observation.app.version).series for target in targets):
        return None
    note = f"the downgrade to {', '.join(sorted(targets))} is taken back: git says {observation.app.version}"
    return step(State.PROGRESSING, "Staying", note, Act("no-downgrade", {}, "DowngradeCancelled", note))
