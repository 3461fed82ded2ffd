"""Which procedures look after which concern, the same for every engine. `fleet.kit.order` has the order of concerns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fleet.kit import names
from fleet.kit.adoption.concerns import list_concerns_as_found, refuse_new_role, refuse_unread
from fleet.kit.adoption.convergence import as_found
from fleet.kit.adoption.takeover import adopt, let_go, require_set
from fleet.kit.decide.bootstrap import bootstrap
from fleet.kit.decide.credentials import change_users
from fleet.kit.decide.health import wait_for_unwell
from fleet.kit.decide.join import admit_members, scale_out, settle_members
from fleet.kit.decide.leave import scale_in
from fleet.kit.decide.quorum import finish_recovery, recover_majority
from fleet.kit.decide.replace import replace_member
from fleet.kit.decide.roll import give_up_roll, revive_members, roll_members
from fleet.kit.decide.settings import reload_settings
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
from fleet.kit.observe.observation import Observation
from fleet.kit.order import Concern, Concerns, Look
from fleet.kit.step import blocked
from fleet.model.app import App

A = TypeVar("A", bound=App)


def list_concerns(observation: Observation[A], answers: Answers[A]) -> Concerns:
    """Return what is looked after about one role of an app, by concern.

    What the engine alone knows comes first in each concern: it may say that nothing else is certain. Only at the end,
    when all the rest is settled, members that are not well come before anything that an engine has to say.
    """
    if observation.unreadable:
        name = names.members_map(observation.app)
        message = f"the ledger in the ConfigMap {name} cannot be read: {observation.unreadable}"
        return {Concern.ADOPTION: (lambda: blocked("LedgerUnreadable", message),)}
    if not observation.role.count and observation.stateful_set is None:
        return {Concern.LEAVING: (lambda: scale_in(observation, answers),)}
    if (refusal := refuse_new_role(observation)) is not None:
        return {Concern.SCALE: (lambda: refusal,)}
    is_as_found = as_found(observation)  # by others, and not restarted since
    shared = list_concerns_as_found(observation, answers) if is_as_found else _shared(observation, answers)
    own = answers.diagnose(observation)
    result: dict[Concern, Sequence[Look]] = {}
    for concern in Concern:
        both = (tuple(own.get(concern, ())), tuple(shared.get(concern, ())))
        result[concern] = both[1] + both[0] if concern is Concern.HEALTH else both[0] + both[1]
    return result


def _shared(observation: Observation[A], answers: Answers[A]) -> Concerns:
    return {
        Concern.ADOPTION: (
            lambda: adopt(observation, answers),
            lambda: require_set(observation),
            lambda: let_go(observation),
        ),
        Concern.FOUNDING: (lambda: bootstrap(observation, answers), lambda: write_files(observation, answers)),
        Concern.IDENTITY: (lambda: refuse_other_cluster(observation, answers),),
        Concern.RECOVERY: (lambda: finish_recovery(observation, answers),),
        Concern.STAFF: (lambda: restore_pods(observation),),
        Concern.ROLLBACK: (lambda: give_up_roll(observation, answers),),
        Concern.REVIVAL: (lambda: revive_members(observation, answers),),
        Concern.QUORUM: (
            lambda: recover_majority(observation, answers),
            lambda: refuse_strangers(observation),
            lambda: doubt_list(observation),
        ),
        Concern.REPAIR: (lambda: replace_member(observation, answers),),
        Concern.LEAVING: (lambda: scale_in(observation, answers),),
        Concern.JOINING: (lambda: admit_members(observation, answers), lambda: settle_members(observation, answers)),
        Concern.TIDYING: (lambda: remove_leftovers(answers.leftovers(observation)),),
        Concern.VOLUMES: (lambda: grow_volumes(observation),),
        Concern.CREDENTIALS: (lambda: change_users(observation, answers),),
        Concern.SETTINGS: (lambda: reload_settings(observation, answers),),
        Concern.SCALE: (lambda: refuse_unread(observation, answers), lambda: scale_out(observation, answers)),
        Concern.ROLL: (lambda: roll_members(observation, answers),),
        Concern.HEALTH: (lambda: wait_for_unwell(observation),),
    }
