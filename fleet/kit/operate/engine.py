"""The contract of the half of an app type that acts, and the view that the reconciler has of any engine.

`ActingHalf` is what an app type brings: how to ask a member, and a few requests to members. With what the type answers
about an observation (`fleet.kit.observe.answers`) it is all: the procedures are in `fleet.kit.decide`, the same for
all.

`Engine` is all that the reconciler knows. An engine observes and decides; it never touches Kubernetes itself. `observe`
is bounded in time and never raises for what it finds; `concerns` are pure functions of that; `act` carries out one
request to the engine and may be repeated.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fleet.errors import ResourceError
from fleet.kit.observe.observation import Agreement, MemberState, Observation, Silence
from fleet.kit.observe.world import World
from fleet.kit.order import Concern, Concerns
from fleet.kit.status import Conditions, LastBackup, MemberStatus
from fleet.kit.step import Act, Decision, NotYetError, Object, Step
from fleet.model.app import App
from fleet.objects.resource import Resource

A = TypeVar("A", bound=App)
S = TypeVar("S")
T = TypeVar("T")
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
    conditions: Conditions = ()  # further ones


@dataclass(frozen=True, slots=True)
class Done:
    """The request has been carried out, or had been before."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The request is under way. The next observation says how far it is: nobody waits for it here."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The engine is not ready for the request, and nothing is wrong: it is made again."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The engine says no, and asking again alone will not help."""

    why: str
    hint: str | None = None


Progress = Done | Begun | NotYet | Declined


def require_progress(progress: Progress) -> None:
    """Raise NotYetError for what is for later, and ResourceError for what is refused."""
    match progress:
        case NotYet(why=why):
            raise NotYetError(why)
        case Declined(why=why, hint=hint):
            raise ResourceError(why, hint=hint)


@dataclass(frozen=True, slots=True)
class Connector(Generic[T]):
    """How to connect to the members of one app."""

    mark: bytes  # tells one set of credentials from another: with others there is another client
    open: Callable[[], Awaitable[T]]


class ActingHalf(Protocol[A, T]):
    """The half of an app type that talks to members, over a client of its own. The operator alone loads it.

    The kit asks for these acts by name, with the pod that each is about and the engine's id of its member:

        announce   put a member on the list, before its pod is made (joining="announced")
        admit      let a member in whose pod runs (joining="added")
        vote       give a member that has caught up its vote
        drain      take a member off the list, or empty it, before its pod goes for good
        forget     have the others forget a member whose pod is gone
        defragment have the member of `pod` give back the space that is free in its files
        lead       have the member of `pod` lead; engines that choose themselves take it for a wish
        seed       have the member of `pod` begin the cluster, once (bootstrap="seed")
        user       have every member accept the passwords with the marks `accept` for `user`, beside those that it has
                   or `alone`, and log in with `use`: `read_passwords` has what the marks stand for
        reload     have the member of `pod` take the `settings` while it runs

    and for those that the engine names in its own findings. Each may be repeated, and begins something at most: what
    takes long is under way when it returns, and the next observation tells how far it is. What is awaited in a call is
    lost in a crash; what is observed is not.
    """

    def connector(self, app: A, world: World) -> Connector[T] | None:
        """Return how to connect with the credentials that there are now; None while there are none."""

    async def close(self, client: T) -> None:
        """Close what `Connector.open` made."""

    async def probe(self, client: T, observation: Observation[A], pod: str) -> MemberState | Silence | None:
        """Ask one member how it is, bounded in time: it never raises for what it finds. None: it has no address yet."""

    async def membership(self, client: T, observation: Observation[A]) -> Agreement | None:
        """Ask those whose word counts who the members are, after all probes; None if they could not be asked."""

    async def act(self, client: T, observation: Observation[A], act: Act, allowed: Allowed) -> Progress:
        """Make one request. `allowed` raises when another process may lead by now: to be asked with every request."""


class Engine(Protocol[A, S]):
    resource: Resource
    app: type[A]

    @property
    def further_kinds(self) -> Sequence[str]:
        """Return the kinds of objects that its apps have beside those that all apps have."""

    def surroundings(self, app: A, world: World, now: datetime.datetime) -> list[Object]:
        """Return what must be there before and around the members: Services, certificates. It may make new keys."""

    def hindrances(self, app: A, world: World) -> list[Object]:
        """Return what goes before members are looked at: it may be why they cannot be reached."""

    def keys(self, app: A, world: World) -> Sequence[str]:
        """Return the names of the Secrets with its keys: asked for where no cache has them, so that none is
        made anew."""

    def found_sets(self, app: A, world: World) -> Sequence[str]:
        """Return the names of the StatefulSets that others made and that are the app's, or are to be: no cache has
        them."""

    async def observe(self, app: A, world: World) -> S: ...

    def attachments(self, seen: S) -> list[Object]:
        """Return what hangs on members that run, such as the schedule of backups."""

    def concerns(self, seen: S) -> Concerns:
        """Return what it has to do about each, as functions that the core asks in its order until one has a
        decision."""

    def at_rest(self, seen: S) -> Decision:
        """Return what it says of an app with nothing to do."""

    def answer_operations(self, seen: S, concern: Concern | None, decision: Decision) -> tuple[Step, ...]:
        """Return what people are told who asked for something, beside what was decided about which concern."""

    async def act(self, seen: S, act: Act, allowed: Allowed) -> None:
        """Carry out one request. `allowed` raises when another process may lead by now: to be asked with every request
        that goes out."""

    def report(self, seen: S, last_backup: LastBackup | None) -> Report:
        """Say how the app is. `last_backup` is the one in the status: pods that made backups go, and backups stay."""

    def data_of(self, app: A, world: World) -> list[Object]:
        """Return the claims with the app's data: what stays when it is deleted, unless it says otherwise."""

    def keeps_data(self, app: A) -> bool: ...

    async def forget(self, name: Any) -> None:
        """Close connections to an app that is gone."""

    async def close(self) -> None:
        """Close all of them: the process ends."""
