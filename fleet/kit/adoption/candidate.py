"""What members answered, checked and made into the app that they could be: the same for every engine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from fleet.errors import ConfigurationError
from fleet.kit.adoption.describe import container_of, count_replicas, describe_adoption
from fleet.kit.adoption.discovery import Candidate, Member
from fleet.kit.adoption.hold import is_updating
from fleet.kit.adoption.managers import claimed_by, list_managers, managers_in_the_way, template_managers
from fleet.kit.adoption.objections import Objection, check_shape, compare_with_git
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.surroundings import Object, Surroundings, beside, whereabouts
from fleet.kit.adoption.unmanaged import unsaid
from fleet.kit.app_type import AppType
from fleet.kit.driver import Problem
from fleet.kit.names import AdoptedNames
from fleet.model.app import App
from fleet.model.resource import Adopt, Options
from fleet.model.types import release
from fleet.text import count_noun

NONE: Mapping[str, Object] = {}
A = TypeVar("A", bound=App)
L = TypeVar("L", bound=AdoptedNames)


def check_objects(found: Object) -> Problem | None:
    """Say what a StatefulSet says against it, before anybody is asked."""
    own = found["metadata"]
    if whose := claimed_by(found):
        return Problem("owner", f"it belongs to {whose} already")
    if owner := next((owner for owner in own.get("ownerReferences") or () if owner.get("controller")), None):
        return Problem(
            "owner",
            f"it is run by {owner['kind']} {owner['name']}, whose operator would undo what ours does",
            f"stop that operator and delete the {owner['kind']} with --cascade=orphan first",
        )
    if is_updating(found):
        return Problem("update", "it has pods of two revisions", "finish that update first")
    return None


def check_answers(pods: Iterable[str], identities: Mapping[str, str]) -> Problem | None:
    """Say that not all members answered, or not as members of one cluster. `identities` are by pod, as they said."""
    if silent := [pod for pod in pods if pod not in identities]:
        return Problem("members", f"{', '.join(silent)} could not be asked, so it is not certain what they are")
    if len(set(identities.values())) > 1:
        told = ", ".join(f"{pod} of {identity}" for pod, identity in sorted(identities.items()))
        return Problem("identity", f"its pods are members of different clusters: {told}")
    return None


def check_versions(app_type: AppType[Any], versions: Iterable[str]) -> Problem | None:
    """Say that members run what no release of fleet knows, or two series at once."""
    series, known = {version: _series(app_type, version) for version in versions}, app_type.versions.series
    if unknown := sorted(version for version, of in series.items() if of not in known):
        return Problem("version", f"{app_type.name} {', '.join(unknown)} runs, and fleet knows {', '.join(known)}")
    if len(set(series.values())) > 1:
        return Problem("version", "its members run two versions", "finish that upgrade first")
    return None


def make_candidate(
    rules: AdoptionRules[A, L],
    found: Object,
    around: Surroundings,
    layout: L,
    *,
    port: int,
    identity: str,
    members: Sequence[Member],
    others: Mapping[str, Object] = NONE,
) -> Candidate | Problem:
    """Return the app that members of one cluster could be, or why there can be none. `port` is theirs for clients.

    `others` are the StatefulSets of the app's other roles.
    """
    kept: list[str] = []
    usual = rules.app_type.app.port
    version = min((member.version for member in members), key=release)
    try:
        fields = rules.describe(found, layout, around.claims, kept)
        adopt = describe_adoption(found, around, layout.sets[""], port=port, usual=usual, identity=identity)
        adoption = Options(adopt=_name_others(adopt, found, others))
        app = _make_app(rules, found, layout, fields={**fields, "opts": adoption}, version=version, kept=kept)
    except ConfigurationError as problem:
        return Problem(problem.field or "spec", problem.message, problem.hint)
    if (objection := _check_others(rules, app, layout, found, others)) is not None:
        return objection
    facts = {**rules.list_facts(app, layout), **whereabouts(found, around)}
    named = {role: str(other["metadata"]["name"]) for role, other in others.items()}
    facts |= {role: f"StatefulSet {named[role]}, {count_noun(count_replicas(others[role]), 'pod')}" for role in named}
    all_kept = [*kept, *beside(found, around, app)]
    for role, other in others.items():
        own = layout.sets[role]
        found_there = unsaid(other, own.container, own.claim, prefix=rules.prefix, secrets=rules.list_secrets(layout))
        all_kept += [f"{named[role]}: {text}" for text in found_there]
    managers = sorted({manager for one in (found, *others.values()) for manager in list_managers(one)})
    return Candidate(app, identity, version, tuple(members), facts, tuple(all_kept), tuple(managers), named)


def _name_others(adopt: Adopt, found: Object, others: Mapping[str, Object]) -> Adopt:
    """Return how git names them all: those that are not called as the app and the role, and whose fields they are."""
    given: dict[str, Any] = {name: getattr(adopt, name) for name in adopt.model_fields_set}
    own = str(found["metadata"]["name"])
    named = {role: str(other["metadata"]["name"]) for role, other in others.items()}
    if unusual := {role: name for role, name in named.items() if name != f"{own}-{role}"}:
        given["stateful_sets"] = unusual
    in_the_way = {who for other in others.values() for who in (*managers_in_the_way(other), *template_managers(other))}
    if others and (managers := sorted({*adopt.take_from, *in_the_way})):
        given["take_from"] = managers
    return Adopt(**given)


def _check_others(
    rules: AdoptionRules[A, L], app: A, layout: L, found: Object, others: Mapping[str, Object]
) -> Problem | None:
    """Say that StatefulSets of other roles are not as those of such an app are."""
    app_type, name = rules.app_type, found["metadata"]["name"]
    asked = {role.name: role.count(app) for role in app_type.roles_of(app) if role.name}
    if missing := [role for role in asked if role not in others]:
        roles = ", ".join(f"{role} ({count_noun(asked[role], 'pod')})" for role in missing)
        return Problem("roles", f"an app as {name} has further pods, and no StatefulSet beside it runs them: {roles}")
    for role, other in others.items():
        objection = (
            check_objects(other)
            or _as_problem(check_shape(app_type, app, other, role, encrypted=None))
            or _as_problem(compare_with_git(rules, app, {role: other}, layout))
        )
        if objection is not None:
            return Problem("roles", f"{role}, {other['metadata']['name']}: {objection.message}", objection.hint)
    return None


def _as_problem(objection: Objection | None) -> Problem | None:
    return Problem("spec", objection.message) if objection is not None else None


def _make_app(
    rules: AdoptionRules[A, L], found: Object, layout: L, *, fields: dict[str, Any], version: str, kept: list[str]
) -> A:
    own, adopted, app_type = found["metadata"], layout.sets[""], rules.app_type
    image = container_of(found, adopted)["image"]
    named: dict[str, Any] = {"namespace": own["namespace"], "version": version}
    if image != app_type.image(app_type.app(own["name"], **named), {}):
        if "image" in app_type.app.model_fields:
            fields["image"] = image
        else:
            kept.append(f"image {image}, until git says another version")
    secrets = rules.list_secrets(layout)
    kept += unsaid(found, adopted.container, adopted.claim, prefix=rules.prefix, secrets=secrets)
    return app_type.app(own["name"], **named, **fields)


def _series(app_type: AppType[Any], version: str) -> str:
    try:
        return app_type.versions.series_of(version)
    except ValueError:
        return version
