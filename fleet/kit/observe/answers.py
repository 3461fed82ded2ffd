"""What decisions ask of an app type about an observation, without asking a member. Pure.

The answers follow from the declaration; an engine that knows better overrides those that it knows. One that knows
nothing is a program in pods: it starts, rolls, grows, and is as healthy as its kubelets call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fleet.kit import names
from fleet.kit.adoption.objections import series_in, version_in_tag
from fleet.kit.adoption.template import adopted_template
from fleet.kit.app_type import AppType
from fleet.kit.driver import Hop, Refusal
from fleet.kit.members import Ledger
from fleet.kit.observe.observation import Observation, pods_of
from fleet.kit.order import Concerns
from fleet.kit.step import Act, Apply, Decision, Object
from fleet.kit.workload import pods
from fleet.kit.workload.files import members_map, revisions_in_use
from fleet.kit.workload.roll import StopObjection
from fleet.model.app import ROLL, App
from fleet.model.network_settings import metrics_of
from fleet.model.types import release
from fleet.text import count_noun

A = TypeVar("A", bound=App)
Images = Mapping[str, str]
_AROUND = ("Service", "EndpointSlice", "PodDisruptionBudget", "NetworkPolicy", "RoleBinding", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class DesiredTemplate:
    """The pod template that members should have now."""

    template: Object
    change: str  # what giving it to them is called: "upgrade 3.4 → 3.5"
    before: Act | None = None  # a request to the engine before the first member gets it, such as to allow a downgrade


@dataclass(frozen=True)
class Answers(Generic[A]):
    """An app type's, with the images that the operator was told to use, and the CAs that members must trust."""

    app_type: AppType[A]
    images: Images = field(default_factory=dict)
    trust: str = ""  # the set of CAs; "" until there has been more than one
    acts: frozenset[str] = frozenset()  # the kit's requests that the engine has (`ActingHalf`): it does without others

    @property
    def name(self) -> str:
        """Return the engine's name for people, such as "etcd"."""
        return self.app_type.name

    # Judgements

    def corrupt(self, observation: Observation[A], pod: str) -> str | None:
        """Say why a member's data is of no use for certain; None while there is any doubt. It is replaced for it."""
        return None

    def calls_all_unready(self, observation: Observation[A]) -> bool:
        """Tell whether the engine has its members called unready now for what is wrong with one of them."""
        return False

    def objections_to_stop(self, observation: Observation[A], pod: str) -> Sequence[StopObjection]:
        """Say why a member must not restart now, beside what the majority of the members says."""
        return ()

    def diagnose(self, observation: Observation[A]) -> Concerns:
        """Return what the engine alone knows how to judge, by concern (`decide.table` says in which order)."""
        return {}

    def recovery_seconds(self, observation: Observation[A], pod: str) -> float:
        """Return for how long a member that runs and is silent may be reading its data, beside its role's patience."""
        return 0.0

    def can_read(self, observation: Observation[A], pod: str, template: Object) -> bool:
        """Tell whether a member that is down is known to go on from its data with another template."""
        had = image_in(observation, observation.world.pod(pod) or {})
        return had == image_in(observation, template)

    def addresses(self, observation: Observation[A]) -> tuple[str, ...]:
        """Return the members as a joining one must name them, where that does not follow from the pods' names."""
        return ()

    # Objects

    def record(self, observation: Observation[A], ledger: Ledger, reason: str = "", note: str = "") -> Apply:
        """Return the step that writes the ledger, and the members' files with it, since they follow from it."""
        app = observation.app
        present = (observation.world.get("ConfigMap", names.members_map(app)) or {}).get("data") or {}
        sets = (names.stateful_set(app, role.name) for role in self.app_type.roles)
        found = [one for name in sets if (one := observation.world.get("StatefulSet", name)) is not None]
        used = _revisions_of(observation, found, self.file_folders)
        return Apply(members_map(self.app_type, app, ledger, present, used), reason, note)

    @property
    def file_folders(self) -> tuple[str, ...]:
        """Return the directories in which pods find the members' files."""
        return tuple(role.files for role in self.app_type.roles if role.files)

    def stateful_set(self, observation: Observation[A], template: Object, replicas: int) -> Object:
        """Return the StatefulSet as it is first made."""
        role = observation.role.name
        return pods.stateful_set(self.app_type, observation.app, template, replicas=replicas, role=role)

    def first_template(self, observation: Observation[A]) -> Object:
        """Return the template that members start with while there is no StatefulSet."""
        image = self.image(observation, observation.app)
        return pods.pod_template(self.app_type, observation.app, image, self.trust, observation.role.name)

    def desired_template(self, observation: Observation[A]) -> DesiredTemplate | Refusal:
        """Return the template that members should have now, or why there is no way to what git wants."""
        hop = self.next_hop(observation)
        if isinstance(hop, Refusal):
            return hop
        app = self.app_on_the_way(observation, hop)
        template = self.template(observation, app, self.image(observation, app))
        return DesiredTemplate(template, self.describe_change(observation, hop), self.before_hop(observation, hop))

    def template(self, observation: Observation[A], app: A, image: str) -> Object:
        """Return the template of pods with an image. What others set up keeps its own but for a few changes."""
        role, found = observation.role.name, observation.stateful_set
        if found is not None and role in names.adopted_sets(app):
            rules, present = self.app_type.adoption_rules(), found["spec"]["template"]
            return adopted_template(rules, app, present, image, trust=self.trust, role=role)
        return pods.pod_template(self.app_type, app, image, self.trust, role)

    def describe_change(self, observation: Observation[A], hop: Hop | None) -> str:
        """Say what members are given with the desired template."""
        if hop is not None:
            return f"{'downgrade' if hop.kind == 'downgrade' else 'upgrade'} {hop}"
        versions = {state.version for state in observation.states.values()}
        return f"upgrade to {self.app_type.version(observation.app)}" if len(versions) > 1 else "new configuration"

    def before_hop(self, observation: Observation[A], hop: Hop | None) -> Act | None:
        """Return the request that the engine must have before the first member takes a hop."""
        return None

    def may_join(self, observation: Observation[A]) -> bool:
        """Tell whether a pod that is made now can become a member."""
        return True

    def leftovers(self, observation: Observation[A]) -> list[Object]:
        """Return objects of the app that are of no more use: what stood around the pods of roles it has no more."""
        asked = {role.name for role in self.app_type.roles_of(observation.app)}
        gone = {role.name for role in self.app_type.roles if role.name} - asked
        around = [found for kind in _AROUND for found in observation.world.all(kind)]
        own = names.metrics_service(observation.app)
        unasked = [] if metrics_of(observation.app).service else [observation.world.get("Service", own)]
        return [*(found for found in around if _component_of(found) in gone), *(one for one in unasked if one)]

    def restore(self, observation: Observation[A], ledger: Ledger, template: Object) -> Decision | None:
        """Return the next step of putting a backup in place before a member starts; None if there is none."""
        return None

    # What people are told

    def alarms(self, observation: Observation[A], pod: str) -> tuple[str, ...]:
        """Return the engine's alarms about a member, for the status."""
        return ()

    # Versions

    def running_version(self, observation: Observation[A]) -> str | None:
        """Return the oldest version that members run: as they say, or as their images do if nobody asks them."""
        if observation.role.quorum != "none" or observation.states:
            return observation.oldest_version
        images = [image_in(observation, observation.world.pod(pod) or {}) for pod in observation.pods]
        versions = [version for image in images if (version := self.version_of(observation, image))]
        return min(versions, key=release) if versions else None

    def version_of(self, observation: Observation[A], image: str) -> str | None:
        """Return the version that an image is of; of one that others chose, by its tag. None if it does not say."""
        version = self.app_type.version_in(image, self.images)
        if version is None and observation.role.name in names.adopted_sets(observation.app):
            return version_in_tag(image) if series_in(self.app_type, image) else None
        return version

    def next_hop(self, observation: Observation[A]) -> Hop | Refusal | None:
        """Return the next release on the way to the one in git; None when members run its series."""
        running, wanted = self.running_version(observation), self.app_type.version(observation.app)
        series_of = self.app_type.versions.series_of
        if running is None or series_of(running) == series_of(wanted):
            return None
        path = self.app_type.path(running, wanted)
        if isinstance(path, Refusal):
            return path
        if len(path) > 1 and getattr(observation.app, "image", None):
            return Refusal(
                f"from {running} to {wanted} it takes {count_noun(len(path), 'step')}, and `image` names only one",
                f"go to {path[0].target} first",
            )
        return path[0] if path else None

    def app_on_the_way(self, observation: Observation[A], hop: Hop | None) -> A:
        """Return the app as members should run it now: on the way to git's version it has the version of the hop."""
        return observation.app if hop is None else observation.app.model_copy(update={"version": hop.target})

    def image(self, observation: Observation[A], app: A) -> str:
        """Return the image of members. Another patch of the same series comes only with a restart that a user asked
        for with `fleet roll`.
        """
        templates = templates_of(observation)
        if not templates or (templates[0].get("metadata", {}).get("annotations") or {}).get(ROLL, "") != app.roll:
            return self.app_type.image(app, self.images)
        return self.app_type.image(app, self.images, image_in(observation, templates[0]))


