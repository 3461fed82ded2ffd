"""The environment and configuration that every git command runs with. Pure, except that it is given what exists.

Nothing of the caller's GIT_* variables and nothing of the person's configuration gets through, but for what gives
access: credential helpers, proxies, certificates, ssh command, url rewrites, safe.directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_ACCESS_KEYS = r"^(credential|http|url|safe\.directory|core\.sshcommand|ssh\.variant)(\.|$)"
_FILTER_KEYS = r"^filter\..+\.(clean|smudge|process|required)$"
ASKED_KEYS = f"{_ACCESS_KEYS}|{_FILTER_KEYS}"
"""What is asked of a configuration, as `git config --get-regexp` wants it (keys are lower case there)."""

_DEFAULT_ACCESS = (("core.sshcommand", "ssh -oBatchMode=yes -oConnectTimeout=15"),)

# These win over the repository's own configuration.
_HARDENED = {
    "core.bigFileThreshold": "16m",  # larger ones are written as they come and never held in memory
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
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
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "receive.fsckObjects": "true",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "transfer.fsckObjects": "true",
}

_DROPPED = re.compile(r"GIT_.*|SSH_ASKPASS(_REQUIRE)?|VISUAL|EDITOR|PAGER")


def dropped(environment: Iterable[str]) -> list[str]:
    """The variables of the caller's environment that git must not see."""
    return sorted(name for name in environment if _DROPPED.fullmatch(name))


def variables(
    *, global_config: str, protocol: str | None, overrides: Mapping[str, str], filters: Iterable[str] = ()
) -> dict[str, str]:
    """What is set for one command. Without a `protocol` it can reach no remote at all, not even lazily.

    `filters` are those that the repository's own configuration names: programs that git would run over files.
    """
    emptied = {
        f"filter.{name}.{key}": value
        for name in filters
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }
    settings = {**_HARDENED, **emptied}
    result = {
        "GIT_ALLOW_PROTOCOL": protocol or "none",
        "GIT_ASKPASS": "",
        "GIT_CONFIG_GLOBAL": global_config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_EDITOR": "false",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # reading must not refresh the user's index
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings.items()):
        result[f"GIT_CONFIG_KEY_{number}"] = key
        result[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**result, **overrides}


def access_settings(listing: bytes) -> list[tuple[str, str | None]]:
    """Read `git config --null --show-scope --get-regexp`: pairs of the person's scopes, in git's order."""
    pairs: list[tuple[str, str | None]] = []
    for scope, entry in _entries(listing):
        key, separator, value = entry.partition("\n")
        if scope in ("system", "global") and not re.fullmatch(_FILTER_KEYS, key):
            pairs.append((key, value if separator else None))
    return pairs


def filter_names(listing: bytes) -> tuple[str, ...]:
    """Of the same listing: which filters there are, whoever configured them."""
    keys = (entry.partition("\n")[0] for _, entry in _entries(listing))
    return tuple(
        dict.fromkeys(key.partition(".")[2].rpartition(".")[0] for key in keys if re.fullmatch(_FILTER_KEYS, key))
    )


def _entries(listing: bytes) -> Iterable[tuple[str, str]]:
    fields = listing.decode(errors="surrogateescape").split("\0")
    return zip(fields[::2], fields[1::2], strict=False)


def config_text(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Settings in the syntax of a git configuration file; `None` is a key without a value (true)."""
    lines = []
    for key, value in [*_DEFAULT_ACCESS, *pairs]:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{section} "{quoted}"]' if subsection else f"[{section}]")
        lines.append(f"\t{name}" if value is None else f"\t{name} = {_quote(value)}")
    return "\n".join(lines) + "\n"


def _quote(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"}
    return '"' + "".join(escapes.get(letter, letter) for letter in value) + '"'
