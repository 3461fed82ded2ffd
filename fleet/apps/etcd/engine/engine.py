"""etcd for the core: the parts beside this file, put together."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fleet.apps.etcd import names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine import adoption, encrypt
from fleet.apps.etcd.engine.act import act
from fleet.apps.etcd.engine.answers import OPERATOR, etcd_answers
from fleet.apps.etcd.engine.decide import at_rest, concerns
from fleet.apps.etcd.engine.observe import EtcdObservation, alarms_of, observe
from fleet.apps.etcd.engine.protocol import Etcd as Protocol
from fleet.apps.etcd.engine.secrets import (
    authorities,
    certificates_as_found,
    connection_as_found,
    names_of_keys,
    own_pair,
    secrets,
)
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.answers import image_in, images_of
from fleet.kit.backup import stores
from fleet.kit.backup.outcome import backed_up, newest
from fleet.kit.backup.schedule import cron_job
from fleet.kit.certificates import Pair, client_context, found_context
from fleet.kit.decide.health import describe
from fleet.kit.engine import Allowed, Report
from fleet.kit.order import Concern, Concerns
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.pods import surroundings
from fleet.kit.status import LastBackup, MemberStatus
from fleet.kit.step import Act, Decision, Object, blocked
from fleet.kit.world import World
from fleet.model.app import ROLL
from fleet.model.types import release
from fleet.names import GROUP
from fleet.objects.resource import Resource

NOTED_LAG = 1000  # entries; below it, a member counts as in step and nothing is said
CONTEXT_LIFE = datetime.timedelta(hours=12)


@dataclass(slots=True)
class _Connection:
    protocol: Protocol
    authority: bytes
    until: datetime.datetime


class EtcdEngine:
    resource = Resource(GROUP, "v1alpha1", "Etcd", "etcds", True)
    app = Etcd

    def __init__(self, images: Mapping[str, str], permissions: Permissions = DEFAULT) -> None:
        self._images = images
        self._permissions = permissions
        self._connections: dict[tuple[str, str], _Connection] = {}  # open connections, and nothing else

    def surroundings(self, app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
        if app.adoption is None:
            return [*surroundings(DRIVER, app), *secrets(app, world, now)]
        placed = adoption.placed(app, world)  # as others made them, but for what clients are given, and certificates
        if placed.taken and names.certified(placed.app):
            return secrets(placed.app, world, now)
        return [connection_as_found(placed.app, world)] if placed.taken else []

    def keys(self, app: Etcd, world: World) -> tuple[str, ...]:
        return names_of_keys(app if app.adoption is None else adoption.placed(app, world).app)

    async def observe(self, app: Etcd, world: World) -> EtcdObservation:
        return self.judged(await self._observed(app, world))

    async def _observed(self, app: Etcd, world: World) -> EtcdObservation:
        if app.adoption is None:
            return await observe(app, world, await self._connected(app, world))
        placed = adoption.placed(app, world)
        etcd = None if placed.unfit else await self._connected(placed.app, placed.world)
        return adoption.known(placed, await observe(placed.app, placed.world, etcd))

    def judged(self, observation: EtcdObservation) -> EtcdObservation:
        """With what the operator's owner does not allow. What members run already came from whoever may make them."""
        own = {one for one in [observation.app.image] if one and DRIVER.version_in(one, self._images) is not None}
        barred = self._permissions.problems(observation.app, [*own, *images_of(observation)])
        judged: EtcdObservation = replace(observation, barred=barred, origins=self._permissions.restores)
        return judged

    def attachments(self, observation: EtcdObservation) -> list[Object]:
        app, version = observation.app, observation.oldest_version
        founded = observation.ledger is not None and observation.ledger.identity
        if app.backup is None or not founded or version is None or stores.problems(app) or observation.barred:
            return []
        job = cron_job(
            PLAN,
            app,
            app.backup,
            image=etcd_answers(self._images).image(observation, app),
            operator_image=self._images.get(OPERATOR, ""),
            version=version,
            identity=observation.ledger.identity if observation.ledger else "",
        )
        return [job]

    def concerns(self, observation: EtcdObservation) -> Concerns:
        held = authorities(observation.app, observation.world) if names.certified(observation.app) else None
        made = concerns(observation, self._images, held.trust if held else "")
        if not (problems := observation.barred_fields("image")):
            return made
        refused = blocked("NotAllowed", "; ".join(map(str, problems)))
        if observation.stateful_set is None or observation.ledger is None or not observation.ledger.identity:
            return {**made, Concern.ADOPTION: (lambda: refused,)}
        return {**made, Concern.REVIVAL: (), Concern.ROLL: (lambda: refused,)}  # members are looked after as they are

    def at_rest(self, observation: EtcdObservation) -> Decision:
        return at_rest(observation)

    async def act(self, observation: EtcdObservation, step: Act, allowed: Allowed) -> None:
        etcd = await self._connected(observation.app, observation.world)
        if etcd is not None:
            await act(etcd.guarded(allowed), observation, step)

    def report(self, observation: EtcdObservation, last_backup: LastBackup | None) -> Report:
        members = tuple(_member(observation, pod) for pod in sorted(_all(observation), key=kit_names.ordinal))
        return Report(
            version=observation.oldest_version,
            desired_version=self._desired(observation),
            image_template=DRIVER.image_template(self._images),
            members=members,
            wanted=observation.app.members,
            leader=observation.leader,
            identity=(observation.ledger.identity or None) if observation.ledger else None,
            available=observation.is_served,
            last_backup=newest(observation.world.all("Pod"), last_backup),
            conditions=(
                *_backup_conditions(observation, last_backup),
                *adoption.conditions(observation, encrypt.pending(observation)),
                *_rolled(observation),
            ),
        )

    def _desired(self, observation: EtcdObservation) -> str:
        had = DRIVER.version_in(etcd_answers(self._images).image(observation, observation.app), self._images)
        return had if had is not None and release(had).patch is not None else observation.app.version

    def data_of(self, app: Etcd, world: World) -> list[Object]:
        prefix = f"{kit_names.DATA}-{app.name}-"  # of members that were taken over none: their volumes stay
        return [one for one in world.all("PersistentVolumeClaim") if one["metadata"]["name"].startswith(prefix)]

    def keeps_data(self, app: Etcd) -> bool:
        return app.volume.on_delete == "keep"

    async def forget(self, name: Any) -> None:
        known = self._connections.pop(name, None)
        if known is not None:
            await known.protocol.close()

    async def close(self) -> None:
        for name in list(self._connections):
            await self.forget(name)

    async def _connected(self, app: Etcd, world: World) -> Protocol | None:
        """One pool per app, with a certificate of this process's own; None while there is no authority to make it."""
        name = (app.namespace, app.name)
        make: Callable[[], ssl.SSLContext] | None
        known, now = self._connections.get(name), world.now
        if (kept := names.layout(app)) is not None and kept.tls:
            found = certificates_as_found(app, world)
            if found is None:
                return None
            mark = b"".join(found.values())
            make = partial(found_context, found["ca.crt"], _pair(found))
        elif not names.encrypted(app):
            mark, make = b"plain", None
        elif (held := authorities(app, world)) is None:
            return None
        elif (signer := held.clients.current) is not None:
            mark = signer.pem + held.clients.bundle
            make = partial(client_context, signer, trusted=held.clients.bundle)
        elif (pair := own_pair(app, world)) is not None:
            mark = pair.cert_pem + held.clients.bundle
            make = partial(found_context, held.clients.bundle, pair)
        else:
            return None
        if known is not None and known.authority == mark and now < known.until:
            return known.protocol
        await self.forget(name)
        protocol = Protocol(make() if make else None)
        await protocol.__aenter__()
        self._connections[name] = _Connection(protocol, mark, now + CONTEXT_LIFE)
        return protocol


