"""What to do next about an app whose members stand alone, by concern and role, for the core to go through. Pure.

Nothing is remembered between reconciles but what the ledger and the StatefulSets hold, so that a reconcile may end
anywhere and the next one goes on from what it finds. The ledger is written before anything starts by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from fleet.kit import names, revive, roll
from fleet.kit.driver import Refusal
from fleet.kit.files import members_map, revisions_in_use
from fleet.kit.members import Ledger, MemberRecord, founders
from fleet.kit.order import Concern, Concerns
from fleet.kit.plain.observation import PlainObservation, RoleState
from fleet.kit.pods import stateful_set
from fleet.kit.stateful_set import changed
from fleet.kit.step import Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.template import mark_of
from fleet.kit.world import cannot_start, is_leaving, template_of, why_not_started
from fleet.model.app import App
from fleet.model.types import amount
from fleet.text import count_noun

A = TypeVar("A", bound=App)
Seen = PlainObservation[Any]
Role = RoleState[Any]
SETTLED_SECONDS = 10.0  # between looks at an app that is well
_OF_ROLES = ("Service", "PodDisruptionBudget")


def concerns(seen: Seen) -> Concerns:
    """Return what there is to do about each concern, for an app whose Services are in place."""
    made: Concerns = {
        Concern.FOUNDING: (lambda: begun(seen), lambda: filed(seen), lambda: started(seen), lambda: met(seen)),
        Concern.STAFF: _each(seen, staffed),
        Concern.ROLLBACK: _each(seen, failed_roll),
        Concern.REVIVAL: _each(seen, revived),
        Concern.LEAVING: (*_each(seen, left), lambda: departed(seen)),
        Concern.JOINING: (lambda: settled(seen),),
        Concern.TIDYING: (lambda: tidied(seen),),
        Concern.VOLUMES: _each(seen, grown),
        Concern.SCALE: _each(seen, scaled),
        Concern.ROLL: _each(seen, rolled),
        Concern.HEALTH: _each(seen, all_ready),
    }
    problems = [problem for problem in seen.barred if problem.field == "image"]
    if not problems:
        return made
    refused = blocked("NotAllowed", "; ".join(map(str, problems)))
    if not seen.is_founded:
        return {**made, Concern.ADOPTION: (lambda: refused,)}
    return {**made, Concern.REVIVAL: (), Concern.ROLL: (lambda: refused,)}  # members are looked after as they are


def at_rest(seen: Seen) -> Decision:
    """Return what is said of an app with nothing to do."""
    ready = ", ".join(state.describe(state.pods) for state in seen.roles)
    version = f" {seen.version}" if seen.version else ""
    verb = "is" if sum(len(state.pods) for state in seen.roles) == 1 else "are"
    return Decision(State.OK, "Healthy", f"{ready} of {seen.app_type.name}{version} {verb} ready", (), SETTLED_SECONDS)


def _each(seen: Seen, look: Callable[[Role], Decision | None]) -> tuple[Callable[[], Decision | None], ...]:
    """Return a look at each role that has a StatefulSet."""
    return tuple(lambda state=state: look(state) for state in seen.roles if state.found is not None)


def noted(seen: Seen, ledger: Ledger, reason: str = "", note: str = "") -> Apply:
    """Return the step that writes the ledger, and the files that follow from it."""
    present = seen.world.get("ConfigMap", names.members_map(seen.app)) or {}
    specs = [pod["spec"] for pod in seen.world.all("Pod")]
    specs += [found["spec"]["template"]["spec"] for found in seen.stateful_sets]
    folders = {role.files for role in seen.app_type.roles if role.files}
    used = revisions_in_use(folders, specs) if folders else set()
    return Apply(members_map(seen.app_type, seen.app, ledger, present.get("data") or {}, used), reason, note)


def _ledger(seen: Seen) -> Ledger:
    assert seen.ledger is not None  # noqa: S101 - `begun` comes first
    return seen.ledger


# The first time


def begun(seen: Seen) -> Decision | None:
    """Write the first ledger; without one, nothing starts."""
    name = names.members_map(seen.app)
    if seen.unreadable:
        return blocked("LedgerUnreadable", f"the ledger in the ConfigMap {name} cannot be read: {seen.unreadable}")
    if seen.ledger is not None:
        return None
    if seen.stateful_sets:  # there was one, and a user deleted it: members that are there have data
        records = {pod: MemberRecord("settled", role=state.role.name) for state in seen.roles for pod in state.pods}
        note = f"the ConfigMap {name} was gone; it is written again from the members that there are"
        again = Ledger(_identity(seen), records)
        return step(State.DEGRADED, "Remembering", note, noted(seen, again, "Remembering", note))
    places: dict[str, MemberRecord] = {}
    for state in seen.roles:
        places |= founders(state.names_of(state.count), state.role.name).places
    version = seen.app_type.version(seen.app)
    note = f"{seen.app_type.name} {version} with {count_noun(len(places), 'member')} is begun"
    return step(State.PROGRESSING, "Creating", note, noted(seen, Ledger(places=places), "Creating", note))


def filed(seen: Seen) -> Decision | None:
    """Write the members' files if they are not what the spec and the ledger say, before any pod asks for them."""
    present = seen.world.get("ConfigMap", names.members_map(seen.app)) or {}
    wanted = noted(seen, _ledger(seen))
    if wanted.manifest["data"] == (present.get("data") or {}):
        return None
    return step(State.PROGRESSING, "Configuring", "the members' files are written", wanted)


