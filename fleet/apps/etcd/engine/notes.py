"""The members' ConfigMap as a step: the ledger, and the files that follow from it. Pure."""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.seen import Seen
from fleet.kit import names as kit_names
from fleet.kit.files import members_map, revisions_in_use
from fleet.kit.members import Ledger
from fleet.kit.step import Apply
from fleet.kit.world import Object

_FOLDERS = (names.MEMBER_FILES, names.KEPT_FILES)


def noted(seen: Seen, ledger: Ledger, reason: str = "", note: str = "") -> Apply:
    present = seen.world.get("ConfigMap", kit_names.members_map(seen.app)) or {}
    return Apply(members_map(DRIVER, seen.app, ledger, present.get("data") or {}, _in_use(seen)), reason, note)


def files_as_wanted(seen: Seen, ledger: Ledger) -> Apply | None:
    """The files anew if they are not what the spec and the ledger say: members start with what they find there."""
    present = seen.world.get("ConfigMap", kit_names.members_map(seen.app)) or {}
    wanted = noted(seen, ledger)
    return None if wanted.manifest["data"] == present.get("data") else wanted


def _in_use(seen: Seen) -> set[str]:
    """The revisions of member files that a pod or the StatefulSet names."""
    specs: list[Object] = [pod["spec"] for pod in seen.world.all("Pod") if pod["metadata"]["name"] in seen.pods]
    if seen.stateful_set:
        specs.append(seen.stateful_set["spec"]["template"]["spec"])
    return revisions_in_use(_FOLDERS, specs)
