"""The configuration files of members, in one ConfigMap with the ledger.

Files are named by pod and by a revision, a hash of the settings that are the same for all members of a role, and the
pod template names the revision: a member that is restarted by chance while a change rolls through keeps the
configuration that its pod was made with. Settings that members take while they run are left out of the revision.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppType, Role
from fleet.kit.members import Ledger, MemberRecord
from fleet.model.app import App

A = TypeVar("A", bound=App)
Object = dict[str, Any]
_LENGTH = 10  # of a revision
_FILE = re.compile(rf"(?P<pod>.+)\.(?P<revision>[0-9a-f]{{{_LENGTH}}})\.(?P<name>.+)")


def file_name(pod: str, revision: str, name: str) -> str:
    """Return the key of a member's file in the ConfigMap, and its name in the pod."""
    return f"{pod}.{revision}.{name}"


def revision(app_type: AppType[A], app: A, role: str = "") -> str:
    """Return the revision of the files of a role that the app asks for."""
    declared = app_type.role(role)
    settings = app_type.shared_settings(app, declared)
    counted = {name: value for name, value in settings.items() if app_type.is_in_revision(app, declared, name)}
    text = json.dumps({"": role, **counted} if role else counted, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def files(
    app_type: AppType[A], app: A, ledger: Ledger, present: Mapping[str, str], used: Iterable[str]
) -> dict[str, str]:
    """Return all files: of the wanted configuration, and of those (`used`) that pods were made with, as `present` has
    them. What they say about the cluster is of now in both.
    """
    result: dict[str, str] = {}
    older = _older_files(present, used)
    for role in app_type.roles:
        members, wanted = ledger.of_role(role.name), revision(app_type, app, role.name)
        result |= _by_name(_files_by_pod(app_type, app, members, app_type.shared_settings(app, role)), wanted)
        for name, texts in older.items():
            first = next(iter(texts))
            if name == wanted or _role_of(app_type, app, first) != role:
                continue
            settings = app_type.read_settings(texts[first])
            kept = {pod: texts.get(pod, {}) for pod in members}
            again = kept if settings is None else _files_by_pod(app_type, app, members, settings)
            result |= _by_name(again, name)
    return result


def _files_by_pod(
    app_type: AppType[A], app: A, members: Mapping[str, MemberRecord], settings: Mapping[str, Any]
) -> dict[str, Mapping[str, str]]:
    return {pod: app_type.files(app, pod, record, settings) for pod, record in members.items()}


def _by_name(files_by_pod: Mapping[str, Mapping[str, str]], revision: str) -> dict[str, str]:
    return {file_name(pod, revision, name): text for pod, texts in files_by_pod.items() for name, text in texts.items()}


def _older_files(present: Mapping[str, str], used: Iterable[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the texts of the files that there are of revisions in use, by revision, pod and name, in order."""
    wanted, older = {*used}, dict[str, dict[str, dict[str, str]]]()
    for key, text in sorted(present.items()):
        match = _FILE.fullmatch(key)
        if match is not None and match["revision"] in wanted:
            older.setdefault(match["revision"], {}).setdefault(match["pod"], {})[match["name"]] = text
    return older


def _role_of(app_type: AppType[A], app: A, pod: str) -> Role[A]:
    """Return the role of a pod by its name: it may have left the ledger."""
    stateful_set = pod.rpartition("-")[0]
    roles = (role for role in app_type.roles if names.stateful_set(app, role.name) == stateful_set)
    return next(roles, app_type.roles[0])


def revisions_in_use(folders: Iterable[str], specs: Iterable[Object]) -> set[str]:
    """Return the revisions of files in these directories that specs of pods name. Other files are none of fleet's."""
    known = "|".join(map(re.escape, folders))
    named = re.compile(rf"(?:.*=)?(?:{known})/[^/]+\.([0-9a-f]{{{_LENGTH}}})\.[^/]+")
    found = set()
    for spec in specs:
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            words = (*(container.get("command") or ()), *(container.get("args") or ()))
            found |= {match[1] for word in words if (match := named.fullmatch(word))}
    return found


def members_map(
    app_type: AppType[A], app: A, ledger: Ledger, present: Mapping[str, str], used: Iterable[str]
) -> Object:
    """Return the ConfigMap with the ledger and the files that follow from it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.metadata(app, names.members_map(app), annotations=ledger.annotations),
        "data": files(app_type, app, ledger, present, used),
    }
