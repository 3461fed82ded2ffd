"""What is tried: an app type with a spec, its simulated servers, and the changes that it can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

from fleet.kit.app_type import AppType
from fleet.kit.driver import Refusal
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.simulate.cluster import Members, Object, SimulatedCluster, claims_in
from fleet.model.app import App
from fleet.model.types import amount
from fleet.names import GROUP, VERSION
from fleet.testing.conformance.plain_servers import PlainServers
from fleet.testing.conformance.trial import Trial
from fleet.text import count_noun

NAME, NAMESPACE = "db", "orders"


class Servers(Members, Protocol):
    """Simulated servers, with what a trial asks about all of them together."""

    silent: set[str]  # pods that the operator does not reach
    broken: set[str]  # images with which no server starts
    isolated: set[str]  # pods that other members do not reach
    elections: int  # how often a primary was elected because the former one was gone; 0 for ever where there is none

    def is_served(self) -> bool:
        """Return whether a client's write would be acknowledged now."""

    def lost_writes(self) -> int:
        """Return how many acknowledged writes are gone."""

    def membership(self) -> Mapping[str, str]:
        """Return who is a member by pod, each with its role that lasts ("voter", "learner"): what ends alike."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to an app that runs: git says something else, or something breaks."""

    name: str
    begin: Callable[[Trial], None]
    interrupts: bool = False  # takes away more than the app can lose: no client need be served meanwhile
    spec: Mapping[str, Any] = field(default_factory=dict)  # what git says otherwise, if that is all
    breaks: bool = False  # something broke: a member is gone without having been asked
    before: Mapping[str, Any] = field(default_factory=dict)  # what git said until then, other than of the subject
    proves: str = ""  # the capability that it takes: "scale", "upgrade", "downgrade"

    @property
    def resizes(self) -> bool:
        return self.proves == "scale"

    def __str__(self) -> str:
        return self.name


def change_spec(name: str, *, interrupts: bool = False, proves: str = "", **spec: Any) -> Change:
    """Return a change of fields of the custom resource's spec."""
    return Change(name, lambda trial: trial.change(**spec), interrupts, spec, proves=proves)


def break_it(name: str, begin: Callable[[Trial], None], *, interrupts: bool = False) -> Change:
    """Return something that breaks, or that somebody does behind the operator's back."""
    return Change(name, begin, interrupts, breaks=True)


def kill_pod(ordinal: int, *, interrupts: bool = False) -> Change:
    """Return the loss of a pod, whose volume stays."""
    pod = f"{NAME}-{ordinal}"
    return break_it(f"pod {ordinal} killed", lambda trial: trial.cluster.kill_pod(pod), interrupts=interrupts)


