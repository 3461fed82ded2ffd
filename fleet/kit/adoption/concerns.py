"""What is looked after about members that others set up: until their first roll they are as they were found. Pure."""

from __future__ import annotations

from typing import TypeVar

from fleet.kit import names
from fleet.kit.adoption.convergence import owned_by_others
from fleet.kit.adoption.takeover import adopt, let_go
from fleet.kit.adoption.template import are_settings_as_found, is_as_it_was
from fleet.kit.decide.health import wait_for_unwell
from fleet.kit.decide.join import settle_members
from fleet.kit.decide.leave import scale_in
from fleet.kit.decide.quorum import recover_majority
from fleet.kit.decide.roll import give_up_roll, revive_members, roll_members
from fleet.kit.decide.upkeep import (
    doubt_list,
    grow_volumes,
    refuse_other_cluster,
    refuse_strangers,
    remove_leftovers,
    restore_pods,
    write_files,
)
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_of
from fleet.kit.order import Concern, Concerns
from fleet.kit.step import Decision, blocked
from fleet.model.app import App
from fleet.text import count_noun

A = TypeVar("A", bound=App)


def list_concerns_as_found(observation: Observation[A], answers: Answers[A], *, rolls_anyway: bool = False) -> Concerns:
    """Return what is looked after until the first roll, which begins when git asks for something that members have not.

    Nobody joins and nobody is replaced: a pod that is made now is made as others had it. With `rolls_anyway` the engine
    itself has a reason for the roll.
    """
    rules = answers.app_type.adoption_rules()
    wanted = rolls_anyway or not is_as_it_was(rules, observation.app, observation.role.name)
    return {
        Concern.ADOPTION: (lambda: adopt(observation, answers), lambda: let_go(observation)),
        Concern.IDENTITY: (lambda: refuse_other_cluster(observation, answers),),
        Concern.STAFF: (lambda: restore_pods(observation),),
        Concern.ROLLBACK: (
            lambda: give_up_roll(observation, answers) if wanted or ledger_of(observation).failed else None,
        ),
        Concern.REVIVAL: (lambda: _revive(observation, answers) if wanted else None,),
        Concern.QUORUM: (
            lambda: recover_majority(observation, answers, forcible=False),
            lambda: refuse_strangers(observation),
            lambda: doubt_list(observation),
        ),
        Concern.LEAVING: (lambda: scale_in(observation, answers),),
        Concern.JOINING: (lambda: settle_members(observation, answers),),
        Concern.TIDYING: (lambda: remove_leftovers(answers.leftovers(observation)),),
        Concern.VOLUMES: (lambda: grow_volumes(observation),),
        Concern.SCALE: (lambda: refuse_unread(observation, answers),),
        Concern.ROLL: (
            lambda: owned_by_others(observation) if wanted else None,
            lambda: write_files(observation, answers) if wanted else None,
            lambda: roll_members(observation, answers) if wanted else None,
            lambda: _need_roll(observation),
        ),
        Concern.HEALTH: (lambda: wait_for_unwell(observation),),
    }


def refuse_unread(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Refuse settings and further members where members go on reading what others gave them, and nothing of git's."""
    rules, role = answers.app_type.adoption_rules(), observation.role
    adopted = names.adopted_sets(observation.app).get(role.name)
    if adopted is None or rules.reads_files:
        return None
    if not are_settings_as_found(rules, observation.app, adopted.baseline, role.name):
        return blocked(
            "KeptAsFound",
            f"git says other settings than when {adopted.stateful_set} was taken over, and its members read what "
            "others gave them; say them as they were, and change them where they are read",
        )
    if observation.replicas < role.count:
        return blocked(
            "KeptAsFound",
            f"scale to {role.count} is not done: members were set up by others, and what a further one needs of them "
            "is not known",
        )
    return None


def refuse_new_role(observation: Observation[A]) -> Decision | None:
    """Refuse pods of a kind that the app did not have when it was taken over: what they would need is not known."""
    role, app = observation.role, observation.app
    if app.adoption is None or not role.name or role.name in names.adopted_sets(app):
        return None
    return blocked(
        "KeptAsFound",
        f"git asks for {count_noun(role.count, 'pod')} of {role.name}, and {app.name} was taken over without any; what "
        "others set up gets no further kinds of pods",
    )


def _revive(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Revive as a roll does: not while the template is another manager's, and with the files in place."""
    decision = revive_members(observation, answers)
    return decision and (owned_by_others(observation) or write_files(observation, answers) or decision)


def _need_roll(observation: Observation[A]) -> Decision | None:
    if observation.replicas >= observation.role.count:
        return None
    return blocked(
        "NeedsRoll",
        f"scale to {observation.role.count} waits: members were set up by others, and one that joins needs what the "
        f"first roll brings: `fleet roll {observation.app.name}`",
    )
