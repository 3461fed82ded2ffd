"""The pod template of members that others set up, as their next roll makes it. Pure.

Everything in it stays (init containers, sidecars, probes, volumes, users, certificates) but for what day two needs:
pods carry the app's labels, image and resources are git's once git says something about them, and the engine brings
what it has to (`AdoptionRules.equip`), such as the file that members read. The mark is of these few things alone, so
what a server fills in does not count.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.credentials.tls import TRUST
from fleet.kit.names import AdoptedNames, AdoptedSet
from fleet.kit.workload.pods import container_resources
from fleet.kit.workload.template import TEMPLATE
from fleet.model.app import ROLL, App

A = TypeVar("A", bound=App)
L = TypeVar("L", bound=AdoptedNames)
Manifest = dict[str, Any]
OURS = ("fleet.dev/app", "fleet.dev/kind")


def adopted_labels(app: App) -> dict[str, str]:
    """Return the labels of objects that others made: only what nobody else selects by."""
    return {name: value for name, value in names.labels(app).items() if name in OURS}


def make_baseline(rules: AdoptionRules[A, L], app: A, role: str, image: str) -> dict[str, Any]:
    """Return what git says about the members of a role, and what they run, at the moment of taking over."""
    declared = rules.app_type.role(role)
    return {
        "version": rules.app_type.version(app),
        "image": getattr(app, "image", None),
        "resources": _resources_in_git(rules, app, role),
        "storage": declared.volumes[0].size(app) if declared.volumes else "",
        "found": image,
        **rules.settings_in_git(app, role),
    }


def wanted_image(rules: AdoptionRules[A, L], app: A, found: AdoptedSet, image: str) -> str:
    """Return the image that was found, until git says another version or image."""
    return str(found.baseline["found"]) if _is_version_as_found(rules, app, found) else image


def changed_resources(rules: AdoptionRules[A, L], app: A, found: AdoptedSet, role: str = "") -> Manifest | None:
    """Return what git says about resources if that is not what it said then."""
    if _resources_in_git(rules, app, role) == found.baseline["resources"]:
        return None
    return container_resources(rules.app_type.role(role).resources(app))


def adopted_mark(rules: AdoptionRules[A, L], app: A, image: str, trust: str = "", role: str = "") -> str:
    """Return the hash of what the next roll changes."""
    found = names.adopted_sets(app)[role]
    resources = changed_resources(rules, app, found, role)
    parts = [wanted_image(rules, app, found, image), rules.revision(app, role), resources, app.roll]
    parts += [trust] if trust else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]


def is_as_it_was(rules: AdoptionRules[A, L], app: A, role: str = "") -> bool:
    """Tell whether git asks nothing of the members that they do not have since before they were taken over."""
    found = names.adopted_sets(app)[role]
    return (
        _is_version_as_found(rules, app, found)
        and changed_resources(rules, app, found, role) is None
        and (not rules.reads_files or are_settings_as_found(rules, app, found.baseline, role))
        and not app.roll
    )


def are_settings_as_found(rules: AdoptionRules[A, L], app: A, baseline: Mapping[str, Any], role: str = "") -> bool:
    """Tell whether git says the same of settings as when the members were taken over."""
    said = rules.settings_in_git(app, role)
    return said == {name: baseline.get(name) for name in said}


def adopted_template(
    rules: AdoptionRules[A, L], app: A, present: Manifest, image: str, *, trust: str = "", role: str = ""
) -> Manifest:
    """Return the present template with these few changes, each of which may be there already.

    `trust` is the set of CAs that members must trust, as in `fleet.kit.workload.pods`.
    """
    layout: Any = names.adopted_names(app)
    found = names.adopted_sets(app)[role]
    made = copy.deepcopy(present)
    metadata = made.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **adopted_labels(app)}
    optional = {name: value for name, value in ((ROLL, app.roll), (TRUST, trust)) if value}
    said = {TEMPLATE: adopted_mark(rules, app, image, trust, role), **optional}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **said}
    container = next(entry for entry in made["spec"]["containers"] if entry["name"] == found.container)
    container["image"] = wanted_image(rules, app, found, image)
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if (resources := changed_resources(rules, app, found, role)) is not None:
        container["resources"] = resources
    rules.equip(made["spec"], container, app, layout, role)
    return made


def _is_version_as_found(rules: AdoptionRules[A, L], app: A, found: AdoptedSet) -> bool:
    wanted = (rules.app_type.version(app), getattr(app, "image", None))
    return wanted == (found.baseline["version"], found.baseline["image"])


def _resources_in_git(rules: AdoptionRules[A, L], app: A, role: str) -> Manifest:
    return rules.app_type.role(role).resources(app).model_dump(by_alias=True, exclude_none=True)