def started(seen: Seen) -> Decision | None:
    """Make the StatefulSets, also one that was deleted under running members: it takes the pods that are there."""
    for state in seen.roles:
        if state.found is not None or not state.count:
            continue
        ledger = _ledger(seen)
        if missing := [pod for pod in state.names_of(state.count) if pod not in ledger.places]:
            return _announced(state, missing)  # of a role that has come to the app since
        wanted = state.wanted_template()
        if isinstance(wanted, Refusal):
            return _no_way(wanted)
        count = max(names.ordinal(pod) + 1 for pod in state.records)
        manifest = stateful_set(seen.app_type, seen.app, wanted[0], replicas=count, role=state.role.name)
        if seen.is_founded:
            manifest["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = count
        note = f"{state.describe(list(state.records))} to start"
        return step(State.PROGRESSING, "Creating", note, Apply(manifest, "Started", f"{state.name} starts"))
    return None


def met(seen: Seen) -> Decision | None:
    """Wait until all first members are ready. They have no data yet, so a change of mind reaches them at once."""
    if seen.is_founded:
        return None
    waiting: list[str] = []
    is_stuck = False
    for state in seen.roles:
        wanted = state.wanted_template()
        if isinstance(wanted, Refusal):
            return _no_way(wanted)
        if (decision := _resized(state)) is not None:
            return decision
        if template_of(state.found) != mark_of(wanted[0]):
            manifest = changed(state.stateful_set, template=wanted[0], partition=0)
            return step(State.PROGRESSING, "Creating", f"{state.name} gets another template", Apply(manifest))
        for pod in state.unwell():
            found = seen.world.pod(pod)
            if found is not None and template_of(found) != template_of(state.found) and not is_leaving(found):
                return step(State.PROGRESSING, "Creating", f"{pod} is made anew", Delete(found))
            is_stuck = is_stuck or (found is not None and cannot_start(found))
            waiting.append(f"{pod}: {describe(seen, pod)}")
    if waiting:
        return wait(State.DEGRADED if is_stuck else State.PROGRESSING, "Creating", "; ".join(waiting))
    ledger = _ledger(seen)
    places = {pod: replace(record, phase="settled", cluster=()) for pod, record in ledger.places.items()}
    note = f"{count_noun(len(places), 'member')} started"
    written = replace(ledger, identity=_identity(seen), places=places)
    return step(State.PROGRESSING, "Creating", note, noted(seen, written, "Founded", note))


def _identity(seen: Seen) -> str:
    """Return what the app is known by from now on: an engine without a word about it has none of its own."""
    return str(seen.stateful_sets[0]["metadata"].get("uid") or seen.app.name)


def _no_way(refusal: Refusal) -> Decision:
    return blocked("NoWay", f"{refusal.reason}" + (f" ({refusal.hint})" if refusal.hint else ""))


def describe(seen: Seen, pod: str) -> str:
    """Return why a pod is not ready, in words for people."""
    found = seen.world.pod(pod)
    if found is None:
        return "it has no pod yet"
    return "its pod ends" if is_leaving(found) else why_not_started(found) or "it is not ready yet"


# Members


def staffed(state: Role) -> Decision | None:
    """Give members that stay their pods back, when a user made the StatefulSet smaller behind the operator's back."""
    known = [pod for pod, record in state.records.items() if record.phase == "settled"]
    count = 1 + max((names.ordinal(pod) for pod in known if names.ordinal(pod) < state.count), default=-1)
    if count <= state.replicas:
        return None
    note = f"the StatefulSet {state.name} had {count_noun(state.replicas, 'pod')} for {count_noun(count, 'member')}"
    manifest = changed(state.stateful_set, replicas=count, partition=count)
    return step(State.DEGRADED, "Restaffing", note, Apply(manifest, "Restaffing", note))


def scaled(state: Role) -> Decision | None:
    """Bring the number of pods to what git says: those that come are announced in the ledger before they start."""
    unwell = state.unwell()
    if state.count > state.replicas and unwell:
        return wait(_state_of(state, unwell), "Waiting", f"scale to {state.count} waits for {', '.join(unwell)}")
    return _resized(state)


def _resized(state: Role) -> Decision | None:
    if state.count == state.replicas:
        return None
    note = f"{state.name}: scale {state.replicas} → {state.count}"
    missing = [pod for pod in state.names_of(state.count) if pod not in state.records]
    if missing:
        return _announced(state, missing)
    manifest = changed(state.stateful_set, replicas=state.count, partition=state.count)
    return step(State.PROGRESSING, "Scaling", note, Apply(manifest, "Scaling", note))


def _announced(state: Role, pods: list[str]) -> Decision:
    ledger, note = _ledger(state.seen), f"{', '.join(pods)} to come"
    for pod in pods:
        peers = tuple(sorted({*state.records, *pods}, key=names.ordinal))
        ledger = ledger.with_place(pod, MemberRecord("joining", cluster=peers, role=state.role.name))
    return step(State.PROGRESSING, "Scaling", note, noted(state.seen, ledger))


def settled(seen: Seen) -> Decision | None:
    """Note that members which were to come are there."""
    ledger = _ledger(seen)
    joined = [
        pod
        for state in seen.roles
        for pod, record in state.records.items()
        if record.phase != "settled" and pod in state.pods and state.is_healthy(pod)
    ]
    if not joined:
        return None
    for pod in joined:
        ledger = ledger.with_place(pod, replace(ledger.places[pod], phase="settled", cluster=()))
    note = f"{', '.join(joined)} joined"
    return step(State.PROGRESSING, "Joined", note, noted(seen, ledger, "Joined", note))


def left(state: Role) -> Decision | None:
    """Forget members that left: their pods are gone, and their volumes go if the app says so."""
    leaving = [pod for pod in state.records if names.ordinal(pod) >= max(state.count, state.replicas)]
    for pod in sorted(leaving, key=names.ordinal, reverse=True):
        if state.seen.world.pod(pod) is not None:
            return wait(State.PROGRESSING, "Leaving", f"{pod} ends", 0.5)
        claims = [claim for _, claim in state.claims(pod) if claim is not None]
        if claims and _drops_volumes(state.seen.app):
            message, note = f"{pod} has left, and its volumes go", f"the volumes of {pod} go with it"
            gone = [Delete(claim, "VolumeDeleted", note) for claim in claims if not is_leaving(claim)]
            return step(State.PROGRESSING, "Leaving", message, *gone, after=0.2 if gone else 1.0)
        note = f"{pod} has left"
        return step(State.PROGRESSING, "Left", note, noted(state.seen, _ledger(state.seen).without(pod), "Left", note))
    return None


def departed(seen: Seen) -> Decision | None:
    """Forget records of a role whose StatefulSet is gone."""
    there = {state.role.name for state in seen.roles}
    gone = [pod for pod, record in _ledger(seen).places.items() if record.role not in there]
    if not gone:
        return None
    ledger = _ledger(seen)
    for pod in gone:
        ledger = ledger.without(pod)
    return step(State.PROGRESSING, "Left", f"{', '.join(gone)} left", noted(seen, ledger))


def _drops_volumes(app: App) -> bool:
    return getattr(getattr(app, "volume", None), "on_scale_in", "keep") == "delete"


def tidied(seen: Seen) -> Decision | None:
    """Remove what is left of roles that the app does not ask for any more, once their pods are gone."""
    gone = [
        state.stateful_set
        for state in seen.roles
        if not state.count and not state.replicas and not state.records and state.found is not None
    ]
    asked = {state.role.name for state in seen.roles}
    unasked = {role.name for role in seen.app_type.roles if role.name} - asked
    gone += [each for kind in _OF_ROLES for each in seen.world.all(kind) if _component(each) in unasked]
    gone = [each for each in gone if not is_leaving(each)]
    if not gone:
        return None
    return step(State.PROGRESSING, "Tidying", "what is over is removed", *map(Delete, gone))


def _component(found: dict[str, Any]) -> str:
    return str((found["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))


def grown(state: Role) -> Decision | None:
    """Have volumes become larger while members run, where the StorageClass can do that."""
    for pod in state.pods:
        for size, claim in state.claims(pod):
            if claim is None or is_leaving(claim):
                continue
            asked = claim["spec"]["resources"]["requests"]["storage"]
            if amount(asked) >= amount(size):
                continue
            own = {name: claim["metadata"][name] for name in ("name", "namespace", "uid")}
            spec = {"resources": {"requests": {"storage": size}}}
            manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": spec}
            note = f"the volume {own['name']} grows: {asked} → {size}"
            return step(State.PROGRESSING, "Growing", note, Apply(manifest, "VolumeGrows", note))
    return None


# Configuration and version


def rolled(state: Role) -> Decision | None:
    """Bring configuration and version to a role's members, one at a time."""
    current, ledger = state.rolling(), _ledger(state.seen)
    if isinstance(current, Refusal):
        return _no_way(current)
    if current.mark == ledger.failed:
        return blocked("RollFailed", f"{ledger.failure}. It is not tried again until the app is changed in git")
    decision = roll.advance(current)
    if decision is None and ledger.failed:
        return step(State.PROGRESSING, "Rolled", "", noted(state.seen, replace(ledger, failed="", failure="")))
    return decision


def failed_roll(state: Role) -> Decision | None:
    """Give up a template with which a member does not come back: it is noted, then taken back."""
    current, ledger = state.rolling(), _ledger(state.seen)
    if isinstance(current, Refusal):
        return None
    if ledger.failed and (decision := roll.take_back(current, ledger.failed)) is not None:
        return decision
    reason = roll.broken(current)
    if reason is None:
        return None
    failed = replace(ledger, failed=template_of(current.found), failure=f"{current.what}: {reason}")
    note = f"{current.what} is given up: {reason}"
    return step(State.DEGRADED, "RollFailed", note, noted(state.seen, failed, "RollFailed", note))


def revived(state: Role) -> Decision | None:
    """Bring members that cannot start what git says by now, before anything waits for them."""
    current = state.rolling()
    if isinstance(current, Refusal) or current.mark == _ledger(state.seen).failed:
        return None
    return revive.revived(current, [pod for pod in state.pods if revive.is_down(state.seen.world.pod(pod))])


def all_ready(state: Role) -> Decision | None:
    """Say which members are not ready."""
    unwell = state.unwell()
    if not unwell:
        return None
    words = "; ".join(f"{pod}: {describe(state.seen, pod)}" for pod in unwell)
    return wait(_state_of(state, unwell), "MembersUnwell", words, 2.0)


def _state_of(state: Role, pods: list[str]) -> State:
    return State.PROGRESSING if all(map(state.is_settling, pods)) else State.DEGRADED


def all_pods(seen: Seen) -> Iterator[tuple[Role, str]]:
    """Yield every pod that there is or should be, with its role."""
    for state in seen.roles:
        pods = {*state.pods, *state.records}
        yield from ((state, pod) for pod in sorted(pods, key=names.ordinal))
