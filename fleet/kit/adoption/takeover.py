"""An app that runs already becomes one of fleet's: compared with what git says of it, then taken over as it is. Pure.

Nothing of it changes that a member could notice: each StatefulSet gets two labels and a partition that holds every pod,
and keeps its claims whatever comes. Whoever is not certainly the one that git means is refused with the reason, and not
touched. The order of writes: what was found is noted, the StatefulSets are taken, and only then does the ledger say
whose cluster it is. So a reconcile may end anywhere: until the last of them everything is compared anew, and after it
nothing is compared again.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fleet.kit import names
from fleet.kit.adoption.hold import held, is_held
from fleet.kit.adoption.managers import spec_managers
from fleet.kit.adoption.objections import OperatorView, check_owner, check_shape, compare_with_git
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.template import adopted_labels, make_baseline
from fleet.kit.adoption.workload import Find
from fleet.kit.app_type import AppType
from fleet.kit.decide.health import describe_pods
from fleet.kit.driver import Problem
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.names import AdoptedNames
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_in
from fleet.kit.observe.world import Object, World, template_of
from fleet.kit.step import Decision, State, Take, blocked, step, wait
from fleet.model.app import App
from fleet.text import count_noun

A = TypeVar("A", bound=App)


@dataclass(frozen=True)  # slots would forbid `PlacedApp[…](…)`
class PlacedApp(Generic[A]):
    """An app with its ledger, and with the names of what it took over or is to take over; `unfit` says why it cannot.

    An app that fleet makes is as it is.
    """

    app: A
    ledger: Ledger | None = None
    unfit: Problem | None = None
    taken: bool = False
    unreadable: str = ""  # why the ledger cannot be read: then nothing is known of what was begun


def is_taken(ledger: Ledger | None) -> bool:
    """Tell whether what others set up is the app's by now."""
    return ledger is not None and bool(ledger.layout) and bool(ledger.identity)


def place_app(app_type: AppType[A], app: A, world: World) -> PlacedApp[A]:
    """Return the app as its ledger has it, or as what runs is laid out while nothing was taken over yet.

    A user of the namespace may have written the ledger, or somebody the StatefulSets: what cannot be read is said.
    """
    try:
        ledger = ledger_in(app, world, adopted_labels(app))
        if app.adoption is None:
            return PlacedApp(app, ledger)
        if ledger is not None and is_taken(ledger):
            return PlacedApp(
                names.lay_out(app, app_type.adoption_rules().load_layout(ledger.layout)), ledger, taken=True
            )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return PlacedApp(app, unreadable=f"{type(error).__name__}: {error}")
    layout = _lay_out(app_type.adoption_rules(), app, world)
    if isinstance(layout, Problem):
        return PlacedApp(app, ledger, layout)
    return PlacedApp(names.lay_out(app, layout), ledger)


def list_sets(app_type: AppType[A], app: A, world: World) -> tuple[str, ...]:
    """Return the names of the StatefulSets that are the app's, or are to be: what was taken stays what it is."""
    placed, rules = place_app(app_type, app, world), app_type.adoption_rules()
    taken = tuple(found.stateful_set for found in names.adopted_sets(placed.app).values()) if placed.taken else ()
    return taken or tuple(rules.set_name(app, role.name) for role in app_type.roles_of(app))


def _lay_out(rules: AdoptionRules[A, Any], app: A, world: World) -> AdoptedNames | Problem:
    """Return what the StatefulSets say that git means, with what git says of them now."""
    sets: dict[str, Object] = {}
    for role in rules.app_type.roles_of(app):
        name = rules.set_name(app, role.name)
        found = world.get("StatefulSet", name)
        if found is None:
            return Problem("StatefulSet", f"there is no StatefulSet {name} in {app.namespace}")
        sets[role.name] = found
    layout = rules.read_layout(sets, _texts(world))
    if isinstance(layout, Problem):
        return layout
    baselines = {}
    for role_name, found in sets.items():
        containers = found["spec"]["template"]["spec"]["containers"]
        image = next(str(one["image"]) for one in containers if one["name"] == layout.sets[role_name].container)
        baselines[role_name] = {**make_baseline(rules, app, role_name, image), "mark": template_of(found)}
    laid_out: AdoptedNames = rules.with_baselines(layout, baselines)
    return laid_out


