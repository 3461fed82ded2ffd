"""The pure half of a driver: what a spec means, what a change of it means, and whether it can be done at all.

The half that acts, with the same names, is in the operator. Nothing here does I/O, so a plan can say what would
happen without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from fleet.kit.programs import Client
from fleet.model.app import App, Connection
from fleet.model.base import forbidden_changes
from fleet.model.types import amount, is_quantity
from fleet.names import VERSION
from fleet.objects.resource import Resource
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.kit.adoption.discovery import Discovery
    from fleet.kit.backup.plan import BackupPlan

A = TypeVar("A", bound=App)

LACKS = "this release of fleet has no way to do that"
CONTRACT = 1  # of this module and `fleet.kit.operate.engine`; a type says which one it was written for


@dataclass(frozen=True, slots=True)
class EngineMeta:
    """What an engine is."""

    name: str  # as people write it: "etcd", "PostgreSQL"
    versions: tuple[str, ...]  # release series that the driver knows, oldest first
    roles: tuple[str, ...]  # of members, the one that takes writes first
    ports: Mapping[str, int]
    quorum: Literal["majority", "external", "none"]
    fewest: int = 1
    most: int = 9
    short_names: tuple[str, ...] = ()  # for kubectl
    words: str = ""  # one sentence for the catalogue and `kubectl explain`


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do. What it cannot is refused with a reason, never faked; what it does not claim, it cannot."""

    scale: bool = False
    upgrade: bool = False
    downgrade: bool = False
    backup: bool = False
    restore: bool = False
    adopt: bool = False


class Impact(StrEnum):
    """What a changed field costs."""

    NONE = "none"  # bookkeeping of the operator's; members do not notice
    RELOAD = "reload"  # members take it while they run
    RESTART = "restart"  # members restart one at a time
    SCALE = "scale"  # members join or leave
    UPGRADE = "upgrade"  # members restart on another version
    GROW = "grow"  # volumes grow while members run
    LOSS = "loss"  # data that only lost members have may be given up
    IMMUTABLE = "immutable"  # cannot be changed


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a spec, or a change of one, cannot be carried out."""

    field: str
    message: str
    hint: str | None = None

    @property
    def setting(self) -> str:
        """The field of the app that it is about, whichever part of that."""
        return self.field.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" + (f" ({self.hint})" if self.hint else "")


WayBack = Literal["roll", "downgrade", "restore"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of an upgrade: every member restarts once, on the version `target`."""

    current: str
    target: str
    kind: Literal["patch", "upgrade", "downgrade"]
    way_back: WayBack  # once every member runs the target
    note: str = ""

    def __str__(self) -> str:
        return f"{self.current} → {self.target}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """There is no way from one version to the other."""

    reason: str
    hint: str | None = None


Path = tuple[Hop, ...] | Refusal


class Driver(Generic[A]):
    """An engine's knowledge, as plans, definitions and pages ask for it. An app type is one by its declaration
    (`fleet.kit.app_type`).

    One of an installed package also says `contract = 1`: a fleet with another contract refuses it, and says so.
    """

    contract: ClassVar[int] = CONTRACT
    engine: ClassVar[str] = ""  # "module:Class" of the half that acts, loaded by the operator; "": what all types share
    app: type[A]

    @property
    def meta(self) -> EngineMeta:
        """Return what the engine is."""
        raise NotImplementedError

    @property
    def caps(self) -> Capabilities:
        """Return what the driver can do."""
        return Capabilities()

    @property
    def impacts(self) -> Mapping[str, Impact]:
        """Return what a change of each field costs; the longest name that fits counts."""
        return {}

    @property
    def resource(self) -> Resource:
        """Return the custom resource of its apps."""
        kind = self.app.kind()
        plural = kind.lower() if kind.lower().endswith("s") else f"{kind.lower()}s"
        return Resource(self.app.api_group, VERSION, kind, plural, True)

    def discovery(self) -> Discovery | None:
        """Return how it finds what others set up; None for a driver that takes over nothing."""
        return None

    def validate(self, spec: A, previous: A | None = None) -> list[Problem]:
        """Return what is wrong with a change; of a new app, what this release cannot do for it.

        What no release could make sense of is refused when a spec is constructed.
        """
        problems = list(_list_unsupported(self, spec, previous))
        young = (rule for rule in spec.rules if not rule.stored and rule.holds and not rule.holds(spec))
        problems += [Problem(rule.field, rule.message, rule.remedy(spec)) for rule in young]
        if previous is None:
            return problems
        problems += [Problem(*found) for found in forbidden_changes(previous, spec)]
        before, after = self.version(previous), self.version(spec)
        path = self.path(before, after)
        if isinstance(path, Refusal) and not any(problem.field == "version" for problem in problems):
            problems.append(Problem("version", path.reason, path.hint))
        return problems

    def classify(self, field: str) -> Impact:
        """Return what it costs to change a field, such as "resources.memory". Unknown fields are taken to cost a
        restart."""
        parts = field.split(".")
        names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((self.impacts[name] for name in names if name in self.impacts), Impact.RESTART)

    def path(self, current: str, target: str) -> Path:
        """Return the hops from one version to another, or why there is no way."""
        raise NotImplementedError

    def version(self, spec: A) -> str:
        """Return the version that a spec asks for."""
        return str(getattr(spec, "version"))  # noqa: B009 - of the subclass, which the base does not know

    def stays(self, spec: A, status: Mapping[str, Any]) -> str:
        """Say why members go on with the version that they run though the spec says another; "" if they do not."""
        return ""

    def unknown_release(self, spec: A) -> str:
        """Say that the spec names a release that may exist and that this release of fleet does not know; else ""."""
        return ""

    def members(self, spec: A) -> int:
        """Return how many pods with data a spec asks for."""
        return int(getattr(spec, "members"))  # noqa: B009

    def losses(self, before: A, after: A) -> list[str]:
        """Say what a change of the spec lets the operator do that may cost data, in words for a plan."""
        return []

    def backup_plan(self) -> BackupPlan[A] | None:
        """Return how apps are backed up and put back; None for a driver that makes no backups."""
        return None

    def client(self, spec: A) -> Client:
        """Return the engine's own client, for `fleet connect`."""
        raise NotImplementedError

    def connection(self, spec: A) -> Connection:
        """Return how programs connect, by a spec `as_noted`."""
        return spec.connection

    def notes(self, spec: A) -> str:
        """Return the ConfigMap in which the operator notes what it found where it took over; "" if it notes nothing."""
        return ""

    def objection(self, spec: A, found: dict[str, Any]) -> str:
        """Return what the StatefulSet that it is to take over says against that, as far as it is seen there; "" if
        nothing."""
        return ""

    def stateful_sets(self, spec: A) -> tuple[str, ...]:
        """Return the names of an app's StatefulSets: those that others made, if it took over."""
        return ((spec.adoption.stateful_set if spec.adoption else None) or spec.name,)

    def as_noted(self, spec: A, notes: Mapping[str, Any]) -> A:
        """Return the app with the names that it was found with, from that ConfigMap."""
        return spec

    def changed(self, before: A, after: A) -> Iterator[str]:
        """Return the fields of the spec that differ, by path."""
        yield from _changed(before, after, "")


