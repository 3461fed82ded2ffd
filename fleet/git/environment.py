"""Environment, configuration and limits that every git command runs with. Pure, except that it is given what exists.

Nothing of the caller's GIT_* variables and nothing of the user's configuration gets through, but for what gives
access: credential helpers, proxies, certificates, ssh command, url rewrites, safe.directory; and of the variables the
file of authorities, GIT_SSL_CAINFO. Where git is told of none, it takes that of SSL_CERT_FILE, as our other clients do.

A clone's own configuration may come from the person who handed it over. Git reads it, so every setting in it that runs
a program or leads credentials elsewhere is overruled, by the user's own setting or by git's default. Its headers are
kept: CI services put their tokens there.

A repository is input from untrusted authors: no size in it is trusted, and `Limits` bounds what one operation may use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ACCESS_KEYS = r"^(credential|http|url|safe\.directory|core\.sshcommand|ssh\.variant)(\.|$)"
_FILTER_KEYS = r"^filter\..+\.(clean|smudge|process|required)$"
_HOOK_KEYS = r"^hook\..+\.(command|event|enabled)$"  # of git 2.54 and later; older ones have files only
_REMOTE_KEYS = r"^remote\..+\.proxy$"
ASKED_KEYS = f"{_ACCESS_KEYS}|{_FILTER_KEYS}|{_HOOK_KEYS}|{_REMOTE_KEYS}"
"""What is asked of a configuration, as `git config --get-regexp` wants it (keys are lower case there)."""

_EMPTIED = {
    "filter": (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")),
    "hook": (("enabled", "false"),),
}
Setting = tuple[str, str | None]
"""A setting; `None` is a key without a value (true)."""

_SSH = "ssh -oBatchMode=yes -oConnectTimeout=15"
_DEFAULT_ACCESS: tuple[Setting, ...] = (("core.sshcommand", _SSH),)

# What is overruled where a clone sets it: section and name → what holds where the person has no setting. Those of http
# can be for one address, and win over ones for all: each is overruled under its own key.
_OVERRULED_DEFAULTS = {
    "core.sshcommand": _SSH,
    "ssh.variant": "auto",
    "credential.helper": "",  # an empty one forgets those before it
    "http.curloptresolve": "",
    "http.delegation": "none",
    "http.followredirects": "false",
    "http.proxy": "",
    "http.savecookies": "false",  # into any file that it names
    "http.sslverify": "true",
    "remote.proxy": "",
}
_HELPER = "credential.helper"

# These win over the repository's own configuration.
_HARDENED = {
    "core.alternateRefsCommand": "true",  # a program, for what a fetch need not know
    "core.bigFileThreshold": "16m",  # larger ones are written as they come and never held in memory
    "core.commitGraph": "false",  # a file that says again what commits are, and need not be true
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.packedGitLimit": "256m",  # of packs in memory at a time: they count there, however large they are
    "core.packedGitWindowSize": "32m",
    "core.pager": "cat",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
    "core.splitIndex": "false",
    "color.ui": "false",
    "commit.gpgSign": "false",
    "credential.interactive": "false",
    "fetch.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "http.followRedirects": "false",  # a server could send us, with credentials, to where its owner cannot go
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "i18n.commitEncoding": "UTF-8",  # what is written is: another name would be a lie in the header of commits
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "pack.threads": "2",  # each has its own memory
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "receive.fsckObjects": "true",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "transfer.fsckObjects": "true",
}

_DROPPED = re.compile(r"GIT_(?!SSL_CAINFO$).*|SSH_ASKPASS(_REQUIRE)?|VISUAL|EDITOR|PAGER")


def dropped_variables(environment: Iterable[str]) -> list[str]:
    """Return the variables of the caller's environment that git must not see."""
    return sorted(name for name in environment if _DROPPED.fullmatch(name))


