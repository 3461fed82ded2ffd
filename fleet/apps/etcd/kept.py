"""The pod template of an etcd that others set up, as its next roll makes it. Pure.

Everything in it stays (init containers, sidecars, probes, volumes, users, certificates) but for what day two needs:
members read a file as those of any etcd of fleet's do, pods carry the app's labels, and the image is git's once git
says something about it; so is TLS (see `secured`). The mark is of these few things alone, so what a server fills in
does not count.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.files import FILE
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.files import file_name, revision
from fleet.kit.pods import container_resources
from fleet.kit.template import TEMPLATE
from fleet.kit.tls import TRUST
from fleet.model.app import ROLL

Manifest = dict[str, Any]
POD = "FLEET_POD"
VOLUME = "fleet-members"
OURS = ("fleet.dev/app", "fleet.dev/kind")


def labels(app: Etcd) -> dict[str, str]:
    """Of objects that others made: only what nobody else selects by."""
    return {name: value for name, value in kit_names.labels(app).items() if name in OURS}


def baseline(app: Etcd, image: str) -> dict[str, Any]:
    """What git says about the members, and what they run, at the moment of taking over."""
    return {
        "version": app.version,
        "image": app.image,
        "resources": app.resources.model_dump(by_alias=True, exclude_none=True),
        "config": app.config.model_dump(by_alias=True, exclude_none=True),
        "storage": app.storage,
        "found": image,
    }


def wanted_image(app: Etcd, kept: Layout, image: str) -> str:
    """The one that was found, until git says another version or image."""
    same = (app.version, app.image) == (kept.baseline["version"], kept.baseline["image"])
    return str(kept.baseline["found"]) if same else image


def changed_resources(app: Etcd, kept: Layout) -> Manifest | None:
    """What git says about resources if that is not what it said then."""
    said = app.resources.model_dump(by_alias=True, exclude_none=True)
    if said == kept.baseline["resources"]:
        return None
    return container_resources(app.resources)


def mark(app: Etcd, kept: Layout, image: str, trust: str = "") -> str:
    parts = [wanted_image(app, kept, image), revision(DRIVER, app), changed_resources(app, kept), app.roll]
    parts += [trust] if trust else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]


def as_it_was(app: Etcd, kept: Layout) -> bool:
    """Whether git asks nothing of the members that they do not have since before they were taken over."""
    return (
        (app.version, app.image) == (kept.baseline["version"], kept.baseline["image"])
        and changed_resources(app, kept) is None
        and app.config.model_dump(by_alias=True, exclude_none=True) == kept.baseline["config"]
        and not app.roll
    )


def template(app: Etcd, kept: Layout, present: Manifest, image: str, trust: str = "") -> Manifest:
    """The present one with these few changes, each of which may be there already. `trust`: as in `fleet.kit.pods`."""
    made = copy.deepcopy(present)
    metadata = made.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels(app)}
    said = {
        TEMPLATE: mark(app, kept, image, trust),
        **{name: one for name, one in ((ROLL, app.roll), (TRUST, trust)) if one},
    }
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **said}
    spec = made["spec"]
    container = next(one for one in spec["containers"] if one["name"] == kept.container)
    container["image"] = wanted_image(app, kept, image)
    container["command"] = [kept.program]
    container["args"] = [f"--config-file={names.KEPT_FILES}/{file_name(f'$({POD})', revision(DRIVER, app), FILE)}"]
    own = {"name": POD, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    container["env"] = [*(one for one in container.get("env") or () if one["name"] != POD), own]
    mount = {"name": VOLUME, "mountPath": names.KEPT_FILES, "readOnly": True}
    container["volumeMounts"] = [*(one for one in container["volumeMounts"] if one["name"] != VOLUME), mount]
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if (resources := changed_resources(app, kept)) is not None:
        container["resources"] = resources
    files = {"name": VOLUME, "configMap": {"name": kit_names.members_map(app), "defaultMode": 0o644}}
    spec["volumes"] = [*(one for one in spec.get("volumes") or () if one["name"] != VOLUME), files]
    peers = {"peer": names.peer_secret(app)} if secured.secures_peers(kept) else {}
    secured.equip(spec, container, kept, {"server": names.server_secret(app), **peers})
    return made
