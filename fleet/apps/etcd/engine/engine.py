"""etcd for the core: the parts beside this file, put together."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine import adoption
from fleet.apps.etcd.engine.answers import EtcdAnswers, concerns, etcd_answers
from fleet.apps.etcd.engine.encrypt import STAGES
from fleet.apps.etcd.engine.half import EtcdHalf
from fleet.apps.etcd.engine.observe import EtcdObservation, as_etcd
from fleet.apps.etcd.engine.secrets import certificates, connection_as_found, secrets
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.convergence import Pending
from fleet.kit.adoption.takeover import PlacedApp
from fleet.kit.backup.concern import backup_conditions, schedule_backups
from fleet.kit.backup.outcome import newest
from fleet.kit.observe.observation import RoleSpec
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.order import Concerns
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.status import Conditions, LastBackup
from fleet.kit.step import Object


class EtcdEngine(AppEngine[Etcd]):
    def __init__(self, images: Mapping[str, str], permissions: Permissions = DEFAULT) -> None:
        super().__init__(DRIVER, images, permissions, EtcdHalf())

    def answers(self, observation: EtcdObservation) -> EtcdAnswers:
        app = observation.app
        held = certificates(app, observation.world).authorities() if names.certified(app) else None
        return etcd_answers(self.images, held.trust if held else "")

    def secrets(self, app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
        if app.adoption is None or names.certified(app):
            return secrets(app, world, now)
        return [connection_as_found(app, world)]

    def keys(self, app: Etcd, world: World) -> tuple[str, ...]:
        placed = self.place(app, world).app
        return certificates(placed, World({})).names_of_keys if names.certified(placed) else ()

    def role(self, app: Etcd, name: str) -> RoleSpec:
        return as_etcd(super().role(app, name))

    def as_known(self, placed: PlacedApp[Etcd], observation: EtcdObservation) -> EtcdObservation:
        return adoption.known(placed, observation)

    def pending(self, observation: EtcdObservation) -> Pending | None:
        return STAGES.pending(observation)

    def attachments(self, observation: EtcdObservation) -> list[Object]:
        return schedule_backups(PLAN, observation, self.answers(observation))

    def role_concerns(self, observation: EtcdObservation) -> Concerns:
        return concerns(observation, self.answers(observation))

    def last_backup(self, observation: EtcdObservation, known: LastBackup | None) -> LastBackup | None:
        return newest(observation.world.all("Pod"), known)

    def conditions(self, observation: EtcdObservation, last_backup: LastBackup | None) -> Conditions:
        return backup_conditions(observation, last_backup)
