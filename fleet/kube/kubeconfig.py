"""The kubeconfig as kubectl reads it: which files, merged how, and what a context in them says.

Only files are read here; nothing is connected to and no plugin is run. A kubeconfig or context that is not there is a
matter of access (the repository is right, this machine has no credentials); a file that is none is a wrong file.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import AccessError, ConfigurationError

LISTS = ("clusters", "users", "contexts")


@dataclass(frozen=True, slots=True)
class Section:
    """A cluster or a user, and the directory that the paths in it are relative to."""

    values: dict[str, Any]
    directory: Path

    def file(self, name: str) -> Path | None:
        return self.directory / self.values[name] if self.values.get(name) else None

    def content(self, name: str) -> bytes | None:
        """Of `<name>-data`, else of the file that `<name>` is, else nothing."""
        data = self.values.get(f"{name}-data")
        if data:
            return base64.b64decode(data, validate=True)
        path = self.file(name)
        return path.read_bytes() if path else None


@dataclass(frozen=True, slots=True)
class Access:
    """What a context says: where the cluster is, and as whom."""

    context: str
    cluster: Section
    user: Section


def files(path: Path | None = None) -> list[Path]:
    """The files that kubectl would read, those that are not there included."""
    if path is not None:
        return [path]
    listed = os.environ.get("KUBECONFIG")
    if listed:
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]


def read(path: Path | None = None, context: str | None = None) -> Access:
    """What the context (None: the current one) says; of things with one name, the first file has the word."""
    paths = files(path)
    where = os.pathsep.join(map(str, paths))
    there = [each for each in paths if each.exists()]
    if not there:
        raise AccessError(
            f"there is no kubeconfig at {where}", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    documents = [(document(each), each.absolute().parent) for each in there]
    name = context or next((one["current-context"] for one, _ in documents if one.get("current-context")), None)
    try:
        if not name:
            raise ValueError("it has no current context")
        found = _named(documents, "contexts", name)
        about = found.values.get("context") or {}
        cluster = _named(documents, "clusters", about.get("cluster", ""))
        user = _named(documents, "users", about["user"]) if about.get("user") else Section({}, found.directory)
        return Access(str(name), _inner(cluster, "cluster"), _inner(user, "user"))
    except (ValueError, TypeError, AttributeError) as problem:
        raise unusable(where, context, problem) from problem


def unusable(where: str, context: str | None, problem: object) -> AccessError:
    return AccessError(
        f"the kubeconfig {where} cannot be used{f' with context {context}' if context else ''}: {problem}",
        hint="`kubectl config get-contexts` lists the contexts that there are",
    )


def document(path: Path) -> dict[str, Any]:
    """What one file holds."""
    import yaml  # noqa: PLC0415 - slow to load; the command line imports this module to complete names

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = yaml.load(path.read_text(), Loader=loader)  # noqa: S506 - both are the safe one
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise ConfigurationError(
            f"the kubeconfig {path} cannot be read: {problem}", hint="`kubectl config view` shows what is wrong"
        ) from problem
    if not isinstance(data, dict) or any(not isinstance(data.get(name) or [], list) for name in LISTS):
        raise ConfigurationError(
            f"{path} is not a kubeconfig", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    return data


def _named(documents: Iterable[tuple[dict[str, Any], Path]], kind: str, name: str) -> Section:
    for one, directory in documents:
        for entry in one.get(kind) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                return Section(entry, directory)
    raise ValueError(f"there is no {name!r} among its {kind}")


def _inner(section: Section, name: str) -> Section:
    return Section(section.values.get(name) or {}, section.directory)
