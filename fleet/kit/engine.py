"""What the core needs of an engine: the half of its driver that acts. The pure half is in `fleet.apps`.

An engine observes and decides; it never touches Kubernetes itself. `observe` is bounded in time and never raises for
what it finds; `concerns` are pure functions of that; `act` carries out one request to the engine and may be repeated.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from fleet.kit.order import Concerns
from fleet.kit.status import LastBackup, MemberStatus
from fleet.kit.step import Act, Decision, Object
from fleet.kit.world import World
from fleet.model.app import App
from fleet.objects.resource import Resource

A = TypeVar("A", bound=App)
S = TypeVar("S")
Allowed = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What an engine says about its app, for the status of the custom resource."""

    version: str | None = None
    desired_version: str | None = None
    image_template: str | None = None
    members: tuple[MemberStatus, ...] = ()
    wanted: int = 0
    leader: str | None = None
    identity: str | None = None
    available: bool | None = None  # whether clients are served; None: not known
    last_backup: LastBackup | None = None
    conditions: tuple[tuple[str, str, str, str], ...] = field(default=())  # further ones: type, status, reason, message


class Engine(Protocol[A, S]):
    resource: Resource
    app: type[A]

    def surroundings(self, app: A, world: World, now: datetime.datetime) -> list[Object]:
        """What must be there before and around the members: Services, certificates. It may make new keys."""

    def keys(self, app: A, world: World) -> Sequence[str]:
        """The names of the Secrets with its keys: asked for where no cache has them, so that none is made anew."""

    async def observe(self, app: A, world: World) -> S: ...

    def attachments(self, seen: S) -> list[Object]:
        """What hangs on members that run, such as the schedule of backups."""

    def concerns(self, seen: S) -> Concerns:
        """What it has to do about each, as functions that the core asks in its order until one has a decision."""

    def at_rest(self, seen: S) -> Decision:
        """What it says of an app with nothing to do."""

    async def act(self, seen: S, act: Act, allowed: Allowed) -> None:
        """`allowed` raises when another process may lead by now: to be asked with every request that goes out."""

    def report(self, seen: S, last_backup: LastBackup | None) -> Report:
        """`last_backup` is the one in the status: pods that made backups go, and backups stay."""

    def data_of(self, app: A, world: World) -> list[Object]:
        """The claims with the app's data: what stays when it is deleted, unless it says otherwise."""

    def keeps_data(self, app: A) -> bool: ...

    async def forget(self, name: Any) -> None:
        """Connections to an app that is gone are closed."""

    async def close(self) -> None:
        """All of them: the process ends."""
