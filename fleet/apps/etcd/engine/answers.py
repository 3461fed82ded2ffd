"""What etcd knows of an observation: its answers to decisions that all engines share, and its concerns, for the core
to go through in order. Pure.

Nothing is remembered between reconciles but what the ledger, the StatefulSet and etcd itself hold, so that a reconcile
may end anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.encrypt import STAGES
from fleet.apps.etcd.engine.faults import find_spoiled_data
from fleet.apps.etcd.engine.observe import EtcdObservation, alarms_of, members_by_pod, statuses_of
from fleet.apps.etcd.engine.repair import (
    free_space,
    mend_though_full,
    replace_corrupt,
    take_back_downgrade,
)
from fleet.apps.etcd.engine.secrets import unsigned
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.concerns import list_concerns_as_found
from fleet.kit.adoption.convergence import as_found, changes_over, late
from fleet.kit.adoption.member_files import FOLDER
from fleet.kit.backup.concern import list_leftovers, restore_first
from fleet.kit.decide.other_version import refuse_other_version
from fleet.kit.decide.replace import refuse_to_replace
from fleet.kit.decide.table import list_concerns
from fleet.kit.driver import Hop
from fleet.kit.members import Ledger
from fleet.kit.observe.answers import Answers, Images, image_in
from fleet.kit.observe.observation import in_order
from fleet.kit.order import Concern, Concerns
from fleet.kit.step import Act, Decision, Object
from fleet.kit.versions import series_between

READ_BYTES = 8 << 20  # of a database that a member on a slow disk reads in a second when it starts
MOST_READING = 3600.0  # seconds


@dataclass(frozen=True)
class EtcdAnswers(Answers[Etcd]):
    def corrupt(self, observation: EtcdObservation, pod: str) -> str | None:
        return find_spoiled_data(observation, pod)

    def calls_all_unready(self, observation: EtcdObservation) -> bool:
        """While an alarm is on, etcd calls every member unhealthy, and their kubelets call all pods unready for it."""
        return bool(alarms_of(observation))

    def diagnose(self, observation: EtcdObservation) -> Concerns:
        return {
            Concern.FOUNDING: (lambda: unsigned(observation),),
            Concern.CORRUPTION: (lambda: replace_corrupt(observation, self, late(observation)),),
            Concern.SPACE: (lambda: mend_though_full(observation, self), lambda: free_space(observation)),
            Concern.REPAIR: (
                lambda: take_back_downgrade(observation),
                lambda: refuse_to_replace(observation, self, late(observation)),
            ),
            Concern.ROLL: (lambda: STAGES.begin(observation, self),),
            Concern.HEALTH: (
                lambda: STAGES.end(observation, self),
                lambda: refuse_other_version(observation, self),
            ),
        }

    def recovery_seconds(self, observation: EtcdObservation, pod: str) -> float:
        size = max((status.db_size for status in statuses_of(observation).values()), default=0)
        return min(size / READ_BYTES, MOST_READING)

    def can_read(self, observation: EtcdObservation, pod: str, template: Object) -> bool:
        had, gets = image_in(observation, observation.world.pod(pod) or {}), image_in(observation, template)
        steps = series_between(had, gets)
        if had != gets and steps is None:
            return bool(observation.states) and self.next_hop(observation) is None
        furthest = 1 if observation.states else 0  # without anybody to ask, no step to another series is taken
        return had == gets or 0 <= (steps or 0) <= furthest

    def addresses(self, observation: EtcdObservation) -> tuple[str, ...]:
        """As they are on the list: no pattern says that while members change to TLS."""
        kept = names.layout(observation.app)
        if kept is None or not kept.secured:
            return ()
        members = members_by_pod(observation)
        return tuple(f"{pod}={url}" for pod in in_order(members) for url in members[pod].peer_urls)

    @property
    def file_folders(self) -> tuple[str, ...]:
        return (names.MEMBER_FILES, FOLDER)

    def describe_change(self, observation: EtcdObservation, hop: Hop | None) -> str:
        change, kept = super().describe_change(observation, hop), names.layout(observation.app)
        if kept is None or change != "new configuration":
            return change
        return {"opening": "TLS beside what is plain", "closing": "TLS alone"}.get(kept.secured, change)

    def before_hop(self, observation: EtcdObservation, hop: Hop | None) -> Act | None:
        """With a downgrade allowed, etcd rewrites its data in the older format before the first member restarts."""
        if hop is None or hop.kind != "downgrade":
            return None
        return Act("downgrade", {"version": ".".join(hop.target.split(".")[:2])})

    def alarms(self, observation: EtcdObservation, pod: str) -> tuple[str, ...]:
        state = observation.states.get(pod)
        member = observation.members.get(pod) or (state.member if state is not None else None)
        kinds = {alarm.kind for alarm in alarms_of(observation) if f"{alarm.member_id:x}" == member}
        return tuple(sorted(kinds))

    def may_join(self, observation: EtcdObservation) -> bool:
        return not changes_over(observation)

    def leftovers(self, observation: EtcdObservation) -> list[Object]:
        return [*super().leftovers(observation), *list_leftovers(observation)]

    def restore(self, observation: EtcdObservation, ledger: Ledger, template: Object) -> Decision | None:
        return restore_first(PLAN, observation, self, ledger, template)


def etcd_answers(images: Images, trust: str = "") -> EtcdAnswers:
    """Return etcd's answers, with the images that the operator has and the CAs that members must trust."""
    return EtcdAnswers(DRIVER, images, trust, frozenset({"announce", "vote", "drain", "lead", "defragment"}))


def concerns(observation: EtcdObservation, answers: EtcdAnswers) -> Concerns:
    """List the concerns of an etcd whose Services and certificates are in place."""
    if as_found(observation):
        return _as_found(observation, answers)
    return list_concerns(observation, answers)


def _as_found(observation: EtcdObservation, answers: EtcdAnswers) -> Concerns:
    """Return what is looked after until the first roll, with what etcd alone knows in between."""
    shared = list_concerns_as_found(observation, answers, rolls_anyway=STAGES.is_wanted(observation))
    owned, *further = shared[Concern.ROLL]
    return {
        **shared,
        Concern.FOUNDING: (lambda: unsigned(observation),),
        Concern.CORRUPTION: (lambda: replace_corrupt(observation, answers, observation.pods),),
        Concern.SPACE: (lambda: free_space(observation),),
        Concern.REPAIR: (
            lambda: take_back_downgrade(observation),
            lambda: refuse_to_replace(observation, answers, observation.pods),
        ),
        Concern.ROLL: (owned, lambda: STAGES.begin(observation, answers), *further),
        Concern.HEALTH: (*shared[Concern.HEALTH], lambda: refuse_other_version(observation, answers)),
    }
