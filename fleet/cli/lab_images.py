"""Images for clusters that are a lab of this machine: built here, loaded into its nodes, needed from no registry.

`fleet operator install` uses it where the user names no image. It builds on this machine and changes labs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.lab.spec import ClusterSpec, LabSpec

OPERATOR = "fleet-operator"


@dataclass(frozen=True, slots=True)
class LabImages:
    """Names of the images. `built` is the content of the operator's: its name stays the same when the code changes."""

    operator: str
    engines: dict[str, str]
    built: str


def find_lab(server: str) -> tuple[LabSpec, ClusterSpec] | None:
    """Return the lab and the cluster of it that an API server belongs to; None if it is of no lab."""
    from fleet.errors import FleetError
    from fleet.lab.spec import LabSpec, list_lab_names

    for name in list_lab_names():
        try:
            spec = LabSpec.load(name)
        except FleetError:  # half made or broken, so it has no API server
            continue
        for cluster in spec.clusters:
            if cluster.server == server:
                return spec, cluster
    return None


def name_images() -> LabImages:
    """Return the names of the images, whether they are built or not."""
    from fleet.apps.registry import usable_drivers
    from fleet.lab.images.recipes import PREFIX, all_recipes, find_recipes

    recipes = {recipe.name for recipe in all_recipes()}
    engines = {driver.meta.name.lower() for driver in usable_drivers()} & recipes
    return LabImages(
        find_recipes(OPERATOR)[0].reference, {engine: f"{PREFIX}/{engine}:{{tag}}" for engine in sorted(engines)}, ""
    )


def provide_images(lab: LabSpec) -> LabImages:
    """Build the images that are missing and load them into the lab's nodes. Simulated nodes run nothing, need none."""
    from dataclasses import replace

    from fleet.lab.images.bake import bake
    from fleet.lab.images.recipes import find_recipes
    from fleet.lab.lab import Lab

    images = name_images()
    if not any(cluster.nodes == "real" for cluster in lab.clusters):
        return images
    opened = Lab.open(lab.name)
    # Exact versions are built when the user asks for one, with `fleet lab image build`.
    recipes = [recipe for name in (OPERATOR, *images.engines) for recipe in find_recipes(name) if not recipe.exact]
    opened.load_images([bake(recipe) for recipe in recipes])
    return replace(images, built=opened.spec.images.get(images.operator, ""))
