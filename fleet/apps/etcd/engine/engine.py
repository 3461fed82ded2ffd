"""etcd for the core: the parts beside this file, put together."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine import adoption, encrypt
from fleet.apps.etcd.engine.answers import OPERATOR, EtcdAnswers, etcd_answers
from fleet.apps.etcd.engine.decide import concerns
from fleet.apps.etcd.engine.half import EtcdHalf
from fleet.apps.etcd.engine.observe import EtcdObservation, as_etcd
from fleet.apps.etcd.engine.secrets import authorities, connection_as_found, names_of_keys, secrets
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.convergence import Pending
from fleet.kit.adoption.takeover import PlacedApp
from fleet.kit.backup.outcome import backed_up, newest, recoverable
from fleet.kit.backup.schedule import cron_job
from fleet.kit.backup.trial import trial_cron_job
from fleet.kit.observe.observation import RoleSpec
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine, Conditions
from fleet.kit.order import Concerns
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.status import LastBackup
from fleet.kit.step import Object


class EtcdEngine(AppEngine[Etcd]):
    def __init__(self, images: Mapping[str, str], permissions: Permissions = DEFAULT) -> None:
        super().__init__(DRIVER, images, permissions, EtcdHalf())

    def answers(self, observation: EtcdObservation) -> EtcdAnswers:
        held = authorities(observation.app, observation.world) if names.certified(observation.app) else None
        return etcd_answers(self.images, held.trust if held else "")

    def secrets(self, app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
        if app.adoption is None or names.certified(app):
            return secrets(app, world, now)
        return [connection_as_found(app, world)]

    def keys(self, app: Etcd, world: World) -> tuple[str, ...]:
        return names_of_keys(self.place(app, world).app)

    def role(self, app: Etcd, name: str) -> RoleSpec:
        return as_etcd(super().role(app, name))

    def as_known(self, placed: PlacedApp[Etcd], observation: EtcdObservation) -> EtcdObservation:
        return adoption.known(placed, observation)

    def pending(self, observation: EtcdObservation) -> Pending | None:
        return encrypt.pending(observation)

    def attachments(self, observation: EtcdObservation) -> list[Object]:
        app, version = observation.app, observation.oldest_version
        founded = observation.ledger is not None and observation.ledger.identity
        if app.backup is None or not founded or version is None or observation.barred:
            return []
        tools = {
            "image": self.answers(observation).image(observation, app),
            "operator_image": self.images.get(OPERATOR, ""),
            "version": version,
            "identity": observation.ledger.identity if observation.ledger else "",
        }
        trial = trial_cron_job(PLAN, app, app.backup, **tools)
        return [cron_job(PLAN, app, app.backup, **tools), *([trial] if trial else [])]

    def role_concerns(self, observation: EtcdObservation) -> Concerns:
        return concerns(observation, self.answers(observation))

    def last_backup(self, observation: EtcdObservation, known: LastBackup | None) -> LastBackup | None:
        return newest(observation.world.all("Pod"), known)

    def conditions(self, observation: EtcdObservation, last_backup: LastBackup | None) -> Conditions:
        return _backup_conditions(observation, last_backup)


def _backup_conditions(observation: EtcdObservation, known: LastBackup | None) -> tuple[tuple[str, str, str, str], ...]:
    if observation.app.backup is None:
        return ()
    if problems := observation.barred_fields("backup.to"):
        return (("BackedUp", "False", "CannotBackUp", "; ".join(map(str, problems))),)
    pods = observation.world.all("Pod")
    jobs = observation.world.all("Job")
    tried = (recoverable(jobs, pods),) if observation.app.backup.trial else ()
    return (backed_up(jobs, pods, newest(pods, known)), *tried)