def _component_of(found: Object) -> str:
    return str((found["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))


def templates_of(observation: Observation[A]) -> list[Object]:
    """Return the templates that members have: their StatefulSet's, or their pods where it is gone."""
    if (found := observation.stateful_set) is not None:
        return [found["spec"]["template"]]
    return [pod for name in observation.recorded_pods if (pod := observation.world.pod(name)) is not None]


def images_of(observation: Observation[A]) -> set[str]:
    """Return the images that members have."""
    return {image_in(observation, template) for template in templates_of(observation)}


def image_in(observation: Observation[A], pod: Object) -> str:
    """Return the image of the engine's container in a pod or in a template; "" if it has none."""
    containers = pod.get("spec", {}).get("containers", ())
    return next((str(one["image"]) for one in containers if one["name"] == observation.role.container), "")


def _revisions_of(observation: Observation[A], sets: Sequence[Object], folders: Sequence[str]) -> set[str]:
    """Return the revisions of member files that StatefulSets of the app, or pods of theirs, name."""
    pods_found = [observation.world.pod(pod) for found in sets for pod in pods_of(found)]
    specs = [pod["spec"] for pod in pods_found if pod is not None]
    specs += [found["spec"]["template"]["spec"] for found in sets]
    return revisions_in_use(folders, specs)
