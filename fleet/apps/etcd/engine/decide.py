"""What to do next about an etcd: what it has to do about each concern, for the core to go through in order. Pure.

Nothing is remembered between reconciles but what the ledger, the StatefulSet and etcd itself hold, so that a reconcile
may end anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from fleet.apps.etcd.engine import encrypt
from fleet.apps.etcd.engine.answers import EtcdAnswers
from fleet.apps.etcd.engine.change import refuse_other_version, take_back_downgrade
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.apps.etcd.engine.repair import free_space, refuse_to_replace, replace_corrupt
from fleet.apps.etcd.engine.secrets import unsigned
from fleet.kit.adoption.convergence import as_found, owned_by_others
from fleet.kit.adoption.takeover import adopt, let_go
from fleet.kit.adoption.template import is_as_it_was
from fleet.kit.decide.health import wait_for_unwell
from fleet.kit.decide.join import settle_members
from fleet.kit.decide.leave import scale_in
from fleet.kit.decide.quorum import recover_majority
from fleet.kit.decide.roll import give_up_roll, revive_members, roll_members
from fleet.kit.decide.table import list_concerns
from fleet.kit.decide.upkeep import (
    grow_volumes,
    refuse_other_cluster,
    refuse_strangers,
    remove_leftovers,
    restore_pods,
    write_files,
)
from fleet.kit.observation import ledger_of
from fleet.kit.order import Concern, Concerns
from fleet.kit.step import Decision, blocked


def concerns(observation: EtcdObservation, answers: EtcdAnswers) -> Concerns:
    """For an etcd whose Services and certificates are in place."""
    if as_found(observation):
        return _as_found(observation, answers)
    return list_concerns(observation, answers)


def _as_found(observation: EtcdObservation, answers: EtcdAnswers) -> Concerns:
    """For members that others set up, until the first roll: their pods read no files of ours, so nobody can join."""
    rules = answers.app_type.adoption_rules()
    wanted = not is_as_it_was(rules, observation.app) or encrypt.is_wanted(observation)
    return {
        Concern.ADOPTION: (lambda: adopt(observation, answers), lambda: let_go(observation)),
        Concern.FOUNDING: (lambda: unsigned(observation),),
        Concern.IDENTITY: (lambda: refuse_other_cluster(observation, answers),),
        Concern.STAFF: (lambda: restore_pods(observation),),
        Concern.ROLLBACK: (
            lambda: give_up_roll(observation, answers) if wanted or ledger_of(observation).failed else None,
        ),
        Concern.REVIVAL: (lambda: _revive(observation, answers) if wanted else None,),
        Concern.QUORUM: (
            lambda: recover_majority(observation, answers, forcible=False),
            lambda: refuse_strangers(observation),
        ),
        Concern.CORRUPTION: (lambda: replace_corrupt(observation, answers, observation.pods),),
        Concern.SPACE: (lambda: free_space(observation),),
        Concern.REPAIR: (
            lambda: take_back_downgrade(observation),
            lambda: refuse_to_replace(observation, answers, observation.pods),
        ),
        Concern.LEAVING: (lambda: scale_in(observation, answers),),
        Concern.JOINING: (lambda: settle_members(observation, answers),),
        Concern.TIDYING: (lambda: remove_leftovers(answers.leftovers(observation)),),
        Concern.VOLUMES: (lambda: grow_volumes(observation),),
        Concern.ROLL: (
            lambda: owned_by_others(observation) if wanted else None,
            lambda: encrypt.begun(observation, answers),
            lambda: write_files(observation, answers) if wanted else None,
            lambda: roll_members(observation, answers) if wanted else None,
            lambda: _needs_a_roll(observation),
        ),
        Concern.HEALTH: (lambda: wait_for_unwell(observation), lambda: refuse_other_version(observation, answers)),
    }


def _revive(observation: EtcdObservation, answers: EtcdAnswers) -> Decision | None:
    """As for a roll: not while the template is another manager's, and with the files in place."""
    decision = revive_members(observation, answers)
    return decision and (owned_by_others(observation) or write_files(observation, answers) or decision)


def _needs_a_roll(observation: EtcdObservation) -> Decision | None:
    if observation.replicas >= observation.app.members:
        return None
    return blocked(
        "NeedsRoll",
        f"scale to {observation.app.members} waits: members were set up by others, and one that joins needs what the "
        f"first roll brings: `fleet roll {observation.app.name}`",
    )
