"""The kind Operation: what a person asks of an app once, and how far it is.

Its spec says which app and what to do and nothing else, and cannot be changed. So whoever may create Operations and do
nothing else can do what is listed here, in the operator's way and at its time, and no more.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from fleet.kit.observe.world import when
from fleet.kit.status import LastBackup, Time
from fleet.model.base import Model, Rule
from fleet.model.types import Many
from fleet.names import GROUP, VERSION
from fleet.objects.resource import Resource

KIND = "Operation"
RESOURCE = Resource(GROUP, VERSION, KIND, "operations", namespaced=True)
Object = dict[str, Any]
Verb = Literal["backup", "switchover", "roll", "restart", "rebuild", "defragment"]
VERBS: tuple[Verb, ...] = get_args(Verb)
Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Refused"]
ENDED = frozenset({"Succeeded", "Failed", "Refused"})
MEMBER_VERBS = ("restart", "rebuild")

_Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class OperatedApp(Model, frozen=True):
    """The app, in the Operation's own namespace."""

    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
    """The kind of its custom resource, such as Etcd."""
    group: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)] = GROUP
    """The API group of that kind."""
    name: _Name
    """The name of its custom resource."""


class OperationSpec(Model, frozen=True):
    """What is asked for. It cannot be changed."""

    app: OperatedApp
    """The app that it is about."""
    do: Verb
    """What to do: make a backup; let another member lead; restart every member, one at a time; restart one member; give
    one member an empty volume and its data from the others; have every member's file made smaller."""
    to: _Name | None = None
    """Of a switchover: the pod of the member that is to lead; any that is well unless said."""
    member: _Name | None = None
    """Of restart and rebuild: the pod of the member."""

    rules = (
        Rule(
            cel="self == oldSelf",
            message="an Operation is not changed: make another one",
            allows=lambda old, new: bool(old == new),
        ),
        Rule(
            cel="has(self.member) == (self.do in ['restart', 'rebuild'])",
            message="is given for restart and rebuild, and for nothing else",
            holds=lambda spec: (spec.member is not None) == (spec.do in MEMBER_VERBS),
            field="member",
        ),
        Rule(
            cel="!has(self.to) || self.do == 'switchover'",
            message="is given for a switchover, and for nothing else",
            holds=lambda spec: spec.to is None or spec.do == "switchover",
            field="to",
        ),
    )


class OperationStatus(Model, frozen=True):
    """How far it is."""

    phase: Phase
    """Pending: it waits; Running: it has begun; Succeeded, Failed and Refused: it has ended, and nothing more happens
    for it."""
    reason: str
    """Why it is in this phase, in one word for programs."""
    message: str
    """What goes on, in a sentence."""
    waits_for: str | None = None
    """What it waits for, in one word for programs."""
    objections: Many[str] = ()
    """What speaks against it, by name."""
    begun: Time | None = None
    """When it began."""
    ended: Time | None = None
    """When it ended."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the Operation that this is about."""
    before: str | None = None
    """What was there when it began, by which its effect is known: who led, the pod or the member that is replaced."""
    target: str | None = None
    """What it makes so: who is to lead; the word of the roll."""
    done: Many[str] = ()
    """The members that are through with it."""
    job: str | None = None
    """The Job that does it."""
    backup: LastBackup | None = None
    """The backup that it made."""


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """What is remembered of an operation that has begun."""

    before: str = ""
    target: str = ""
    done: tuple[str, ...] = ()
    job: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An Operation as a cache has it. `spec` is None for one that this release does not understand."""

    object: Object
    spec: OperationSpec | None
    phase: Phase
    progress: OperationProgress

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def status(self) -> Mapping[str, Any]:
        return self.object.get("status") or {}

    @property
    def created(self) -> str:
        return str(self.object["metadata"].get("creationTimestamp", ""))

    @property
    def begun(self) -> str:
        """Return when it began; "" before."""
        return str(self.status.get("begun") or "")

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    def __str__(self) -> str:
        return f"{self.spec.do if self.spec is not None else 'operation'} ({self.name})"


def read_operation(found: Object) -> Operation:
    """Return an Operation by its object. Its status is the operator's own, of any release."""
    try:
        spec: OperationSpec | None = OperationSpec.read(found.get("spec") or {})
    except ValidationError:
        spec = None
    status = found.get("status") or {}
    progress = OperationProgress(
        str(status.get("before") or ""),
        str(status.get("target") or ""),
        tuple(status.get("done") or ()),
        str(status.get("job") or ""),
    )
    return Operation(found, spec, status.get("phase") or "Pending", progress)


def app_of(found: Object) -> tuple[str, str, str]:
    """Return group, kind and name of the app that an Operation's object names."""
    named = (found.get("spec") or {}).get("app") or {}
    return str(named.get("group") or GROUP), str(named.get("kind") or ""), str(named.get("name") or "")


def seconds_since(time: str, now: datetime.datetime) -> float:
    """Return for how long something is ago; 0 for ""."""
    return (now - when(time)).total_seconds() if time else 0.0
