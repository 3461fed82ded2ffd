"""The kubeconfig as kubectl reads it: which files, merged how, and what a context in them says.

The one answer to "which connection does this context mean": readers, writers, watches and plugins all begin with the
`Access` that `read` returns. What kubectl refuses is refused here, too, instead of being guessed at. Only files are
read; nothing is connected to and no plugin is run. A kubeconfig or context that is not there is a matter of access (the
repository is right, this machine has no credentials); a file that is none is a wrong file.
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

MOST_VALUES = 100_000  # of a file: it may be anybody's who can write a Secret
LISTS = ("clusters", "users", "contexts")
TEXTS = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
    "user": (
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("token", "tokenFile", "username", "password", "as", "as-uid"),
    ),
}
_HEADER_SIGNS = "!#$&'*+-.^_`|~"  # beside letters and digits: what the name of a header may have

Headers = dict[str, str | tuple[str, ...]]  # a header with several values is sent as several lines


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

    @property
    def plugin(self) -> dict[str, Any] | None:
        """The program that gives credentials; None where the user has others, which kubectl prefers."""
        values = self.user.values
        others = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
        found = values.get("exec")
        return None if not found or any(values.get(name) for name in others) else cast(dict[str, Any], found)

    @property
    def local_fields(self) -> tuple[str, ...]:
        """The fields that run a program or read a file of this machine, whether or not another one is preferred."""
        user, cluster = self.user.values, self.cluster.values
        provider = user.get("auth-provider") or {}
        options = provider.get("config") or {} if isinstance(provider, dict) else {}
        named = {
            "certificate-authority": cluster,
            **dict.fromkeys(("exec", "tokenFile", "client-certificate", "client-key"), user),
            "idp-certificate-authority": options if isinstance(options, dict) else {},
        }
        return tuple(name for name, values in named.items() if values.get(name))

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

    def checked(self) -> Access:
        """Return it. Raise ValueError or TypeError for what kubectl refuses: of two answers, neither is taken."""
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
    if not isinstance(values.get("exec") or {}, dict) or not isinstance(values.get("auth-provider") or {}, dict):
        raise TypeError("exec or auth-provider of the user is no mapping")
    groups, extra = values.get("as-groups") or [], values.get("as-user-extra") or {}
    if not _are_texts(groups) or not isinstance(extra, dict) or not _are_texts(list(extra)):
        raise ValueError("as-groups of the user is no list of texts, or as-user-extra no mapping")
    if not all(_are_texts(each) for each in extra.values()):
        raise ValueError("as-user-extra of the user has something else than lists of texts")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def kubeconfig_files(path: Path | None = None) -> list[Path]:
    """The files that kubectl would read, those that are not there included."""
    if path is not None:
        return [path]
    listed = os.environ.get("KUBECONFIG")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]
    return [Path.home() / ".kube" / "config"]


def read_kubeconfig(path: Path | None = None, context: str | None = None) -> Access:
    """What the context (None: the current one) says; of things with one name, the first file has the word."""
    paths = kubeconfig_files(path)
    where = os.pathsep.join(map(str, paths))
    there = [each for each in paths if each.exists()]
    if not there:
        raise AccessError(
            f"there is no kubeconfig at {where}", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    documents = [(parse_kubeconfig(each), each.absolute().parent) for each in there]
    name = context or next((one["current-context"] for one, _ in documents if one.get("current-context")), None)
    try:
        if not name:
            raise ValueError("it has no current context")
        found = _named(documents, "contexts", name)
        about = found.values.get("context") or {}
        cluster = _named(documents, "clusters", about.get("cluster", ""))
        user = _named(documents, "users", about["user"]) if about.get("user") else Section({}, found.directory)
        return Access(str(name), _inner(cluster, "cluster"), _inner(user, "user")).checked()
    except (ValueError, TypeError, AttributeError) as problem:
        raise unusable_kubeconfig(where, context, problem) from problem


def unusable_kubeconfig(where: str, context: str | None, problem: object) -> AccessError:
    return AccessError(
        f"the kubeconfig {where} cannot be used{f' with context {context}' if context else ''}: {problem}",
        hint="`kubectl config get-contexts` lists the contexts that there are",
    )


def parse_kubeconfig(path: Path) -> dict[str, Any]:
    """What one file holds."""
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


def _named(documents: Iterable[tuple[dict[str, Any], Path]], kind: str, name: str) -> Section:
    for one, directory in documents:
        entries = [entry for entry in one.get(kind) or () if isinstance(entry, dict) and entry.get("name") == name]
        if len(entries) > 1:
            raise ValueError(f"{name!r} is twice among its {kind}")
        if entries:
            return Section(entries[0], directory)
    raise ValueError(f"there is no {name!r} among its {kind}")


def _inner(section: Section, name: str) -> Section:
    values = section.values.get(name) or {}
    if not isinstance(values, dict):
        raise TypeError(f"{name} of {section.values.get('name')!r} is no mapping")
    return Section(values, section.directory)