def variables(
    *,
    global_config: str,
    protocol: str | None,
    overrides: Mapping[str, str],
    programs: Iterable[str] = (),
    access: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Return what is set for one command. Without a `protocol` it can reach no remote at all, not even lazily.

    `programs` are the filters and hooks that a configuration names, as `filter.NAME` and `hook.NAME`: git would run
    them; `access` is what overrules it.
    """
    emptied = [(f"{name}.{key}", value) for name in programs for key, value in _EMPTIED[name.partition(".")[0]]]
    settings = [*_HARDENED.items(), *emptied, *access]
    result = {
        "GIT_ALLOW_PROTOCOL": protocol or "none",
        "GIT_ASKPASS": "",
        "GIT_CONFIG_GLOBAL": global_config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_EDITOR": "false",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_PROXY_COMMAND": "",  # no core.gitProxy either
        "GIT_OPTIONAL_LOCKS": "0",  # reading must not refresh the user's index
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "GIT_CONFIG_COUNT": str(len(settings)),
        "MALLOC_ARENA_MAX": "2",  # each thread would reserve memory that it never uses, and that is limited
    }
    for number, (key, value) in enumerate(settings):
        result[f"GIT_CONFIG_KEY_{number}"] = key
        result[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**result, **overrides}


def access_settings(listing: bytes) -> list[Setting]:
    """Read `git config --null --show-scope --get-regexp`: pairs of the user's scopes, in git's order.

    All but whether redirects are followed: for one address, that would win over what is set for all.
    """
    person = (
        pair for scope, pair in _scoped_settings(listing) if scope == "person" and re.match(_ACCESS_KEYS, pair[0])
    )
    return [pair for pair in person if _kind(pair[0]) != "http.followredirects"]


def overruled_settings(listing: bytes) -> tuple[str, ...]:
    """Return, of the same listing, what the clone sets and may not set, as `section.name`, each once."""
    return tuple(dict.fromkeys(_kind(key) for key in _overruled_keys(listing)))


def overruling_settings(listing: bytes) -> list[tuple[str, str]]:
    """Return, of the same listing, what is set at command level so that the user's settings hold and not the clone's.

    Helpers are one list to git, for every address: all are forgotten, and the user's are named again.
    """
    person = [(key, "true" if value is None else value) for key, value in access_settings(listing)]
    helpers = [(key, value) for key, value in person if _kind(key) == _HELPER]
    result = [(_HELPER, ""), *helpers] if _HELPER in overruled_settings(listing) else []
    for key in _overruled_keys(listing):
        kind = _kind(key)
        if kind != _HELPER:
            values = [value for name in (kind, key) for own, value in person if own == name]
            result.append((key, values[-1] if values else _OVERRULED_DEFAULTS[kind]))
    return result


def programs(listing: bytes) -> tuple[str, ...]:
    """Return, of the same listing, which filters and hooks there are, in whichever scope they are configured."""
    keys = (entry.partition("\n")[0] for _, entry in _entries(listing))
    names = (key.rpartition(".")[0] for key in keys if re.fullmatch(f"{_FILTER_KEYS}|{_HOOK_KEYS}", key))
    return tuple(dict.fromkeys(names))


def _overruled_keys(listing: bytes) -> list[str]:
    keys = (key for scope, (key, _) in _scoped_settings(listing) if scope == "clone")
    return list(dict.fromkeys(key for key in keys if _kind(key) in _OVERRULED_DEFAULTS))


def _kind(key: str) -> str:
    return f"{key.partition('.')[0]}.{key.rpartition('.')[2]}"


def _scoped_settings(listing: bytes) -> Iterable[tuple[str, Setting]]:
    for scope, entry in _entries(listing):
        key, separator, value = entry.partition("\n")
        yield "person" if scope in ("system", "global") else "clone", (key, value if separator else None)


def _entries(listing: bytes) -> Iterable[tuple[str, str]]:
    fields = listing.decode(errors="surrogateescape").split("\0")
    return zip(fields[::2], fields[1::2], strict=False)


def config_text(pairs: Iterable[Setting], authorities: str = "") -> str:
    """Return settings as the text of a git configuration file; later ones win. `authorities` is a certificate file."""
    lines = []
    trusted: list[Setting] = [("http.sslcainfo", authorities)] if authorities else []
    for key, value in [*_DEFAULT_ACCESS, *trusted, *pairs]:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{section} "{quoted}"]' if subsection else f"[{section}]")
        lines.append(f"\t{name}" if value is None else f"\t{name} = {_quote(value)}")
    return "\n".join(lines) + "\n"


def _quote(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"}
    return '"' + "".join(escapes.get(letter, letter) for letter in value) + '"'


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Bounds of time and size of one git operation; the defaults fit a large configuration repository."""

    seconds: float = 60  # of one local command
    memory_bytes: int = 2048 * MIB  # of address space, for the same
    transfer_seconds: float = 600  # of one fetch or push
    transfer_bytes: int = 2048 * MIB  # of one pack that is received
    transfer_memory_bytes: int = 4096 * MIB  # of each process of a fetch or push
    output_bytes: int = 256 * MIB  # of one command's output
    files: int = 100_000  # of one tree
    merged_files: int = 500_000  # of one that is merged: the fleet may be a small part of it
    depth: int = 100  # of directories
    path_bytes: int = 1024
    file_bytes: int = 32 * MIB
    tree_bytes: int = 1024 * MIB  # of all files of one tree


DEFAULT_LIMITS = GitLimits()