def _changed(before: object, after: object, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):  # entries may cost one thing and another
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield f"{path}.{name}"
        return
    fields = getattr(type(after), "model_fields", None)
    if fields is None or type(before) is not type(after):
        if before != after:
            yield path
        return
    for name, field in fields.items():
        if not path and name in ("name", "namespace", "opts"):
            continue
        old, new = getattr(before, name), getattr(after, name)
        if is_quantity(field) and old and new and amount(old) == amount(new):
            continue  # 1024Mi and 1Gi are written differently and mean the same
        yield from _changed(old, new, f"{path}.{name}" if path else name)


def _list_unsupported(driver: Driver[Any], spec: App, previous: App | None) -> Iterator[Problem]:
    """Yield what a driver cannot do for a spec, by what it says of itself. It is refused with a reason, never faked."""
    caps, meta = driver.caps, driver.meta
    members = driver.members(spec)
    if not meta.fewest <= members <= meta.most:
        yield Problem(
            "members", f"{meta.name} cannot have {count_noun(members, 'member')}", f"{meta.fewest} to {meta.most}"
        )
    if not caps.backup and getattr(spec, "backup", None):
        yield Problem("backup", f"{meta.name} cannot be backed up: {LACKS}", "leave it out")
    if not caps.restore and getattr(spec, "restore_from", None):
        yield Problem(
            "restore_from", f"{meta.name} cannot start from a backup: {LACKS}", "leave it out, and load the data"
        )
    if not caps.adopt and spec.adoption:
        yield Problem("opts.adopt", f"{meta.name} that others set up cannot be taken over: {LACKS}", "make a new app")
    if previous is None:
        return
    before = driver.members(previous)
    if not caps.scale and members != before:
        yield Problem("members", f"{meta.name} cannot be scaled: {LACKS}", f"leave it at {before}")
    current, target = driver.version(previous), driver.version(spec)
    if not caps.upgrade and target != current:
        yield Problem("version", f"{meta.name} cannot be upgraded: {LACKS}", f"leave it at {current}")
    elif not caps.downgrade and _series(meta.versions, target) < _series(meta.versions, current):
        yield Problem(
            "version", f"{meta.name} cannot go back from {current} to {target}", "restore a backup into a new app"
        )


def _series(known: tuple[str, ...], version: str) -> int:
    """Return which of the series that the driver knows a version is of; -1 for one that it does not know."""
    found = (number for number, series in enumerate(known) if f"{version}.".startswith(f"{series}."))
    return next(found, -1)