def _pair(found: Mapping[str, bytes]) -> Pair:
    return Pair(found["tls.crt"], found["tls.key"])


def _backup_conditions(observation: EtcdObservation, known: LastBackup | None) -> tuple[tuple[str, str, str, str], ...]:
    if observation.app.backup is None:
        return ()
    if problems := [*stores.problems(observation.app), *observation.barred_fields("backup.to")]:
        return (("BackedUp", "False", "CannotBackUp", "; ".join(map(str, problems))),)
    pods = observation.world.all("Pod")
    return (backed_up(observation.world.all("Job"), pods, newest(pods, known)),)


def _rolled(observation: EtcdObservation) -> tuple[tuple[str, str, str, str], ...]:
    """Whether every member was restarted for the last `fleet roll`, whose word is the message."""
    word = observation.app.roll
    if not word:
        return ()
    pods = [observation.world.pod(pod) or {"metadata": {}} for pod in observation.pods]
    through = all((pod["metadata"].get("annotations") or {}).get(ROLL) == word for pod in pods)
    return (("Rolled", "True" if through else "False", "Rolled" if through else "Rolling", word),)


def _all(observation: EtcdObservation) -> set[str]:
    return {*observation.pods, *observation.members}


def _member(observation: EtcdObservation, pod: str) -> MemberStatus:
    state = observation.states.get(pod)
    lag = observation.lag(pod) if state is not None else 0
    identity = observation.members.get(pod) or (state.member if state is not None else None)
    return MemberStatus(
        name=pod,
        id=identity,
        role=state.role if state is not None else None,
        version=state.version if state is not None else None,
        image=image_in(observation, observation.world.pod(pod) or {}) or None,
        ready=observation.is_healthy(pod),
        state=_state(observation, pod),
        lag=lag if lag > NOTED_LAG else None,
        alarms=tuple(sorted(alarm.kind for alarm in alarms_of(observation) if f"{alarm.member_id:x}" == identity)),
        volume=kit_names.claim(observation.app, pod) if observation.claim_of(pod) else None,
    )


def _state(observation: EtcdObservation, pod: str) -> Any:
    if kit_names.ordinal(pod) >= observation.app.members:
        return "leaving"
    if observation.is_healthy(pod):
        return "running"
    if pod in observation.learners or observation.ledger is None or not observation.ledger.identity:
        return "joining"
    return "failed" if "ended" in describe(observation, pod) else "unknown"
