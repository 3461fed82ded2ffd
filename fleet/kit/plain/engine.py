"""The acting half of app types that name none: members are known by their kubelets' word, and asked nothing."""

from __future__ import annotations

import datetime
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from fleet.errors import ConfigurationError
from fleet.kit import names
from fleet.kit.app_type import AppType
from fleet.kit.engine import Allowed, Report
from fleet.kit.order import Concerns
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.plain.decide import all_pods, at_rest, concerns
from fleet.kit.plain.observation import PlainObservation, RoleState, observe
from fleet.kit.pods import surroundings
from fleet.kit.status import LastBackup, MemberStatus
from fleet.kit.step import Act, Decision, Object
from fleet.kit.world import World, cannot_start
from fleet.model.app import ROLL, App

A = TypeVar("A", bound=App)


class PlainEngine(Generic[A]):
    """The engine of an app type by its declaration alone.

    Raise ConfigurationError for a type whose members do not simply start by themselves: it needs a half that acts.
    """

    def __init__(self, app_type: AppType[A], images: Mapping[str, str], permissions: Permissions = DEFAULT) -> None:
        for role in app_type.roles:
            if role.joining != "itself" or role.votes or role.bootstrap in ("seed", "agent"):
                raise ConfigurationError(
                    f"members of {app_type.name} do not start by themselves, so the type must name the half that acts",
                    hint="`engine` of the type is the text 'module:Class'",
                )
            if role.certificates:
                raise ConfigurationError(f"{app_type.name} has certificates, which only a half that acts makes")
        self.app_type = app_type
        self.app = app_type.app
        self.resource = app_type.resource
        self._images = images
        self._permissions = permissions

    def surroundings(self, app: A, world: World, now: datetime.datetime) -> list[Object]:
        return [*surroundings(self.app_type, app), self._connection(app)]

    def keys(self, app: A, world: World) -> tuple[str, ...]:
        return ()

    async def observe(self, app: A, world: World) -> PlainObservation[A]:
        seen = observe(self.app_type, app, world, self._images)
        own = {image for state in seen.roles for image in state.images()}
        if (image := getattr(app, "image", None)) and self.app_type.version_in(image, self._images) is not None:
            own.add(image)
        return replace(seen, barred=self._permissions.problems(app, [*own]))

    def attachments(self, seen: PlainObservation[A]) -> list[Object]:
        return []

    def concerns(self, seen: PlainObservation[A]) -> Concerns:
        return concerns(seen)

    def at_rest(self, seen: PlainObservation[A]) -> Decision:
        return at_rest(seen)

    async def act(self, seen: PlainObservation[A], act: Act, allowed: Allowed) -> None:
        raise NotImplementedError(f"{self.app_type.name} is asked for nothing, and so not for {act.what}")

    def report(self, seen: PlainObservation[A], last_backup: LastBackup | None) -> Report:
        version = self.app_type.version(seen.app)
        return Report(
            version=seen.version,
            desired_version=None if getattr(seen.app, "image", None) else self.app_type.versions.exact(version),
            image_template=self.app_type.image_template(self._images),
            members=tuple(_member(state, pod) for state, pod in all_pods(seen)),
            wanted=sum(state.count for state in seen.roles),
            identity=(seen.ledger.identity or None) if seen.ledger else None,
            available=seen.is_served,
            last_backup=last_backup,
            conditions=_rolled(seen),
        )

    def data_of(self, app: A, world: World) -> list[Object]:
        owned = [
            re.compile(rf"{re.escape(names.claim(app, names.stateful_set(app, role.name), volume.name))}-\d+")
            for role in self.app_type.roles
            for volume in role.volumes
        ]
        claims = world.all("PersistentVolumeClaim")
        return [claim for claim in claims if any(name.fullmatch(claim["metadata"]["name"]) for name in owned)]

    def keeps_data(self, app: A) -> bool:
        return getattr(getattr(app, "volume", None), "on_delete", "keep") == "keep"

    async def forget(self, name: Any) -> None:
        """Do nothing: there are no connections."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _connection(self, app: A) -> Object:
        """Return the Secret with what clients need, which is the same for every app type."""
        connection = self.app_type.connection(app)
        first = self.app_type.roles[0]
        hosts = [names.host(app, names.pod(app, ordinal)) for ordinal in range(first.count(app))]
        values = {
            "host": connection.host,
            "port": str(connection.port),
            "url": connection.url,
            "endpoints": ",".join(f"{connection.scheme}://{host}:{connection.port}" for host in hosts),
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": names.metadata(app, connection.secret),
            "data": {name: b64encode(value.encode()).decode() for name, value in values.items()},
        }


def _member(state: RoleState[Any], pod: str) -> MemberStatus:
    found, seen = state.seen.world.pod(pod), state.seen
    image = state.image_in(found["spec"]) if found else ""
    claims = [claim["metadata"]["name"] for _, claim in state.claims(pod) if claim is not None]
    return MemberStatus(
        name=pod,
        role=state.role.name or None,
        version=seen.app_type.version_in(image, seen.images) if image else None,
        image=image or None,
        ready=state.is_healthy(pod),
        state=_state(state, pod),
        volume=claims[0] if claims else None,
    )


def _state(state: RoleState[Any], pod: str) -> Any:
    found, record = state.seen.world.pod(pod), state.records.get(pod)
    if names.ordinal(pod) >= state.count:
        return "leaving"
    if state.is_healthy(pod):
        return "running"
    if found is not None and cannot_start(found):
        return "failed"
    return "joining" if record is None or record.phase != "settled" else "unknown"


def _rolled(seen: PlainObservation[Any]) -> tuple[tuple[str, str, str, str], ...]:
    """Return the condition whether every member was restarted for the last `fleet roll`, whose word is the message."""
    word = seen.app.roll
    if not word:
        return ()
    pods = [seen.world.pod(pod) or {"metadata": {}} for state in seen.roles for pod in state.pods]
    is_through = all((pod["metadata"].get("annotations") or {}).get(ROLL) == word for pod in pods)
    return (("Rolled", "True" if is_through else "False", "Rolled" if is_through else "Rolling", word),)
