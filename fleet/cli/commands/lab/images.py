"""Images for clusters that are a lab of this machine: built here, given to its nodes, needed from no registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.lab.spec import ClusterSpec, LabSpec

OPERATOR = "fleet-operator"


@dataclass(frozen=True, slots=True)
class LabImages:
    """`built` is the content of the operator's image: its name stays the same when the code changes."""

    operator: str
    engines: dict[str, str]
    built: str


def lab_at(server: str) -> tuple[LabSpec, ClusterSpec] | None:
    """The lab whose API server this is."""
    from fleet.errors import FleetError
    from fleet.lab.spec import LabSpec, list_lab_names

    for name in list_lab_names():
        try:
            spec = LabSpec.load(name)
        except FleetError:  # half made or broken: not the one
            continue
        for cluster in spec.clusters:
            if cluster.server == server:
                return spec, cluster
    return None


def names() -> LabImages:
    """What the images are called, whether they are there or not."""
    from fleet.apps.registry import drivers
    from fleet.lab.images.recipes import PREFIX, all_recipes, find_recipes

    known = {recipe.name for recipe in all_recipes()}
    found = {one.meta.name.lower() for one in drivers()} & known
    return LabImages(
        find_recipes(OPERATOR)[0].reference, {engine: f"{PREFIX}/{engine}:{{tag}}" for engine in sorted(found)}, ""
    )


def provide(lab: LabSpec) -> LabImages:
    """Build what is missing and give it to the lab's nodes. Simulated nodes run nothing and need nothing."""
    from dataclasses import replace

    from fleet.lab.images.bake import bake
    from fleet.lab.images.recipes import find_recipes
    from fleet.lab.lab import Lab

    wanted = names()
    if not any(cluster.nodes == "real" for cluster in lab.clusters):
        return wanted
    opened = Lab.open(lab.name)
    # Exact versions are built when somebody asks for one, with `fleet lab image build`.
    recipes = [recipe for name in (OPERATOR, *wanted.engines) for recipe in find_recipes(name) if not recipe.exact]
    opened.load_images([bake(recipe) for recipe in recipes])
    return replace(wanted, built=opened.spec.images.get(wanted.operator, ""))
