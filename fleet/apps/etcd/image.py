"""Which image a version is: the official one, or whatever the operator was told to use for this engine.

Which patch a series stands for changes with releases of fleet, and no member restarts for that: one that has a patch of
the series that git names keeps it until git names another version or asks for a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleet.apps.etcd.spec import Etcd
from fleet.model.types.version import release

NEWEST = {"3.4": "3.4.37", "3.5": "3.5.35", "3.6": "3.6.16"}  # what a series stands for in this release of fleet
OFFICIAL = "quay.io/coreos/etcd:v{version}"


def exact(version: str) -> str:
    """The release that a version stands for: "3.5" is the newest patch that is known."""
    return NEWEST.get(version, version)


def image(app: Etcd, images: Mapping[str, str], present: str = "") -> str:
    """`images` has a template by engine: {version} is the exact release, {series} its series, such as 3.5. `present` is
    what members have, as long as nobody asked for a restart of them."""
    if app.image:
        return app.image
    had, wanted = version_in(present, images), release(app.version)
    if had is not None and wanted.patch is None and release(had).series == wanted.series:
        return present
    return _named(exact(app.version), images)


def version_in(image: str, images: Mapping[str, str]) -> str | None:
    """The version, or series, that an image was made for by the same template; None if it was not."""
    versions = re.findall(r"\d+\.\d+(?:\.\d+)?", image)
    return next((one for one in versions if _named(one, images) == image), None)


def _named(version: str, images: Mapping[str, str]) -> str:
    parts = release(version)
    return images.get("etcd", OFFICIAL).format(version=version, series=f"{parts.major}.{parts.minor}")
