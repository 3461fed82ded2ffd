"""What the cluster holds of an app whose members are known by their kubelets' word alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppType, Role
from fleet.kit.driver import Hop, Path, Problem, Refusal
from fleet.kit.members import LEDGER, Ledger, MemberRecord
from fleet.kit.members import read as read_ledger
from fleet.kit.pods import pod_template
from fleet.kit.roll import Rolling, under_way
from fleet.kit.stateful_set import last_written
from fleet.kit.template import mark_of
from fleet.kit.world import Object, World, cannot_start, is_leaving, is_ready, when
from fleet.model.app import ROLL, App
from fleet.model.types import release
from fleet.text import count_noun

A = TypeVar("A", bound=App)
Images = Mapping[str, str]
SETTLING = 120.0  # seconds that a pod has to become ready before anything is said about it


@dataclass(frozen=True, slots=True)
class PlainObservation(Generic[A]):
    """An app in one reconcile."""

    app_type: AppType[A]
    app: A
    world: World
    images: Images  # the operator's, by engine
    ledger: Ledger | None = None  # None where none was written, or none that can be read
    unreadable: str = ""  # why the ledger cannot be read
    barred: tuple[Problem, ...] = ()  # what the operator's owner does not allow of the app

    @property
    def roles(self) -> list[RoleState[A]]:
        """The roles that the app asks for, and then those of which pods are left."""
        states = [RoleState(self, role) for role in self.app_type.roles]
        return sorted((state for state in states if state.count or state.found is not None), key=lambda s: not s.count)

    @property
    def stateful_sets(self) -> list[Object]:
        return [state.found for state in self.roles if state.found is not None]

    @property
    def is_founded(self) -> bool:
        """Whether all first members were ready once: from then on there is data to protect."""
        return self.ledger is not None and bool(self.ledger.identity)

    @property
    def is_served(self) -> bool:
        """Whether clients are served: by any member of the first role, or by a majority where that is needed."""
        first = RoleState(self, self.app_type.roles[0])
        ready = sum(map(first.is_healthy, first.pods))
        return ready >= (max(first.count, 1) // 2 + 1 if self.app_type.quorum == "majority" else 1)

    @property
    def version(self) -> str | None:
        """The oldest version that a member has, by its image; None where images do not say it."""
        versions = [version for state in self.roles if (version := state.version) is not None]
        return min(versions, key=_order, default=None)


@dataclass(frozen=True, slots=True)
class RoleState(Generic[A]):
    """One role of an observed app: its StatefulSet and pods."""

    seen: PlainObservation[A]
    role: Role[A]

    @property
    def count(self) -> int:
        """How many pods git asks for."""
        return self.role.count(self.seen.app)

    @property
    def name(self) -> str:
        """The StatefulSet's name."""
        return names.stateful_set(self.seen.app, self.role.name)

    @property
    def found(self) -> Object | None:
        return self.seen.world.get("StatefulSet", self.name)

    @property
    def stateful_set(self) -> Object:
        assert self.found is not None  # noqa: S101 - concerns after the first ones come with a StatefulSet
        return self.found

    @property
    def replicas(self) -> int:
        return min(int(self.found["spec"].get("replicas", 1)), names.MOST_MEMBERS) if self.found is not None else 0

    @property
    def pods(self) -> list[str]:
        """The names of the pods that the StatefulSet is to have, in the order of their ordinals."""
        return self.names_of(self.replicas)

    def names_of(self, count: int) -> list[str]:
        return [names.pod(self.seen.app, ordinal, self.role.name) for ordinal in range(count)]

    @property
    def records(self) -> dict[str, MemberRecord]:
        return self.seen.ledger.of_role(self.role.name) if self.seen.ledger else {}

    def is_healthy(self, pod: str) -> bool:
        return is_ready(self.seen.world.pod(pod))

    def unwell(self) -> list[str]:
        return [pod for pod in self.pods if not self.is_healthy(pod)]

    def is_settling(self, pod: str) -> bool:
        """Whether a pod is not ready only because the operator has just had it started, or restarts it."""
        parent, found, world = self.found, self.seen.world.pod(pod), self.seen.world
        written = last_written(parent) if parent is not None else ""
        if parent is None or not written or (world.now - when(written)).total_seconds() > SETTLING:
            return False
        if found is None or is_leaving(found):
            return under_way(parent) or pod not in self.records or self.records[pod].phase != "settled"
        return not cannot_start(found) and world.age(found) < SETTLING

    def claims(self, pod: str) -> Iterator[tuple[str, Object | None]]:
        """Yield the size that each claim of a pod should have, and the claim."""
        for volume in self.role.volumes:
            claim = self.seen.world.claim(names.claim(self.seen.app, pod, volume.name))
            yield volume.size(self.seen.app), claim

    # Images and versions

    def image_in(self, spec: Mapping[str, Any]) -> str:
        """Return the engine's image in a pod's spec; "" if it is not there."""
        name = self.role.container or names.engine(self.seen.app)
        return next((str(each["image"]) for each in spec.get("containers", ()) if each["name"] == name), "")

    def images(self) -> list[str]:
        """Return the images that members have, and the one that those to come are to have."""
        specs = [pod["spec"] for name in self.pods if (pod := self.seen.world.pod(name)) is not None]
        specs += [self.found["spec"]["template"]["spec"]] if self.found is not None else []
        return [image for spec in specs if (image := self.image_in(spec))]

    @property
    def version(self) -> str | None:
        """The oldest version that a member of the role has, by its image; None where images do not say it."""
        versions = [self.seen.app_type.version_in(image, self.seen.images) for image in self.images()]
        known = [version for version in versions if version is not None]
        return min(known, key=_order) if known and len(known) == len(versions) else None

    def next_hop(self) -> Hop | Refusal | None:
        """Return the next step on the way to the version that git names; None where there is none, or none is known.

        Which version members run is what their image is called, so with an image of the user's own nothing is known.
        """
        running, app_type = self.version, self.seen.app_type
        if running is None or getattr(self.seen.app, "image", None):
            return None
        path: Path = app_type.path(running, app_type.version(self.seen.app))
        if isinstance(path, Refusal):
            return path
        return path[0] if path else None

    def chosen_image(self, app: A) -> str:
        """Return the image that members should have: another patch of their series only with a restart that was asked
        for, by `fleet roll`.
        """
        app_type, images, present = self.seen.app_type, self.seen.images, ""
        if self.found is not None:
            template = self.found["spec"]["template"]
            if (template.get("metadata", {}).get("annotations") or {}).get(ROLL, "") == app.roll:
                present = self.image_in(template["spec"])
        return app_type.image(app, images, present)

    def wanted_template(self) -> tuple[Object, str] | Refusal:
        """Return the template that pods should have now, and what giving it to them is called."""
        hop, app = self.next_hop(), self.seen.app
        if isinstance(hop, Refusal):
            return hop
        what = "new configuration"
        if hop is not None:
            app = app.model_copy(update={"version": hop.target})
            what = f"{'downgrade' if hop.kind == 'downgrade' else 'upgrade'} {hop}"
        made = pod_template(self.seen.app_type, app, self.chosen_image(app), role=self.role.name)
        return made, f"{what} of {self.role.name}" if self.role.name else what

    def rolling(self) -> Rolling | Refusal:
        """Return what a roll of the role needs to know."""
        wanted = self.wanted_template()
        if isinstance(wanted, Refusal):
            return wanted
        made, what = wanted
        return Rolling(
            world=self.seen.world,
            found=self.stateful_set,
            pods=self.pods,
            wanted=made,
            mark=mark_of(made),
            what=what,
            healthy=self.is_healthy,
            leader=None,
            can_stop=self._can_stop,
            patience=lambda pod: self.role.patience,
            settling=self.is_settling,
        )

    def _can_stop(self, pod: str) -> bool:
        others = sum(self.is_healthy(other) for other in self.pods if other != pod)
        return self.seen.app_type.quorum != "majority" or others >= len(self.pods) // 2 + 1

    def describe(self, pods: list[str]) -> str:
        return count_noun(len(pods), self.role.name or "member")


def observe(app_type: AppType[A], app: A, world: World, images: Images) -> PlainObservation[A]:
    """Return what a reconcile knows of the app."""
    written = world.get("ConfigMap", names.members_map(app))
    text = (written["metadata"].get("annotations") or {}).get(LEDGER) if written is not None else None
    try:
        ledger = read_ledger(text) if text else None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return PlainObservation(app_type, app, world, images, unreadable=f"{type(error).__name__}: {error}")
    return PlainObservation(app_type, app, world, images, ledger)


def _order(version: str) -> tuple[int, ...]:
    return tuple(part or 0 for part in release(version))
