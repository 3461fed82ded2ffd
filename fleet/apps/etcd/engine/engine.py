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
from fleet.apps.etcd.engine.change import chosen_image, image_in, images_of
from fleet.apps.etcd.engine.decide import OPERATOR, at_rest, concerns
from fleet.apps.etcd.engine.faults import describe
from fleet.apps.etcd.engine.observe import observe
from fleet.apps.etcd.engine.protocol import Etcd as Protocol
from fleet.apps.etcd.engine.secrets import (
    authorities,
    certificates_as_found,
    connection_as_found,
    names_of_keys,
    own_pair,
    secrets,
)
from fleet.apps.etcd.engine.seen import Seen
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.backup import stores
from fleet.kit.backup.outcome import backed_up, newest
from fleet.kit.backup.schedule import cron_job
from fleet.kit.certificates import Pair, client_context, found_context
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

    async def observe(self, app: Etcd, world: World) -> Seen:
        return self.judged(await self._observed(app, world))

    async def _observed(self, app: Etcd, world: World) -> Seen:
        if app.adoption is None:
            return await observe(app, world, await self._connected(app, world))
        placed = adoption.placed(app, world)
        etcd = None if placed.unfit else await self._connected(placed.app, placed.world)
        return adoption.known(placed, await observe(placed.app, placed.world, etcd))

    def judged(self, seen: Seen) -> Seen:
        """With what the operator's owner does not allow. What members run already came from whoever may make them."""
        own = {one for one in [seen.app.image] if one and DRIVER.version_in(one, self._images) is not None}
        barred = self._permissions.problems(seen.app, [*own, *images_of(seen)])
        return replace(seen, barred=barred, origins=self._permissions.restores)

    def attachments(self, seen: Seen) -> list[Object]:
        app, version = seen.app, seen.oldest_version
        founded = seen.ledger is not None and seen.ledger.identity
        if app.backup is None or not founded or version is None or stores.problems(app) or seen.barred:
            return []
        job = cron_job(
            PLAN,
            app,
            app.backup,
            image=chosen_image(seen, app, self._images),
            operator_image=self._images.get(OPERATOR, ""),
            version=version,
            identity=seen.ledger.identity if seen.ledger else "",
        )
        return [job]

    def concerns(self, seen: Seen) -> Concerns:
        held = authorities(seen.app, seen.world) if names.certified(seen.app) else None
        made = concerns(seen, self._images, held.trust if held else "")
        if not (problems := seen.bars("image")):
            return made
        refused = blocked("NotAllowed", "; ".join(map(str, problems)))
        if seen.stateful_set is None or seen.ledger is None or not seen.ledger.identity:
            return {**made, Concern.ADOPTION: (lambda: refused,)}
        return {**made, Concern.REVIVAL: (), Concern.ROLL: (lambda: refused,)}  # members are looked after as they are

    def at_rest(self, seen: Seen) -> Decision:
        return at_rest(seen)

    async def act(self, seen: Seen, step: Act, allowed: Allowed) -> None:
        etcd = await self._connected(seen.app, seen.world)
        if etcd is not None:
            await act(etcd.guarded(allowed), seen, step)

    def report(self, seen: Seen, last_backup: LastBackup | None) -> Report:
        members = tuple(_member(seen, pod) for pod in sorted(_all(seen), key=kit_names.ordinal))
        return Report(
            version=seen.oldest_version,
            desired_version=self._desired(seen),
            image_template=DRIVER.image_template(self._images),
            members=members,
            wanted=seen.app.members,
            leader=seen.leader,
            identity=(seen.ledger.identity or None) if seen.ledger else None,
            available=seen.is_served,
            last_backup=newest(seen.world.all("Pod"), last_backup),
            conditions=(
                *_backup_conditions(seen, last_backup),
                *adoption.conditions(seen, encrypt.pending(seen)),
                *_rolled(seen),
            ),
        )

    def _desired(self, seen: Seen) -> str:
        had = DRIVER.version_in(chosen_image(seen, seen.app, self._images), self._images)
        return had if had is not None and release(had).patch is not None else seen.app.version

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


def _backup_conditions(seen: Seen, known: LastBackup | None) -> tuple[tuple[str, str, str, str], ...]:
    if seen.app.backup is None:
        return ()
    if problems := [*stores.problems(seen.app), *seen.bars("backup.to")]:
        return (("BackedUp", "False", "CannotBackUp", "; ".join(map(str, problems))),)
    pods = seen.world.all("Pod")
    return (backed_up(seen.world.all("Job"), pods, newest(pods, known)),)


def _rolled(seen: Seen) -> tuple[tuple[str, str, str, str], ...]:
    """Whether every member was restarted for the last `fleet roll`, whose word is the message."""
    word = seen.app.roll
    if not word:
        return ()
    pods = [seen.world.pod(pod) or {"metadata": {}} for pod in seen.pods]
    through = all((pod["metadata"].get("annotations") or {}).get(ROLL) == word for pod in pods)
    return (("Rolled", "True" if through else "False", "Rolled" if through else "Rolling", word),)


def _all(seen: Seen) -> set[str]:
    return {*seen.pods, *seen.by_pod}


def _member(seen: Seen, pod: str) -> MemberStatus:
    status, member = seen.statuses.get(pod), seen.by_pod.get(pod)
    top = max((one.raft_index for one in seen.statuses.values()), default=0)
    lag = top - status.raft_applied_index if status else 0
    role = None
    if status is not None:
        role = "learner" if status.is_learner else "leader" if status.leads else "follower"
    identity = member.id if member else status.member_id if status else None
    return MemberStatus(
        name=pod,
        id=f"{identity:x}" if identity is not None else None,
        role=role,
        version=status.version if status else None,
        image=image_in(seen, seen.world.pod(pod) or {}) or None,
        ready=seen.healthy(pod),
        state=_state(seen, pod),
        lag=lag if lag > NOTED_LAG else None,
        alarms=tuple(sorted(alarm.kind for alarm in seen.alarms if alarm.member_id == identity)),
        volume=kit_names.claim(seen.app, pod) if seen.claim_of(pod) else None,
    )


def _state(seen: Seen, pod: str) -> Any:
    if kit_names.ordinal(pod) >= seen.app.members:
        return "leaving"
    if seen.healthy(pod):
        return "running"
    if pod in seen.learners or seen.ledger is None or not seen.ledger.identity:
        return "joining"
    return "failed" if "ended" in describe(seen, pod) else "unknown"
