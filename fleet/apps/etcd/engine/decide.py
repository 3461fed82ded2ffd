"""What to do next about an etcd: what it has to do about each concern, for the core to go through in order. Pure.

Nothing is remembered between reconciles but what the ledger, the StatefulSet and etcd itself hold, so that a reconcile
may end anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.engine import encrypt
from fleet.apps.etcd.engine.adoption import adopted, as_found, changes_over, late, let_go, owned_by_others
from fleet.apps.etcd.engine.answers import EtcdAnswers, etcd_answers
from fleet.apps.etcd.engine.change import refuse_other_version, take_back_downgrade
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.apps.etcd.engine.repair import free_space, mend_though_full, refuse_to_replace, replace_corrupt
from fleet.apps.etcd.engine.secrets import unsigned
from fleet.apps.etcd.kept import as_it_was
from fleet.kit import names as kit_names
from fleet.kit.answers import Images
from fleet.kit.backup.restoration import leftovers
from fleet.kit.backup.schedule import cron_job_name
from fleet.kit.decide.bootstrap import bootstrap
from fleet.kit.decide.health import wait_for_unwell
from fleet.kit.decide.join import admit_members, scale_out, settle_members
from fleet.kit.decide.leave import scale_in
from fleet.kit.decide.quorum import finish_recovery, recover_majority
from fleet.kit.decide.replace import replace_member
from fleet.kit.decide.roll import give_up_roll, revive_members, roll_members
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
from fleet.kit.step import Decision, Object, State, blocked
from fleet.text import count_noun

SETTLED_SECONDS = 10.0  # between probes of an etcd that is well


def concerns(observation: EtcdObservation, images: Images, trust: str = "") -> Concerns:
    """For an etcd whose Services and certificates are in place."""
    answers = etcd_answers(images, trust)
    if as_found(observation):
        return _as_found(observation, answers)
    keeps_claims = names.layout(observation.app) is not None
    return {
        Concern.ADOPTION: (
            lambda: adopted(observation, answers),
            lambda: _set_is_there(observation),
            lambda: let_go(observation),
        ),
        Concern.FOUNDING: (
            lambda: unsigned(observation),
            lambda: bootstrap(observation, answers),
            lambda: write_files(observation, answers),
        ),
        Concern.IDENTITY: (lambda: refuse_other_cluster(observation, answers),),
        Concern.RECOVERY: (lambda: finish_recovery(observation, answers),),
        Concern.STAFF: (lambda: restore_pods(observation),),
        Concern.ROLLBACK: (lambda: give_up_roll(observation, answers),),
        Concern.REVIVAL: (lambda: revive_members(observation, answers),),
        Concern.QUORUM: (lambda: recover_majority(observation, answers), lambda: refuse_strangers(observation)),
        Concern.CORRUPTION: (lambda: replace_corrupt(observation, answers, late(observation)),),
        Concern.SPACE: (lambda: mend_though_full(observation, answers), lambda: free_space(observation)),
        Concern.REPAIR: (
            lambda: take_back_downgrade(observation),
            lambda: refuse_to_replace(observation, answers, late(observation)),
            lambda: replace_member(observation, answers),
        ),
        Concern.LEAVING: (lambda: scale_in(observation, answers),),
        Concern.JOINING: (lambda: admit_members(observation, answers), lambda: settle_members(observation, answers)),
        Concern.TIDYING: (lambda: remove_leftovers(_leftovers(observation)),),
        Concern.VOLUMES: (lambda: grow_volumes(observation),),
        Concern.SCALE: (
            lambda: None if changes_over(observation) else scale_out(observation, answers, keeps_claims=keeps_claims),
        ),
        Concern.ROLL: (
            lambda: encrypt.begun(observation, answers),
            lambda: roll_members(observation, answers),
            lambda: encrypt.ended(observation, answers),
        ),
        Concern.HEALTH: (lambda: wait_for_unwell(observation), lambda: refuse_other_version(observation, answers)),
    }


def _as_found(observation: EtcdObservation, answers: EtcdAnswers) -> Concerns:
    """For members that others set up, until the first roll: their pods read no files of ours, so nobody can join."""
    kept = names.layout(observation.app)
    wanted = kept is not None and (not as_it_was(observation.app, kept) or encrypt.is_wanted(observation))
    return {
        Concern.ADOPTION: (lambda: adopted(observation, answers), lambda: let_go(observation)),
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
        Concern.TIDYING: (lambda: remove_leftovers(_leftovers(observation)),),
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


def _leftovers(observation: EtcdObservation) -> list[Object]:
    """Return Jobs of a restore that is over, and a schedule that git does not have any more, or whose place is not
    allowed."""
    app, world = observation.app, observation.world
    gone = leftovers(app, world.all("Job"))
    cron = world.get("CronJob", cron_job_name(app))
    if cron is not None and (app.backup is None or observation.barred_fields("backup.to")):
        gone.append(cron)
    return gone


def at_rest(observation: EtcdObservation) -> Decision:
    count = len(observation.voters)
    words = f"{count_noun(count, 'member')} of etcd {observation.oldest_version} in step, {observation.leader} leads"
    return Decision(State.OK, "Healthy", words, (), SETTLED_SECONDS)


def _set_is_there(observation: EtcdObservation) -> Decision | None:
    """One that was taken over is not made anew: what it was like is not ours to say."""
    if names.layout(observation.app) is None or observation.stateful_set is not None:
        return None
    return blocked("SetGone", f"the StatefulSet {kit_names.stateful_set(observation.app)} is gone; apply it again")


def _needs_a_roll(observation: EtcdObservation) -> Decision | None:
    if observation.replicas >= observation.app.members:
        return None
    return blocked(
        "NeedsRoll",
        f"scale to {observation.app.members} waits: members were set up by others, and one that joins needs what the "
        f"first roll brings: `fleet roll {observation.app.name}`",
    )
