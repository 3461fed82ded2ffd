"""What StatefulSets themselves say against becoming an app: foreseen by a plan, looked at again by the operator. Pure.

Who the members are and which version they run they are asked for, and only the operator does that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fleet.errors import ConfigurationError
from fleet.kit.adoption.describe import container_of, count_replicas, find_resources, find_size
from fleet.kit.adoption.hold import is_updating
from fleet.kit.adoption.managers import claimed_by, managers_in_the_way
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.app_type import AppType, Role
from fleet.kit.driver import Problem
from fleet.kit.names import AdoptedNames, AdoptedSet
from fleet.model.app import App
from fleet.model.app_settings import Resources
from fleet.model.types import amount
from fleet.text import count_noun

A = TypeVar("A", bound=App)
L = TypeVar("L", bound=AdoptedNames)
Object = dict[str, Any]


class Objection(NamedTuple):
    reason: str  # as a condition of the app has it
    message: str


@dataclass(frozen=True, slots=True)
class OperatorView:
    """What the operator knows beside the StatefulSets and a plan does not; what settings come from is read then."""

    claims: Sequence[Object]
    images: Mapping[str, str]  # which image a version is


def foresee(rules: AdoptionRules[A, L], app: A, found: Object) -> Objection | None:
    """Say what speaks against taking over, by the StatefulSet of the first role alone. What it takes from ConfigMaps is
    not known here, and nothing is said about that.
    """
    read = rules.read_layout({"": found}, lambda kind, name: None)
    layout = None if isinstance(read, Problem) else read
    encrypted = rules.is_encrypted(layout) if layout is not None else None
    return (
        check_owner(app, found)
        or check_shape(rules.app_type, app, found, encrypted=encrypted)
        or _check_version(rules, app, found)
        or (compare_with_git(rules, app, {"": found}, layout) if layout is not None else None)
    )


def check_owner(app: App, found: Object) -> Objection | None:
    """Say whose it is: nothing is taken from anybody who was not named."""
    own, what = found["metadata"], f"StatefulSet {found['metadata']['name']}"
    if whose := claimed_by(found, (app.name, app.kind())):
        return Objection("ClaimedByAnother", f"{what} belongs to {whose}; nothing is changed")
    owner = next((owner for owner in own.get("ownerReferences") or () if owner.get("controller")), None)
    if owner is not None:
        return Objection(
            "OwnedByAnotherOperator",
            f"{what} is run by {owner['kind']} {owner['name']}, whose operator would undo what ours does; stop that "
            f"operator and delete the {owner['kind']} with --cascade=orphan first",
        )
    if "deletionTimestamp" in own:
        return Objection("NothingToAdopt", f"{what} is being deleted")
    in_the_way = set(managers_in_the_way(found)) - set(app.adoption.take_from if app.adoption else ())
    if in_the_way:
        return Objection(
            "ManagedByOthers",
            f"{what}: how it updates its pods or keeps its volumes is managed by {', '.join(sorted(in_the_way))}; "
            f"nothing is changed until git says take_from={sorted(in_the_way)}",
        )
    return None


def check_shape(
    app_type: AppType[A], app: A, found: Object, role: str = "", *, encrypted: bool | None
) -> Objection | None:
    """Say where git does not say what is there: taking over and changing are two commits.

    `encrypted` is None where it is not known.
    """
    what = f"StatefulSet {found['metadata']['name']}"
    if (numbers := check_ordinals(found)) is not None:
        return Objection("CannotAdopt", f"{what} cannot be taken over: {numbers.message}")
    if is_updating(found):
        return Objection("UpdateUnderWay", f"{what} has pods of two revisions: finish that update first")
    wants_tls = bool(getattr(getattr(app, "tls", None), "enabled", False))
    if encrypted is not None and encrypted != wants_tls:
        said, there = ("with", "without") if wants_tls else ("without", "with")
        return Objection(
            "NotAsDescribed", f"{what} runs {there} TLS, and git says {said}: tls=TLS(enabled={encrypted})"
        )
    replicas, wanted = count_replicas(found), app_type.role(role).count(app)
    if replicas != wanted:
        return Objection("NotAsDescribed", f"{what} has {count_noun(replicas, 'member')}, and git says {wanted}")
    return None


def check_ordinals(found: Object) -> Problem | None:
    """Say that pods are not numbered as those of apps are."""
    start = (found["spec"].get("ordinals") or {}).get("start", 0)
    return (
        Problem("ordinals.start", f"its pods are numbered from {start} on, and those of apps from 0") if start else None
    )


def compare_with_git(
    rules: AdoptionRules[A, L],
    app: A,
    sets: Mapping[str, Object],
    layout: L,
    operator: OperatorView | None = None,
) -> Objection | None:
    """Say what git says of the members and is not so. What no field can say is kept, and is no difference.

    `sets` are the StatefulSets by role; `operator` is None for a plan, which knows less.
    """
    for role, found in sets.items():
        what, own = f"StatefulSet {found['metadata']['name']}", layout.sets[role]
        try:
            told = list(_differences(rules, app, role, found, layout=layout, operator=operator))
        except ConfigurationError as problem:
            return Objection("CannotAdopt", f"{what} cannot be taken over: {problem.message}")
        told += _compare_image(rules.app_type, app, str(container_of(found, own)["image"]), operator)
        if told:
            said = f"{what} is otherwise than git says: {'; '.join(told)}: take it over as it is first"
            return Objection("NotAsDescribed", said)
    return None


def _differences(
    rules: AdoptionRules[A, L], app: A, name: str, found: Object, *, layout: L, operator: OperatorView | None
) -> Iterator[str]:
    role, own, container = rules.app_type.role(name), layout.sets[name], container_of(found, layout.sets[name])
    claims = operator.claims if operator is not None else ()
    runs = None if name else _described(rules, app, found, layout, claims)
    yield from _compare_resources(role.resources(app), find_resources(container, []) or Resources())
    if runs is not None and (operator is not None or not _is_set_from_elsewhere(container)):
        yield from rules.list_differences(app, runs, layout)
    if claims and role.volumes:
        yield from _compare_volumes(role, app, found, own, claims)


def _described(rules: AdoptionRules[A, L], app: A, found: Object, layout: L, claims: Sequence[Object]) -> A:
    """Return the app that is there. Raises ConfigurationError if no app can be so."""
    version: dict[str, Any] = {"version": rules.app_type.version(app)} if "version" in type(app).model_fields else {}
    fields = rules.describe(found, layout, claims, [])
    return rules.app_type.app(app.name, namespace=app.namespace, **version, **fields)


def _compare_resources(wanted: Resources, there: Resources) -> Iterator[str]:
    for name in type(there).model_fields:
        said, has = getattr(wanted, name), getattr(there, name)
        if (said and amount(said)) != (has and amount(has)):
            yield f"{name} is {has or 'not set'}, and git says {said or 'nothing of it'}"


def _compare_volumes(role: Role[A], app: A, found: Object, own: AdoptedSet, claims: Sequence[Object]) -> Iterator[str]:
    wanted, there = role.volumes[0].size(app), find_size(found, own, claims)
    if amount(wanted) != amount(there):
        yield f"volumes have {there}, and git says {wanted}"
    templates = {claim["metadata"]["name"]: claim["spec"] for claim in found["spec"].get("volumeClaimTemplates") or ()}
    begin = f"{own.claim}-{own.stateful_set}-"
    specs = [claim["spec"] for claim in claims if str(claim["metadata"]["name"]).startswith(begin)]
    classes = {None, *(spec.get("storageClassName") or None for spec in [templates.get(own.claim, {}), *specs])}
    if (wanted_class := role.volumes[0].storage_class(app)) not in classes:
        yield f"volumes are not of the storage class {wanted_class}, which git says"


def _compare_image(app_type: AppType[A], app: A, runs: str, operator: OperatorView | None) -> Iterator[str]:
    """Compare the image with what git says, or as the official one of the version; of a series, any patch. Only the
    operator knows what else that may stand for."""
    if "image" not in type(app).model_fields:
        yield from _compare_version(app_type, app, runs, operator)
        return
    own: str | None = getattr(app, "image", None)
    wanted = {app_type.image(app, {}, runs), app_type.image(app, operator.images, runs)} if operator else {own or runs}
    if runs not in wanted:
        yield f"{runs} runs, and git says {' or '.join(sorted(wanted))}"


def _compare_version(app_type: AppType[A], app: A, runs: str, operator: OperatorView | None) -> Iterator[str]:
    """Compare the version. Where git names no image, the one that was found stays for as long as git says its
    version."""
    said, wanted = app_type.version_in(runs, operator.images if operator else {}), app_type.version(app)
    version = said or version_in_tag(runs)
    is_wanted = app_type.versions.is_series(wanted) and series_in(app_type, runs) == app_type.versions.series_of(wanted)
    if version != wanted and not is_wanted:
        yield f"{runs} runs, and git says {wanted}"


def _is_set_from_elsewhere(container: Object) -> bool:
    """Tell whether settings may come from what a plan does not read."""
    sources = (entry.get("valueFrom") or {} for entry in container.get("env") or ())
    return bool(container.get("envFrom")) or any("fieldRef" not in source for source in sources if source)


def _check_version(rules: AdoptionRules[A, L], app: A, found: Object) -> Objection | None:
    """Check the version as far as an image's tag can be read as a release of the engine: members know better, and are
    asked later."""
    name = rules.find_container(found, lambda kind, name: None)
    containers = found["spec"]["template"]["spec"]["containers"]
    image = next((str(one.get("image", "")) for one in containers if one["name"] == name), "")
    versions, wanted = rules.app_type.versions, rules.app_type.version(app)
    runs = series_in(rules.app_type, image)
    if runs is None or runs == versions.series_of(wanted):
        return None
    return Objection("NotAsDescribed", f"{image} runs, and git says {wanted}: take it over as it is first")


def version_in_tag(image: str) -> str:
    """Return what the tag of an image begins with, as a version is written."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2].removeprefix("v").partition("-")[0]


def series_in(app_type: AppType[Any], image: str) -> str | None:
    """Return the known series that an image's tag names; None if it names none."""
    try:
        series = app_type.versions.series_of(version_in_tag(image))
    except ValueError:
        return None
    return series if series in app_type.versions.series else None
