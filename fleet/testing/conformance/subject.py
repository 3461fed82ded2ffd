"""What is tried: an app type with a spec, its simulated servers, and the changes that it can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from fleet.kit.app_type import AppType
from fleet.kit.driver import Refusal
from fleet.kit.operate.engine import Engine
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.simulate.cluster import Members, Object, SimulatedCluster
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

    def __str__(self) -> str:
        return self.name


def change_spec(name: str, *, interrupts: bool = False, **spec: Any) -> Change:
    """Return a change of fields of the custom resource's spec."""
    return Change(name, lambda trial: trial.change(**spec), interrupts)


def _kill_pod(trial: Trial, ordinal: int) -> None:
    trial.cluster.kill_pod(f"{NAME}-{ordinal}")


def _lose_volume(trial: Trial, claim: str) -> None:
    pod = claim.split("-", 1)[1]
    trial.cluster.kill_pod(pod)
    trial.cluster.lose_volume(claim)


def kill_pod(ordinal: int, *, interrupts: bool = False) -> Change:
    return Change(f"pod {ordinal} killed", lambda trial: _kill_pod(trial, ordinal), interrupts)


def lose_volume(claim: str, *, interrupts: bool = False) -> Change:
    return Change(f"volume {claim} lost", lambda trial: _lose_volume(trial, claim), interrupts)


@dataclass(frozen=True, slots=True)
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
    quorum: bool = False  # whether its members agree by a majority
    api_group: str = GROUP
    minds: tuple[tuple[str, str], ...] = field(
        default=()
    )  # changes of which the second comes in the middle of the first

    def make_trial(self, **spec: Any) -> Trial:
        """Return a trial in which nothing has been reconciled yet."""
        servers = self.make_servers()
        manifest: Object = {
            "apiVersion": f"{self.api_group}/{VERSION}",
            "kind": self.kind,
            "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "app", "generation": 1},
            "spec": {**self.spec, **spec},
        }
        return Trial(manifest, servers, lambda: self.make_engine(servers))

    def find(self, name: str) -> Change:
        """Return the change of a name."""
        return next(change for change in self.changes if change.name == name)


def declared_subject(app_type: AppType[Any], app: App) -> Subject:
    """Return what is to be tried of a type that names no half that acts, by one of its apps.

    Its changes follow from the declaration: another version, other numbers of members, larger volumes, a lost pod.
    """
    count = app_type.members(app)
    versions = [
        version
        for version in app_type.versions.series
        if app_type.versions.series_of(app_type.version(app)) != version
        and not isinstance(app_type.path(app_type.version(app), version), Refusal)
    ]
    alone = count == 1  # whoever restarts the one member interrupts its clients
    fields = type(app).model_fields
    changes = [change_spec(f"version {version}", interrupts=alone, version=version) for version in versions[-1:]]
    if app_type.caps.scale:
        changes += [change_spec(count_noun(number, "member"), members=number) for number in (count + 2, count + 1)]
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
        make_servers=PlainServers,
        make_engine=lambda servers: PlainEngine(app_type, {}),
        changes=tuple(changes),
        bad_image=bad,
        bad_spec={"version": versions[-1]} if versions else {},
        minds=minds,
        api_group=app.api_group,
    )


def fingerprint(cluster: SimulatedCluster, servers: Servers) -> dict[str, Any]:
    """Return what must be the same at the end of a trial, however it went there: UIDs, times and ids left out."""
    sets = {
        found["metadata"]["name"]: {
            name: found["spec"].get(name) for name in ("replicas", "template", "updateStrategy", "ordinals")
        }
        for found in cluster.list_objects("StatefulSet")
    }
    sizes = {
        found["metadata"]["name"]: found["spec"]["resources"]["requests"]["storage"]
        for found in cluster.list_objects("PersistentVolumeClaim")
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