def lose_volume(claim: str, *, interrupts: bool = False) -> Change:
    """Return the loss of a disk: its pod ends, and it is empty when the pod is back."""
    return break_it(f"volume {claim} lost", lambda trial: trial.lose_volume(claim), interrupts=interrupts)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What leaves the operator with nothing that it may do: uncertain, or for a person to decide.

    `reason` is what it says. `end` ends the trouble, and the app is to be as it was, with what git says by then.
    """

    name: str
    begin: Callable[[Trial], None]
    reason: str
    end: Callable[[Trial], None]
    is_git: bool = False  # it is git itself that asks for what cannot be
    leaves: tuple[str, ...] = ()  # parts of the fingerprint that are otherwise afterwards


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Subject:
    """`make_engine` makes what a new process of the operator has, given the servers that it is to talk to."""

    kind: str
    spec: Mapping[str, Any]
    make_servers: Callable[[], Any]
    make_engine: Callable[[Any], Engine[Any, Any]]
    changes: tuple[Change, ...] = ()
    bad_image: str = ""  # an image with which its servers are made not to start; "" leaves that case out
    bad_spec: Mapping[str, Any] = field(
        default_factory=dict
    )  # what asks for that image; the field `image` unless given
    app_type: AppType[Any] | None = None  # for what it promises: what changes cost, and what it can do
    quorum: bool = False  # whether its members agree by a majority
    api_group: str = GROUP
    minds: tuple[tuple[str, str], ...] = ()  # changes of which the second comes in the middle of the first
    begins_again: bool = True  # whether an app that is made again finds the data of the one before
    takes_data: Mapping[str, Any] | None = None  # what of the spec has volumes go with the app
    irreplaceable: frozenset[str] = frozenset()  # Secrets that only a person can bring back
    as_found: tuple[Object, ...] = ()  # StatefulSets as others made them, which the type takes over
    proved_by: Mapping[str, str] = field(default_factory=dict)  # tests that prove what no change here takes
    troubles: tuple[Trouble, ...] = ()
    wanted_meanwhile: Mapping[str, Any] = field(default_factory=dict)  # what git asks for during a trouble
    next_release: Callable[[Any], Engine[Any, Any]] | None = (
        None  # the engine as another release of the operator has it
    )
    late: Callable[[Any, bool], None] | None = None  # has the servers' answers to requests come too late, or in time

    def make_trial(self, **spec: Any) -> Trial:
        """Return a trial in which nothing has been reconciled yet."""
        servers = self.make_servers()
        manifest: Object = {
            "apiVersion": f"{self.api_group}/{VERSION}",
            "kind": self.kind,
            "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "app", "generation": 1},
            "spec": {**self.spec, **spec},
        }
        return Trial(manifest, servers, self.make_engine)

    def find(self, name: str) -> Change:
        """Return the change of a name."""
        return next(change for change in self.changes if change.name == name)


def declared_subject(app_type: AppType[Any], app: App) -> Subject:
    """Return what is to be tried of a type that names no half that acts, by one of its apps.

    Its changes follow from the declaration: another version, other numbers of members, larger volumes, a lost pod.
    """
    count, known, current = app_type.members(app), app_type.versions, app_type.version(app)
    versions = [
        version
        for version in known.series
        if known.series_of(current) != version and not isinstance(app_type.path(current, version), Refusal)
    ]
    alone = count == 1  # whoever restarts the one member interrupts its clients
    fields = type(app).model_fields
    changes = [
        replace(
            change_spec(f"version {end}", interrupts=alone, proves=proves, version=end),
            before={} if known.series_of(current) == start else {"version": start},
        )
        for proves, steps in (("upgrade", _upgrades(app_type, current)), ("downgrade", _downgrades(app_type)))
        for start, end in steps[:1]
    ]
    if app_type.caps.scale:
        changes += [
            change_spec(count_noun(number, "member"), proves="scale", members=number)
            for number in (count + 2, count + 1)
        ]
    if "storage" in fields:
        doubled = f"{int(amount(app.storage)) * 2}"  # type: ignore[attr-defined]
        changes.append(change_spec("larger volumes", storage=doubled))
    changes.append(kill_pod(0, interrupts=alone))
    minds = tuple((first.name, second.name) for first, second in pairwise(changes[:-1]))
    template = app_type.image_template({})
    bad = app_type.versions.image_of(versions[-1], template) if versions else ""
    return Subject(
        kind=app.kind(),
        spec=app.spec(),
        app_type=app_type,
        takes_data={"volume": {"onDelete": "delete"}} if "volume" in fields else None,
        make_servers=PlainServers,
        make_engine=lambda servers: PlainEngine(app_type, {}),
        changes=tuple(changes),
        bad_image=bad,
        bad_spec={"version": versions[-1]} if versions else {},
        minds=minds,
        api_group=app.api_group,
    )


def _upgrades(app_type: AppType[Any], current: str) -> list[tuple[str, str]]:
    """Return the series between which a member goes forward, those first that begin with the current one."""
    series = app_type.versions.series
    steps = [(start, end) for at, start in enumerate(series) for end in series[at + 1 :]]
    ways = [step for step in steps if not isinstance(app_type.path(*step), Refusal)]
    return sorted(ways, key=lambda step: step[0] != app_type.versions.series_of(current))


def _downgrades(app_type: AppType[Any]) -> list[tuple[str, str]]:
    """Return the series between which a member goes back."""
    series = app_type.versions.series
    steps = [(start, end) for at, end in enumerate(series) for start in series[at + 1 :]]
    return [step for step in steps if not isinstance(app_type.path(*step), Refusal)]


def fingerprint(cluster: SimulatedCluster, servers: Servers) -> dict[str, Any]:
    """Return what must be the same at the end of a trial, however it went there: UIDs, times and ids left out."""
    sets = {
        found["metadata"]["name"]: {
            **{name: found["spec"].get(name) for name in ("replicas", "template", "updateStrategy")},
            "start": (found["spec"].get("ordinals") or {}).get("start", 0),
        }
        for found in cluster.list_objects("StatefulSet")
    }
    used = {claim for found in cluster.list_objects("Pod") for claim in claims_in(found)}
    sizes = {  # of members; which claims of former ones are kept depends on how far they came
        found["metadata"]["name"]: found["spec"]["resources"]["requests"]["storage"]
        for found in cluster.list_objects("PersistentVolumeClaim")
        if found["metadata"]["name"] in used
    }
    pods = {
        found["metadata"]["name"]: (found["spec"]["containers"][0]["image"], found["spec"]["containers"][0].get("args"))
        for found in cluster.list_objects("Pod")
    }
    names = {
        kind: [found["metadata"]["name"] for found in cluster.list_objects(kind)]
        for kind in ("Service", "Secret", "ConfigMap", "PodDisruptionBudget", "CronJob", "Job")
    }
    files = {found["metadata"]["name"]: sorted(found.get("data", {})) for found in cluster.list_objects("ConfigMap")}
    return {
        "sets": sets,
        "claims": sizes,
        "pods": pods,
        "names": names,
        "files": files,
        "members": dict(servers.membership()),
    }
