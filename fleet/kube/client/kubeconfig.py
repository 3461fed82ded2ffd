"""The kubeconfig as kubectl reads it: which files, merged how, and what a context in them says.

It is the one answer to "which connection does this context mean": readers, writers, watches and plugins all begin with
the `Access` that `read_kubeconfig` returns. What kubectl refuses is refused here, too, instead of being guessed at.
Only files are read; no connection is made and no plugin is run. A missing kubeconfig or context is a matter of access
(the repository is right, this machine has no credentials); a file that is no kubeconfig is a wrong file.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from fleet.errors import AccessError, ConfigurationError

MOST_VALUES = 100_000  # in a file: any user who can write a Secret may have written it
LISTS = ("clusters", "users", "contexts")
TEXTS = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
    "user": (
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("token", "tokenFile", "username", "password", "as", "as-uid"),
    ),
}
FLAGS = {"cluster": ("insecure-skip-tls-verify", "disable-compression"), "user": ()}
_HEADER_SIGNS = "!#$&'*+-.^_`|~"  # besides letters and digits: what the name of a header may contain

Headers = dict[str, str | tuple[str, ...]]  # a header with several values is sent as several lines


@dataclass(frozen=True, slots=True)
class Section:
    """A cluster or a user, and the directory that the paths in it are relative to."""

    values: dict[str, Any]
    directory: Path

    def file(self, name: str) -> Path | None:
        return self.directory / self.values[name] if self.values.get(name) else None

    def content(self, name: str) -> bytes | None:
        """Return the value of `<name>-data`, else the content of the file that `<name>` names, else None."""
        data = self.values.get(f"{name}-data")
        if data:
            return base64.b64decode(data, validate=True)
        path = self.file(name)
        return path.read_bytes() if path else None


@dataclass(frozen=True, slots=True)
class ContextAccess:
    """What a context says: the cluster's address and the user's credentials."""

    context: str
    cluster: Section
    user: Section

    @property
    def plugin(self) -> dict[str, Any] | None:
        """Return the program that gives credentials; None if the user has others, which kubectl prefers."""
        values = self.user.values
        preferred = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
        plugin = values.get("exec")
        return None if not plugin or any(values.get(name) for name in preferred) else cast(dict[str, Any], plugin)

    @property
    def local_fields(self) -> tuple[str, ...]:
        """Return the fields that run a program or read a file of this machine, even if another one is preferred."""
        user, cluster = self.user.values, self.cluster.values
        provider = user.get("auth-provider") or {}
        options = provider.get("config") or {} if isinstance(provider, dict) else {}
        sections = {
            "certificate-authority": cluster,
            **dict.fromkeys(("exec", "tokenFile", "client-certificate", "client-key"), user),
            "idp-certificate-authority": options if isinstance(options, dict) else {},
        }
        return tuple(name for name, values in sections.items() if values.get(name))

    @property
    def impersonation(self) -> Headers:
        """Return the headers that name the identity which the user takes on with `as`."""
        values = self.user.values
        if not values.get("as"):
            return {}
        headers: Headers = {"Impersonate-User": values["as"]}
        if values.get("as-uid"):
            headers["Impersonate-Uid"] = values["as-uid"]
        if values.get("as-groups"):
            headers["Impersonate-Group"] = tuple(values["as-groups"])
        for name, extra in (values.get("as-user-extra") or {}).items():
            headers[f"Impersonate-Extra-{quote(name, safe=_HEADER_SIGNS)}"] = tuple(extra)
        return headers

    def check(self) -> ContextAccess:
        """Return this access. Raise ValueError or TypeError for what kubectl refuses.

        Of two answers to one question, neither is taken.
        """
        _check_types(self.cluster.values, "cluster")
        _check_types(self.user.values, "user")
        cluster, user = self.cluster.values, self.user.values
        for values, names in ((cluster, ("certificate-authority",)), (user, ("client-certificate", "client-key"))):
            for name in names:
                if values.get(name) and values.get(f"{name}-data"):
                    raise ValueError(f"{name} and {name}-data are both there")
        authority = cluster.get("certificate-authority") or cluster.get("certificate-authority-data")
        if authority and cluster.get("insecure-skip-tls-verify"):
            raise ValueError("certificate-authority and insecure-skip-tls-verify are both there")
        has_certificate = user.get("client-certificate") or user.get("client-certificate-data")
        if has_certificate and not (user.get("client-key") or user.get("client-key-data")):
            raise ValueError("the user has a client-certificate and no client-key")
        if (user.get("token") or user.get("tokenFile")) and (user.get("username") or user.get("password")):
            raise ValueError("the user has a token and a password")
        if user.get("exec") and user.get("auth-provider"):
            raise ValueError("the user has both exec and auth-provider")
        if any(user.get(name) for name in ("as-uid", "as-groups", "as-user-extra")) and not user.get("as"):
            raise ValueError("the user has as-uid, as-groups or as-user-extra without as")
        return self


def _check_types(values: dict[str, Any], kind: str) -> None:
    for name in TEXTS[kind]:
        if not isinstance(values.get(name) or "", str):
            raise TypeError(f"{name} of the {kind} is no text")
    for name in FLAGS[kind]:
        if not isinstance(values.get(name), bool | None):
            raise TypeError(f"{name} of the {kind} is neither true nor false")
    if not isinstance(values.get("exec") or {}, dict) or not isinstance(values.get("auth-provider") or {}, dict):
        raise TypeError("exec or auth-provider of the user is no mapping")
    groups, extra = values.get("as-groups") or [], values.get("as-user-extra") or {}
    if not _are_texts(groups) or not isinstance(extra, dict) or not _are_texts(list(extra)):
        raise ValueError("as-groups of the user is no list of texts, or as-user-extra no mapping")
    if not all(_are_texts(extra_values) for extra_values in extra.values()):
        raise ValueError("as-user-extra of the user has something else than lists of texts")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def kubeconfig_files(path: Path | None = None) -> list[Path]:
    """Return the files that kubectl would read, including those that do not exist."""
    if path is not None:
        return [path]
    listed = os.environ.get("KUBECONFIG")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]
    return [Path.home() / ".kube" / "config"]


def read_kubeconfig(path: Path | None = None, context: str | None = None) -> ContextAccess:
    """Return what the context (None: the current one) says; of entries with the same name, the first file's counts.

    Raise AccessError if there is no such kubeconfig or context or it cannot be used, ConfigurationError if a file is no
    kubeconfig.
    """
    paths = kubeconfig_files(path)
    where = os.pathsep.join(map(str, paths))
    existing = [file for file in paths if file.exists()]
    if not existing:
        raise AccessError(
            f"there is no kubeconfig at {where}", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    documents = [(parse_kubeconfig(file), file.absolute().parent) for file in existing]
    name = context or next(
        (document["current-context"] for document, _ in documents if document.get("current-context")), None
    )
    try:
        if not name:
            raise ValueError("it has no current context")
        entry = _find_section(documents, "contexts", name)
        settings = entry.values.get("context") or {}
        cluster = _find_section(documents, "clusters", settings.get("cluster", ""))
        user = (
            _find_section(documents, "users", settings["user"])
            if settings.get("user")
            else Section({}, entry.directory)
        )
        return ContextAccess(str(name), _unwrap_section(cluster, "cluster"), _unwrap_section(user, "user")).check()
    except (ValueError, TypeError, AttributeError) as problem:
        raise unusable_kubeconfig(where, context, problem) from problem


def unusable_kubeconfig(where: str, context: str | None, problem: object) -> AccessError:
    """Return the error for a kubeconfig or context that cannot be used."""
    return AccessError(
        f"the kubeconfig {where} cannot be used{f' with context {context}' if context else ''}: {problem}",
        hint="`kubectl config get-contexts` lists the contexts that there are",
    )


def parse_kubeconfig(path: Path) -> dict[str, Any]:
    """Return the content of one file; raise ConfigurationError if it is no kubeconfig."""
    # Slow to load, and the command line imports this module to complete names.
    from fleet.yaml_text import NotYamlError, read_documents  # noqa: PLC0415

    try:
        first = next(read_documents(path.read_text(), MOST_VALUES), None)
        data = first.data if first else None
    except (OSError, UnicodeDecodeError, NotYamlError) as problem:
        raise ConfigurationError(
            f"the kubeconfig {path} cannot be read: {problem}", hint="`kubectl config view` shows what is wrong"
        ) from problem
    if not isinstance(data, dict) or any(not isinstance(data.get(name) or [], list) for name in LISTS):
        raise ConfigurationError(
            f"{path} is not a kubeconfig", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    return data


def _find_section(documents: Iterable[tuple[dict[str, Any], Path]], kind: str, name: str) -> Section:
    for document, directory in documents:
        entries = [entry for entry in document.get(kind) or () if isinstance(entry, dict) and entry.get("name") == name]
        if len(entries) > 1:
            raise ValueError(f"{name!r} is twice among its {kind}")
        if entries:
            return Section(entries[0], directory)
    raise ValueError(f"there is no {name!r} among its {kind}")


def _unwrap_section(section: Section, name: str) -> Section:
    values = section.values.get(name) or {}
    if not isinstance(values, dict):
        raise TypeError(f"{name} of {section.values.get('name')!r} is no mapping")
    return Section(values, section.directory)
