"""What to do next about an etcd: what it has to do about each concern, for the core to go through in order. Pure.

Nothing is remembered between reconciles but what the ledger, the StatefulSet and etcd itself hold, so that a reconcile
may end anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from fleet.apps.etcd.engine.answers import EtcdAnswers
from fleet.apps.etcd.engine.encrypt import STAGES
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.apps.etcd.engine.repair import free_space, replace_corrupt, take_back_downgrade
from fleet.apps.etcd.engine.secrets import unsigned
from fleet.kit.adoption.concerns import list_concerns_as_found
from fleet.kit.adoption.convergence import as_found
from fleet.kit.decide.other_version import refuse_other_version
from fleet.kit.decide.replace import refuse_to_replace
from fleet.kit.decide.table import list_concerns
from fleet.kit.order import Concern, Concerns


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
