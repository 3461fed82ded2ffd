"""What is broken and can be mended: corrupt data, a full database, members that are lost for certain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.apps.etcd.engine.adoption import late
from fleet.apps.etcd.engine.faults import spoiled
from fleet.apps.etcd.engine.join import joined
from fleet.apps.etcd.engine.leave import removed
from fleet.apps.etcd.engine.seen import Seen, ledger_of
from fleet.kit import names
from fleet.kit.order import first
from fleet.kit.step import Act, Decision, State, blocked, step


def corrupted(seen: Seen, as_others_had_them: Sequence[str]) -> Decision | None:
    """etcd stops writes when members' data differ: who has the wrong data goes, and then what was said against it."""
    found = [alarm.member_id for alarm in seen.alarms if alarm.kind == "CORRUPT"]
    if not found:
        return None
    if 0 in found:
        return blocked(
            "Corrupt",
            "etcd found that members differ in their data, not who is wrong, and takes no writes. Compare them, remove "
            "the member that is wrong and disarm the alarm, or restore a backup into a new app",
        )
    decision = irreparable(seen, as_others_had_them) or repaired(seen)
    gone = sorted(set(found) - {member.id for member in seen.members or ()})
    if decision is not None or not gone:
        return decision
    note = (
        f"the member whose data was corrupt has left ({', '.join(f'{one:x}' for one in gone)}): writes are let in again"
    )
    return step(
        State.DEGRADED, "Disarming", note, *(Act("disarm", {"member": one}, "AlarmDisarmed", note) for one in gone)
    )


def _no_space(seen: Seen) -> bool:
    return any(alarm.kind == "NOSPACE" for alarm in seen.alarms)


def mended_though_full(seen: Seen) -> Decision | None:
    """What is full of live data stays full until people do something, and members are lost meanwhile as ever."""
    if not _no_space(seen) or not seen.crowded or irreparable(seen, late(seen)) is not None:
        return None
    mending = first((lambda: repaired(seen), lambda: removed(seen), lambda: joined(seen)))
    return mending if mending is not None and mending.steps else None


def space(seen: Seen) -> Decision | None:
    """etcd stops writes when its quota is full: old revisions go, the files are made smaller, and it goes on."""
    if not _no_space(seen):
        return None
    message = "the database has reached its quota; old revisions are compacted away"
    return step(State.DEGRADED, "NoSpace", message, Act("free-space", {}, "NoSpace", message), after=5.0)


def irreparable(seen: Seen, as_others_had_them: Sequence[str]) -> Decision | None:
    lost = {pod: reason for pod in as_others_had_them if (reason := spoiled(seen, pod)) is not None}
    if not lost:
        return None
    told = "; ".join(f"{pod}: {reason}" for pod, reason in lost.items())
    return blocked("CannotReplace", f"{told}. Members that others set up cannot be replaced before their first roll")


def repaired(seen: Seen) -> Decision | None:
    """A member whose data is lost for certain is taken out, and comes back as a new one with an empty volume."""
    for pod in sorted(ledger_of(seen).places, key=names.ordinal):
        member = seen.by_pod.get(pod)
        reason = spoiled(seen, pod)
        if reason is None or member is None:
            continue
        if f"{member.id:x}" != ledger_of(seen).places[pod].member or not member.started:
            continue  # it is the new one already; what its old pod says does not count
        if not member.is_learner and not _can_be_replaced(seen, pod):
            return blocked("CannotReplace", f"{pod} must be replaced ({reason}), but the others are no majority")
        note = f"{pod} is replaced: {reason}"
        return step(State.DEGRADED, "Replacing", note, Act("remove", {"member": member.id}, "MemberReplaced", note))
    return None


def _can_be_replaced(seen: Seen, pod: str) -> bool:
    """Whether the others are a majority. While an alarm is on, etcd calls every member unhealthy, and their kubelets
    call all pods unready for it: then it counts what members say, and those that are to be replaced count for nothing.
    """
    if not seen.alarms:
        return seen.can_lose(pod)
    others = [one for one in seen.voters if one != pod and seen.in_step(one) and seen.pod_stays(one)]
    return len([one for one in others if spoiled(seen, one) is None]) > len(seen.voters) // 2
