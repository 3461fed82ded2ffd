"""The first time: members begin together, from one seed, each alone, or as the agent that runs beside them has it.

There is no data yet, so nothing has to be protected, and a backup may be put in place. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from fleet.kit import names
from fleet.kit.decide.health import describe_pods
from fleet.kit.members import Ledger, MemberRecord, founders
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import Object, cannot_start, is_leaving, template_of
from fleet.kit.step import Act, Apply, Decision, Delete, State, blocked, step, wait
from fleet.kit.workload.stateful_set import changed
from fleet.kit.workload.template import mark_of
from fleet.model.app import App
from fleet.text import count_noun

A = TypeVar("A", bound=App)


def bootstrap(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Bring the first members of a role up; None once they have met and the ledger says whose cluster it is."""
    ledger, found, records = observation.ledger, observation.stateful_set, observation.records
    if not observation.role.count:
        return None
    if ledger is not None and ledger.identity and not ledger.places and found is None:
        name = names.members_map(observation.app)
        return blocked(
            "LedgerLost", f"the ledger in the ConfigMap {name} names no member of {ledger.identity}; restore it"
        )
    if ledger is None or not records:
        return _begin(observation, answers) if found is None else _remember(observation, answers)
    if found is None:
        template = answers.first_template(observation)
        return answers.restore(observation, ledger, template) or _start(observation, answers, ledger, template)
    if ledger.identity and not any(record.phase == "founding" for record in records.values()):
        return None
    return _meet(observation, answers, ledger, found)


def _begin(observation: Observation[A], answers: Answers[A]) -> Decision:
    role, version = observation.role, getattr(observation.app, "version", "")
    count = min(role.count, 1) if role.bootstrap == "seed" else role.count
    pods = [observation.pod(number) for number in range(count)]
    note = f"{answers.name} {version} with {count_noun(role.count, 'member')} is begun"
    first = _with_records(observation, founders(pods, role.name).places)
    return step(State.PROGRESSING, "Creating", note, answers.record(observation, first, "Creating", note))


def _remember(observation: Observation[A], answers: Answers[A]) -> Decision:
    """Write the ledger again, which is written before anything starts: a user deleted it. What members agree on takes
    its place.

    Unless they agree nobody is allowed to begin: members without data would found a second cluster under the old name.
    """
    identities = observation.identities
    name = names.members_map(observation.app)
    alone = observation.role.quorum == "none" and len(identities) <= 1
    if not alone and (observation.agreement is None or len(identities) != 1):
        return blocked(
            "LedgerLost", f"the ConfigMap {name} is gone, and no majority answers; restore it, or the members"
        )
    note = f"the ConfigMap {name} was gone; it is written again from what the members say"
    lost = [pod for pod in observation.pods if pod not in observation.members]  # on no list: they come back as new ones
    settled = _settled(observation, observation.pods if alone else [*observation.voters, *lost])
    ledger = replace(_with_records(observation, settled), identity=_identity(observation))
    return step(State.DEGRADED, "Remembering", note, answers.record(observation, ledger, "Remembering", note))


def _start(observation: Observation[A], answers: Answers[A], ledger: Ledger, template: Object) -> Decision:
    """Make the StatefulSet, also when a StatefulSet was deleted under running members: it takes the pods that are there
    for its own."""
    count = 1 + max(map(names.ordinal, observation.records))
    manifest = answers.stateful_set(observation, template, count)
    if ledger.identity:
        manifest["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = count
    return step(
        State.PROGRESSING,
        "Creating",
        f"{count_noun(count, 'member')} to start",
        Apply(manifest, "Started", "members start"),
    )


def _meet(observation: Observation[A], answers: Answers[A], ledger: Ledger, found: Object) -> Decision:
    states, template = observation.states, answers.first_template(observation)
    if len(observation.identities) > 1:
        text = ", ".join(f"{pod} of {state.identity}" for pod, state in sorted(states.items()))
        return blocked("OtherCluster", f"the volumes hold members of different clusters: {text}; nothing is changed")
    if template_of(found) != mark_of(template):
        return step(
            State.PROGRESSING,
            "Creating",
            "the members get another template",
            Apply(changed(found, template=template, partition=0)),
        )
    for pod in observation.pods:
        present = observation.world.pod(pod)
        outdated = present is not None and template_of(present) != template_of(found)
        if present is not None and outdated and not is_leaving(present) and pod not in states:
            return step(State.PROGRESSING, "Creating", f"{pod} is made anew", Delete(present))
    if _have_met(observation):
        settled = _settled(observation, observation.records)
        written = replace(_with_records(observation, settled), identity=ledger.identity or _identity(observation))
        note = f"{count_noun(len(settled), 'member')} formed cluster {written.identity}"
        return step(State.PROGRESSING, "Creating", note, answers.record(observation, written, "Founded", note))
    seed = next(iter(observation.recorded_pods), None)
    if observation.role.bootstrap == "seed" and seed in states and "seed" in answers.acts and not observation.members:
        return step(State.PROGRESSING, "Creating", f"{seed} begins", Act("seed", {"pod": seed}, "Seeded", "it begins"))
    waiting = describe_pods(observation, observation.unwell_pods)
    pods, name = map(observation.world.pod, observation.pods), observation.role.container
    stuck = any(pod is not None and cannot_start(pod, name) for pod in pods)
    return wait(State.DEGRADED if stuck else State.PROGRESSING, "Creating", waiting or "the members meet")


def _have_met(observation: Observation[A]) -> bool:
    """Tell whether all that begin are well, and on the list where there is one."""
    records = observation.records
    listed = observation.role.quorum == "none" or set(observation.members) >= set(records)
    return listed and bool(records) and all(map(observation.is_healthy, records))


def _identity(observation: Observation[A]) -> str:
    """Return the cluster's own; of an engine that has none the UID of the StatefulSet, written once."""
    found = observation.stateful_set
    return next(iter(observation.identities), "") or str(found["metadata"]["uid"] if found else "")


def _with_records(observation: Observation[A], records: Mapping[str, MemberRecord]) -> Ledger:
    """Return the ledger with records of this role: those of other roles stay."""
    ledger = observation.ledger or Ledger()
    return replace(ledger, places={**ledger.places, **records})


def _settled(observation: Observation[A], pods: Mapping[str, MemberRecord] | list[str]) -> dict[str, MemberRecord]:
    role = observation.role.name
    return {pod: MemberRecord("settled", observation.members.get(pod, ""), role=role) for pod in pods}
