"""Which image a version is: the official one, or whatever the operator was told to use for this engine."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.apps.etcd.spec import Etcd
from fleet.model.types.version import release

NEWEST = {"3.4": "3.4.37", "3.5": "3.5.35", "3.6": "3.6.16"}  # what a series stands for in this release of fleet
OFFICIAL = "quay.io/coreos/etcd:v{version}"


def exact(version: str) -> str:
    """The release that a version stands for: "3.5" is the newest patch that is known."""
    return NEWEST.get(version, version)


def image(app: Etcd, images: Mapping[str, str]) -> str:
    """`images` has a template by engine: {version} is the exact release, {series} its series, such as 3.5."""
    if app.image:
        return app.image
    version = exact(app.version)
    parts = release(version)
    return images.get("etcd", OFFICIAL).format(version=version, series=f"{parts.major}.{parts.minor}")
