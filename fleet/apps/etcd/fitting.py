"""What a StatefulSet itself says against becoming an app: foreseen by a plan, looked at again by the operator. Pure.

Who the members are and which version they run they are asked for, and only the operator does that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.apps.etcd import found as finding
from fleet.apps.etcd import names
from fleet.apps.etcd.described import container_of, described
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.files import as_said
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.versions import VERSIONS
from fleet.errors import ConfigurationError
from fleet.kit.adoption.hold import is_updating
from fleet.kit.adoption.managers import claimed_by, managers_in_the_way
from fleet.kit.adoption.surroundings import Object
from fleet.model.types import amount, release
from fleet.text import count_noun


class Objection(NamedTuple):
    reason: str  # as a condition of the app has it
    message: str


def foreseen(app: Etcd, found: Object) -> Objection | None:
    """By the StatefulSet alone. What it takes from ConfigMaps is not known here, and nothing is said about that."""
    read = finding.layout(found, lambda kind, name: None)
    laid_out = read if isinstance(read, Layout) else None
    return (
        claims(app, found)
        or differences(app, found, tls=laid_out.tls if laid_out else None)
        or _version(app, found)
        or (otherwise(app, found, laid_out) if laid_out else None)
    )


def claims(app: Etcd, found: Object) -> Objection | None:
    """Whose it is: nothing is taken from anybody who was not named."""
    own, what = found["metadata"], f"StatefulSet {found['metadata']['name']}"
    if whose := claimed_by(found, (app.name, app.kind())):
        return Objection("ClaimedByAnother", f"{what} belongs to {whose}; nothing is changed")
    owner = next((one for one in own.get("ownerReferences") or () if one.get("controller")), None)
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


def differences(app: Etcd, found: Object, *, tls: bool | None) -> Objection | None:
    """Git must say what is there: taking over and changing are two commits. `tls` is None where it is not known."""
    what = f"StatefulSet {found['metadata']['name']}"
    if (numbers := finding.ordinals(found)) is not None:
        return Objection("CannotAdopt", f"{what} cannot be taken over: {numbers.message}")
    if is_updating(found):
        return Objection("UpdateUnderWay", f"{what} has pods of two revisions: finish that update first")
    if tls is not None and tls != app.tls.enabled:
        said, there = ("with", "without") if app.tls.enabled else ("without", "with")
        return Objection("NotAsDescribed", f"{what} runs {there} TLS, and git says {said}: tls=TLS(enabled={tls})")
    replicas = int(found["spec"].get("replicas", 1))
    if replicas != app.members:
        return Objection("NotAsDescribed", f"{what} has {count_noun(replicas, 'member')}, and git says {app.members}")
    return None


@dataclass(frozen=True, slots=True)
class Beside:
    """What the operator knows beside the StatefulSet and a plan does not; what its settings come from is read then."""

    claims: Sequence[Object]
    images: Mapping[str, str]  # which image a version is


def otherwise(app: Etcd, found: Object, read: Layout, beside: Beside | None = None) -> Objection | None:
    """What git says of the members and is not so. What no field can say is kept, and is no difference."""
    what, container, claims = (
        f"StatefulSet {found['metadata']['name']}",
        container_of(found, read),
        beside and beside.claims,
    )
    try:
        runs = Etcd(app.name, namespace=app.namespace, version=app.version, **described(found, read, claims or (), []))
    except ConfigurationError as problem:
        return Objection("CannotAdopt", f"{what} cannot be taken over: {problem.message}")
    told = list(_resources(app, runs))
    if beside is not None or not _from_elsewhere(container):
        told += _settings(names.laid_out(app, read), runs)
    if claims:
        told += _volumes(app, runs, claims)
    told += _image(app, str(container["image"]), beside)
    if not told:
        return None
    return Objection(
        "NotAsDescribed", f"{what} is otherwise than git says: {'; '.join(told)}: take it over as it is first"
    )


def _settings(app: Etcd, runs: Etcd) -> Iterator[str]:
    wanted, there = as_said(app), as_said(app.model_copy(update={"config": runs.config}))
    for name in sorted({*wanted, *there}):
        if wanted.get(name) != there.get(name):
            yield f"{name} is {there.get(name, 'not set')}, and git says {wanted.get(name, 'nothing of it')}"


def _resources(app: Etcd, runs: Etcd) -> Iterator[str]:
    for name in type(runs.resources).model_fields:
        wanted, there = getattr(app.resources, name), getattr(runs.resources, name)
        if (wanted and amount(wanted)) != (there and amount(there)):
            yield f"{name} is {there or 'not set'}, and git says {wanted or 'nothing of it'}"


def _volumes(app: Etcd, runs: Etcd, claims: Sequence[Object]) -> Iterator[str]:
    if amount(app.storage) != amount(runs.storage):
        yield f"volumes have {runs.storage}, and git says {app.storage}"
    classes = {None, runs.volume.storage_class, *(one["spec"].get("storageClassName") for one in claims)}
    if app.volume.storage_class not in classes:
        yield f"volumes are not of the storage class {app.volume.storage_class}, which git says"


def _image(app: Etcd, runs: str, beside: Beside | None) -> Iterator[str]:
    """As git says, or as the official one of the version; of a series, any patch. Only the operator knows what else
    that may stand for."""
    wanted = {DRIVER.image(app, {}, runs), DRIVER.image(app, beside.images, runs)} if beside else {app.image or runs}
    if runs not in wanted:
        yield f"{runs} runs, and git says {' or '.join(sorted(wanted))}"


def _from_elsewhere(container: Object) -> bool:
    """Whether settings may come from what a plan does not read."""
    sources = (one.get("valueFrom") or {} for one in container.get("env") or ())
    return bool(container.get("envFrom")) or any("fieldRef" not in one for one in sources if one)


def _version(app: Etcd, found: Object) -> Objection | None:
    """As far as an image's tag can be read as a release of etcd: members know better, and are asked later."""
    process = finding.candidate(found, lambda kind, name: None)
    containers = found["spec"]["template"]["spec"]["containers"]
    image = next((str(one.get("image", "")) for one in containers if process and one["name"] == process.container), "")
    try:
        runs = _series(image.partition("@")[0].rpartition("/")[2].partition(":")[2].removeprefix("v").partition("-")[0])
    except ValueError:
        return None
    if runs not in VERSIONS.series or runs == _series(app.version):
        return None
    return Objection("NotAsDescribed", f"{image} runs, and git says {app.version}: take it over as it is first")


def _series(version: str) -> str:
    return ".".join(map(str, release(version).series))
