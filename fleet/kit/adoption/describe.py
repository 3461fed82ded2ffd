"""What runs in a StatefulSet of others, in the words of an app: only what is not as it would be anyway. Pure.

`fleet adopt` writes it into a stack, and whoever says otherwise in git is refused: taking over changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.kit.adoption.managers import managers_in_the_way, template_managers
from fleet.kit.adoption.surroundings import Surroundings, services_of
from fleet.kit.app_type import AppType
from fleet.kit.names import AdoptedSet
from fleet.model.app_settings import Resources, Volume
from fleet.model.resource import Adopt
from fleet.model.types import amount

Object = dict[str, Any]


def describe(
    app_type: AppType[Any], found: Object, own: AdoptedSet, claims: Sequence[Object], kept: list[str]
) -> dict[str, Any]:
    """Return the fields that every engine's app may have: members, storage, volume, resources.

    What none of them can say is added to `kept`. `claims` are those of the namespace.
    """
    known, fields = app_type.app.model_fields, dict[str, Any]()
    if "members" in known and (replicas := count_replicas(found)) != known["members"].default:
        fields["members"] = replicas
    if "storage" in known and own.claim and (size := find_size(found, own, claims)) != known["storage"].default:
        fields["storage"] = size
    if "volume" in known and own.claim and (name := claim_template_of(found, own).get("storageClassName")):
        fields["volume"] = Volume(storage_class=name)
    if "resources" in known and (resources := find_resources(container_of(found, own), kept)) is not None:
        fields["resources"] = resources
    return fields


def describe_access(found: Object, around: Surroundings, own: AdoptedSet, *, port: int, usual: int) -> dict[str, Any]:
    """Return how clients reach the members on `port`, and who is in the way of taking over: fields of `Adopt`.

    `usual` is the port that clients of the engine take unless told otherwise.
    """
    container = container_of(found, own)
    named = {
        str(entry["name"])
        for entry in container.get("ports") or ()
        if entry["containerPort"] == port and "name" in entry
    }
    given: dict[str, Any] = {}
    leading = services_of(found, around, frozenset({port, *named}))
    service = leading[0]["metadata"]["name"] if leading else found["spec"].get("serviceName")
    if service and service != found["metadata"]["name"]:
        given["service"] = service
    ports = [
        entry["port"]
        for entry in (leading[0]["spec"]["ports"] if leading else ())
        if entry.get("targetPort", entry["port"]) in {port, *named}
    ]
    if (public := ports[0] if ports else port) != usual:
        given["port"] = public
    if in_the_way := {*managers_in_the_way(found), *template_managers(found)}:
        given["take_from"] = sorted(in_the_way)
    return given


def describe_adoption(
    found: Object, around: Surroundings, own: AdoptedSet, *, port: int, usual: int, identity: str
) -> Adopt:
    """Return how git names what is to be taken over."""
    return Adopt(identity=identity, **describe_access(found, around, own, port=port, usual=usual))


def count_replicas(found: Object) -> int:
    return int(found["spec"].get("replicas", 1))


def container_of(found: Object, own: AdoptedSet) -> Object:
    """Return the engine's container."""
    containers = found["spec"]["template"]["spec"]["containers"]
    container: Object = next(entry for entry in containers if entry["name"] == own.container)
    return container


def claim_template_of(found: Object, own: AdoptedSet) -> Object:
    """Return the spec of the claims that hold the data."""
    claims = found["spec"]["volumeClaimTemplates"]
    spec: Object = next(claim for claim in claims if claim["metadata"]["name"] == own.claim)["spec"]
    return spec


def find_size(found: Object, own: AdoptedSet, claims: Sequence[Object]) -> str:
    """Return the size of the smallest claim: claims grow, and what they were made from does not. Without any, as that
    says.
    """
    begin = f"{own.claim}-{own.stateful_set}-"
    specs = [claim["spec"] for claim in claims if str(claim["metadata"]["name"]).removeprefix(begin).isdecimal()]
    sizes = [str(spec["resources"]["requests"]["storage"]) for spec in specs or [claim_template_of(found, own)]]
    return min(sizes, key=amount)


def find_resources(container: Object, kept: list[str]) -> Resources | None:
    """Return what is set aside for a container; None if that is what an app has by itself, or nothing."""
    requests, limits = ((container.get("resources") or {}).get(name) or {} for name in ("requests", "limits"))
    if "cpu" not in requests or "memory" not in requests:
        kept.append("resources: none are set aside for all of CPU and memory")
        return None
    fields = {"cpu": str(requests["cpu"]), "memory": str(requests["memory"])}
    if "cpu" in limits:
        fields["cpu_limit"] = str(limits["cpu"])
    if "memory" not in limits:
        kept.append("resources: memory has no limit")
    elif limits["memory"] != requests["memory"]:
        fields["memory_limit"] = str(limits["memory"])
    defaults = Resources()
    said = {name: value for name, value in fields.items() if getattr(defaults, name) != value}
    return Resources(**said) if said else None