def adopt(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Take over what runs; None once that is done, and for an app that is made anew.

    Of an app with several roles the observation of the first decides: all are taken together.
    """
    if observation.app.adoption is None or is_taken(observation.ledger) or observation.role.name:
        return None
    roles, rules = observation.roles, answers.app_type.adoption_rules()
    refusal = _refuse_objects(roles, rules)
    if refusal is not None:
        return refusal
    waiting = _wait_for_members(roles)
    return _refuse_members(roles, answers) or waiting or _refuse_differences(roles, answers) or _take(roles, answers)


def let_go(observation: Observation[A]) -> Decision | None:
    """Have those give up their fields now who were named only after the taking over, or came back since."""
    found, taken = observation.stateful_set, observation.app.adoption
    others = set(taken.take_from) & set(spec_managers(found)) if taken and found else set()
    if found is None or not others:
        return None
    note = f"{', '.join(sorted(others))} managed fields of the StatefulSet, and git takes them"
    return step(State.PROGRESSING, "Adopting", note, Take(found, None, tuple(sorted(others)), "TakenFrom", note))


def require_set(observation: Observation[A]) -> Decision | None:
    """Refuse to make an adopted StatefulSet anew: what it was like is not the operator's to say."""
    adopted = names.adopted_sets(observation.app).get(observation.role.name)
    if adopted is None or observation.stateful_set is not None:
        return None
    return blocked("SetGone", f"the StatefulSet {adopted.stateful_set} is gone; apply it again")


def _texts(world: World) -> Find:
    def find(kind: str, name: str) -> Mapping[str, str] | None:
        found = world.get(kind, name)
        if found is None:
            return None
        data = found.get("data") or {}
        return data if kind == "ConfigMap" else {key: b64decode(one).decode("latin-1") for key, one in data.items()}

    return find


def _refuse_objects(roles: Sequence[Observation[A]], rules: AdoptionRules[A, Any]) -> Decision | None:
    """Say what the objects alone say against it."""
    app, unfit, layout = roles[0].app, roles[0].unfit, names.adopted_names(roles[0].app)
    encrypted = rules.is_encrypted(layout) if layout is not None else None
    sets = {role.role.name: roles[0].world.get("StatefulSet", rules.set_name(app, role.role.name)) for role in roles}
    if None in sets.values():
        return blocked("NothingToAdopt", unfit.message if unfit else "nothing is there")
    for role, found in sets.items():
        assert found is not None  # noqa: S101 - looked at above
        if (objection := check_owner(app, found)) is not None:
            return blocked(*objection)
        if unfit is not None:
            what, why = found["metadata"]["name"], f"{unfit.field}: {unfit.message}"
            return blocked("CannotAdopt", f"StatefulSet {what} cannot be taken over: {why}")
        objection = check_shape(rules.app_type, app, found, role, encrypted=None if role else encrypted)
        if objection is not None:
            return blocked(*objection)
    return None


def _wait_for_members(roles: Sequence[Observation[A]]) -> Decision | None:
    """Wait for those that do not answer, who may be anybody: nothing is compared with half of the members."""
    silent = [describe_pods(observation, pods) for observation in roles if (pods := _silent(observation))]
    if silent:
        return wait(State.UNCERTAIN, "Adopting", f"not all members answer, so none is touched: {'; '.join(silent)}", 2)
    if any(observation.agreement is None and observation.role.quorum != "none" for observation in roles):
        return wait(State.UNCERTAIN, "Adopting", "the members have no leader, so none is touched", 2)
    unwell = [describe_pods(observation, pods) for observation in roles if (pods := observation.unwell_pods)]
    if unwell:
        return wait(
            State.UNCERTAIN, "Adopting", f"not all members are well, so none is touched: {'; '.join(unwell)}", 2
        )
    return None


def _silent(observation: Observation[A]) -> list[str]:
    """Return the pods that were to be asked and did not answer. Members of some engines are not asked at all."""
    is_asked = observation.role.quorum != "none"
    return [
        pod for pod in observation.pods if pod not in observation.states and (is_asked or pod in observation.silences)
    ]


def _refuse_members(roles: Sequence[Observation[A]], answers: Answers[A]) -> Decision | None:
    """Say what the members themselves say against it."""
    app, name, versions = roles[0].app, answers.name, answers.app_type.versions
    wanted = (app.adoption.identity if app.adoption else None) or ""
    identities = {pod: identity for role in roles for pod, identity in sorted(_identities(role, roles[0]).items())}
    told = ", ".join(f"{pod} of {identity}" for pod, identity in identities.items())
    if len(set(identities.values())) > 1:
        return blocked("SplitBrain", f"the pods are members of different clusters ({told}); nothing is changed")
    if identities and set(identities.values()) != {wanted}:
        return blocked("OtherCluster", f"git means cluster {wanted}, and these are {told}; nothing is changed")
    states = [state for role in roles for state in role.states.values() if state.version]
    series = {versions.series_of(state.version) for state in states}
    if unknown := series - set(versions.series):
        runs = ", ".join(sorted(unknown))
        return blocked("VersionOutOfRange", f"{name} {runs} runs, and this operator knows {', '.join(versions.series)}")
    version = answers.app_type.version(app)
    if series and series != {versions.series_of(version)}:
        runs = ", ".join(sorted(series))
        return blocked("NotAsDescribed", f"{name} {runs} runs, and git says {version}: take it over as it is first")
    for role in roles:
        count = len(role.members) + len(role.strangers)
        if role.agreement is not None and count != len(role.pods):
            return blocked(
                "NotAsDescribed",
                f"{name} has {count_noun(count, 'member')} in {count_noun(len(role.pods), 'pod')}",
            )
    return None


def _identities(role: Observation[A], first: Observation[A]) -> dict[str, str]:
    """Return which cluster each member is of. Where the engine has no identity the app's is the UID of its first
    StatefulSet, and all pods are of that."""
    said = {pod: state.identity for pod, state in role.states.items() if state.identity}
    found = first.stateful_set
    if said or first.role.quorum == "majority" or found is None:
        return said
    return {pod: str(found["metadata"]["uid"]) for pod in role.pods} if not first.identities else {}


def _refuse_differences(roles: Sequence[Observation[A]], answers: Answers[A]) -> Decision | None:
    """Say what git says of members that are certainly the ones it means, and is not so."""
    app = roles[0].app
    layout: Any = names.adopted_names(app)
    sets = {role.role.name: found for role in roles if (found := role.stateful_set) is not None}
    claims = [claim for role in roles for pod in role.pods if (claim := role.claim_of(pod)) is not None]
    if layout is None or len(sets) != len(roles):
        return None
    view = OperatorView(claims, answers.images)
    objection = compare_with_git(answers.app_type.adoption_rules(), app, sets, layout, view)
    return blocked(*objection) if objection is not None else None


def _take(roles: Sequence[Observation[A]], answers: Answers[A]) -> Decision:
    first, rules = roles[0], answers.app_type.adoption_rules()
    layout: Any = names.adopted_names(first.app)
    adopted = names.adopted_sets(first.app)
    identity = next(identity for identity in _identities(first, first).values())
    records = {pod: record for role in roles for pod, record in _records(role).items()}
    ledger = Ledger("", records, layout=rules.dump_layout(layout))
    sets = ", ".join(adopted[role.role.name].stateful_set for role in roles)
    alone = f"StatefulSet {sets} is taken over as it runs"
    message = alone if len(roles) == 1 else f"StatefulSets {sets} are taken over as they run"
    if first.ledger != ledger:
        return step(State.PROGRESSING, "Adopting", message, answers.record(first, ledger))
    for role in roles:
        if (taking := _take_set(role, message)) is not None:
            return step(State.PROGRESSING, "Adopting", message, taking)
    note = f"cluster {identity} with {count_noun(len(records), 'member')} is taken over: no pod was touched"
    return step(
        State.PROGRESSING,
        "Adopting",
        message,
        answers.record(first, replace(ledger, identity=identity), "Adopted", note),
    )


def _records(role: Observation[A]) -> dict[str, MemberRecord]:
    """Return the record of each member: all have data by now."""
    pods = list(role.members) if role.agreement is not None else role.pods
    return {pod: MemberRecord("settled", role.members.get(pod, ""), role=role.role.name) for pod in pods}


def _take_set(observation: Observation[A], message: str) -> Take | None:
    """Return the step that labels and holds one StatefulSet; None when it is so."""
    app, found, taken = observation.app, observation.stateful_set, observation.app.adoption
    assert found is not None and taken is not None  # noqa: S101 - looked at above
    labels, there = adopted_labels(app), found["metadata"].get("labels") or {}
    others = set(taken.take_from) & set(spec_managers(found))
    if is_held(found, observation.replicas) and not others and not labels.items() - there.items():
        return None
    annotations, spec = held(found, observation.replicas)
    metadata = {
        "name": found["metadata"]["name"],
        "namespace": app.namespace,
        "labels": labels,
        "annotations": annotations,
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    return Take(found, manifest, tuple(taken.take_from), "Adopting", message)
