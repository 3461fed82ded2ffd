"""The members' ConfigMap as a step: the ledger, and the files that follow from it. Pure."""

from __future__ import annotations

import re

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.seen import Seen
from fleet.apps.etcd.ledger import Ledger
from fleet.apps.etcd.manifests import members_map
from fleet.kit.step import Apply
from fleet.kit.world import Object

_OURS = re.compile(rf"--config-file=(?:{names.MEMBER_FILES}|{names.KEPT_FILES})/[^/]*\.([0-9a-f]+)\.yaml")


def noted(seen: Seen, ledger: Ledger, reason: str = "", note: str = "") -> Apply:
    present = seen.world.get("ConfigMap", names.members_map(seen.app)) or {}
    return Apply(members_map(seen.app, ledger, present.get("data") or {}, _in_use(seen)), reason, note)


def files_as_wanted(seen: Seen, ledger: Ledger) -> Apply | None:
    """The files anew if they are not what the spec and the ledger say: members start with what they find there."""
    present = seen.world.get("ConfigMap", names.members_map(seen.app)) or {}
    wanted = noted(seen, ledger)
    return None if wanted.manifest["data"] == present.get("data") else wanted


def _in_use(seen: Seen) -> set[str]:
    """The revisions of member files that a pod or the StatefulSet names. What others name is none of ours."""
    specs: list[Object] = [pod["spec"] for pod in seen.world.all("Pod") if pod["metadata"]["name"] in seen.pods]
    if seen.stateful_set:
        specs.append(seen.stateful_set["spec"]["template"]["spec"])
    containers = (container for spec in specs for container in spec["containers"])
    arguments = (one for container in containers for one in container.get("args") or ())
    return {found[1] for one in arguments if (found := _OURS.fullmatch(one))}
