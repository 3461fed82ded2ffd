"""What the operator reports about an app, the same for every engine: the status of its custom resource."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from fleet.model.base import KeyedBy, Model
from fleet.model.types import Many

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]

Conditions = tuple[tuple[str, str, str, str], ...]  # what is said of an app: type, status, reason, message


class Condition(Model, frozen=True):
    """One aspect of the app's state, in Kubernetes' own form."""

    type: Annotated[str, Field(max_length=316)]
    """Which aspect: Ready, Available, Progressing, Degraded, Blocked, Paused, BackedUp; of an app that was taken over
    also Adopted and Converged; of members that say it UsersReady (they accept the passwords of all users) and
    SettingsInForce (they run with the settings in git)."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence for people."""
    last_transition_time: Time
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation of the spec that this was judged on."""


class MemberStatus(Model, frozen=True):
    """One member as it was last seen."""

    name: str
    """Its pod."""
    id: str | None = None
    """What the engine calls it."""
    role: str | None = None
    """Its role in the engine, such as leader, follower or learner."""
    version: str | None = None
    """The version that it runs, as it says itself."""
    image: str | None = None
    """The container image that it has."""
    ready: bool = False
    """Whether it serves clients."""
    state: Literal["joining", "running", "leaving", "failed", "unknown"] = "unknown"
    """Where it is in its life."""
    lag: Annotated[int, Field(ge=0)] | None = None
    """How far it is behind the leader, in the engine's own unit."""
    alarms: Many[str] = ()
    """What the engine itself complains about."""
    volume: str | None = None
    """The claim that holds its data."""


class LastBackup(Model, frozen=True):
    """The newest backup that is complete."""

    time: Time
    """When it was finished."""
    place: str
    """Where it is."""
    version: str
    """The version of the app that wrote it."""
    size: Annotated[int, Field(ge=0)] | None = None
    """Its size in bytes."""
    checksum: str | None = None
    """Its checksum, as algorithm:digest."""
    position: str | None = None
    """How far it reaches: a revision, an LSN, a GTID set."""


class Status(Model, frozen=True):
    """What is known about the app."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that the operator has last acted on."""
    health: Literal["Healthy", "Progressing", "Degraded", "Failed", "Paused", "Unknown"] | None = None
    """All of it in one word."""
    message: str | None = None
    """What is going on, in a sentence."""
    version: str | None = None
    """The version that every member runs; during an upgrade, the oldest one."""
    desired_version: str | None = None
    """The version that members are to run: exactly, or a series of which the image decides the patch."""
    image_template: str | None = None
    """The image that the operator has for each version, with {version}, {series} or {tag} in it."""
    ready: str | None = None
    """Members that serve clients, of all that there should be, as in "3/3"."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """How many members there are."""
    members: Annotated[Many[MemberStatus], KeyedBy("name")] = ()
    """Each member as it was last seen."""
    leader: str | None = None
    """The member that takes writes."""
    identity: str | None = None
    """What the engine calls this cluster of members; a second one is never begun under the same name."""
    endpoint: str | None = None
    """Host and port for clients."""
    last_backup: LastBackup | None = None
    """The newest backup that is complete."""
    conditions: Annotated[Many[Condition], KeyedBy("type")] = ()
    """Aspects of the app's state, one of each type."""
