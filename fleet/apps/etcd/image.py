"""Which image a version is: the official one, or whatever the operator was told to use for this engine.

Which patch a series stands for changes with releases of fleet, and no member restarts for that: one that has a patch of
the series that git names keeps it until git names another version or asks for a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.upgrade import path
from fleet.kit.driver import Refusal
from fleet.model.types import release

NEWEST = {"3.4": "3.4.37", "3.5": "3.5.35", "3.6": "3.6.16"}  # what a series stands for in this release of fleet
OFFICIAL = "quay.io/coreos/etcd:v{version}"


def exact(version: str) -> str:
    """The release that a version stands for: "3.5" is the newest patch that is known."""
    return NEWEST.get(version, version)


def unknown_release(app: Etcd) -> str:
    """Say that a version is newer than every patch of its series in this release of fleet; "" if it is not.

    It may have been released since, so that it is no error. What an image of the user's own runs is not judged here.
    """
    wanted = release(app.version)
    newest = NEWEST.get(f"{wanted.major}.{wanted.minor}")
    if app.image or wanted.patch is None or newest is None or wanted <= release(newest):
        return ""
    return (
        f"etcd {app.version} is not known to this release of fleet, whose newest of the series is {newest}: "
        f"if there is no image of it, no member starts with it (write {newest!r} if that is meant)"
    )


def image(app: Etcd, images: Mapping[str, str], present: str = "") -> str:
    """`images` has a template by engine: {version} is the exact release, {series} its series, such as 3.5, {tag} the
    version as git says it: either of them. `present` is what members have, as long as nobody asked for a restart of
    them."""
    if app.image:
        return app.image
    had, wanted = version_in(present, images), release(app.version)
    if had is not None and wanted.patch is None and release(had).series == wanted.series:
        return present
    return _for(app.version, images)


def template(images: Mapping[str, str]) -> str:
    """The image of each version, with {version}, {series} or {tag} in it."""
    return images.get("etcd", OFFICIAL)


def same_image(app: Etcd, status: Mapping[str, Any]) -> str:
    """Say why members go on with the version that they run though git says another: the image of the next step is the
    one that they have. "" if it is another image, or if the status does not say which."""
    running, known = status.get("version"), status.get("imageTemplate")
    has = {str(member.get("image") or "") for member in status.get("members") or ()}
    steps = path(str(running), app.version) if running else ()
    if isinstance(steps, Refusal) or not steps or not (app.image or known) or len(has) != 1:
        return ""
    wanted = steps[0].target
    name = app.image or _for(wanted, {"etcd": str(known)})
    return (
        f"stays etcd {running}: the image for {wanted} is {name}, which members have already" if {name} == has else ""
    )


def version_in(image: str, images: Mapping[str, str]) -> str | None:
    """The version, or series, that an image was made for by the same template; None if it was not."""
    versions = re.findall(r"\d+\.\d+(?:\.\d+)?", image)
    return next((one for one in versions if _named(one, images) == image), None)


def _for(version: str, images: Mapping[str, str]) -> str:
    return _named(exact(version), images, version)


def _named(version: str, images: Mapping[str, str], tag: str = "") -> str:
    parts = release(version)
    return template(images).format(version=version, series=f"{parts.major}.{parts.minor}", tag=tag or version)
