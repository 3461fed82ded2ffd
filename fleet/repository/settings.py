"""The settings in `fleet.toml`: their types, and how they are read. No I/O, and imports nothing heavy: every command
needs it.

There is one frozen class per section, every field with a default that is safe: an empty `fleet.toml` is a valid one.
The text becomes Settings, or an error that names line, field and what would be right. `tomllib` gives values without
positions, so the line of a key is looked up in the text once there is an error to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, NoReturn

from fleet.errors import ConfigurationError, Source
from fleet.times import parse_duration

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fleet:
    """What this fleet is called: clusters remember it, so that another repository does not take over its stacks."""

    name: str = ""  # one that no other has; "": the address of the remote, else the first commit


@dataclass(frozen=True, slots=True)
class Paths:
    """Directories and files of the repository, relative to its root."""

    stacks: str = "stacks"  # files with functions that are stacks
    clusters: str = "clusters"  # files with fleet.Cluster objects
    lock: str = "stacks/requirements.lock"  # the packages that stacks may import, with hashes; it need not be there


@dataclass(frozen=True, slots=True)
class Git:
    """Which branch is synced, and where health is written."""

    remote: str = "origin"  # where health is pushed to
    branch: str = "main"  # what is synced; `fleet sync` applies another only with --any-branch
    status_branch: str = "fleet/status"
    rendered: str = "fleet/rendered"  # what clusters with an agent of their own are to have: a branch below for each


@dataclass(frozen=True, slots=True)
class Forge:
    """Where pull requests are, if the remote's address does not tell. Tokens are never here."""

    kind: str = ""  # "github", "gitlab" or "gitea" (Forgejo too); "": by the host, where it is a well-known one
    url: str = ""  # of the forge, as people open it; "": that of the remote
    repository: str = ""  # its path there, such as "team/fleet"; "": that of the remote


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one sync may take away before a person has to say so."""

    deletions: int = 10  # objects in one cluster, of all stacks together
    share: float = 0.1  # of a stack's objects in one cluster; one object is always within it


class Code(StrEnum):
    """Whose code the stacks are."""

    OWN = "own"  # limits suffice where the system has no sandbox
    OTHERS = "others"  # never runs outside a sandbox


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose code the stacks are, and so how it is evaluated and with which rights it is applied."""

    code: Code = Code.OWN
    account: str = ""  # "namespace/{stack}": the service account in whose name a stack is read and applied


@dataclass(frozen=True, slots=True)
class Approval:
    """Whether only what was previewed and recorded is applied, and where the records are."""

    required: bool = False  # as `fleet sync --require-approved` does for one sync
    branch: str = "fleet/approved"  # protect it: whoever can push to it can approve


@dataclass(frozen=True, slots=True)
class Limits:
    """What evaluating one stack for all its clusters may use: spans of time such as "30s", sizes such as "1Gi"."""

    time: float = 30.0  # by the clock on the wall; all files together may take 60 times as long
    cpu: float = 30.0  # time that it computes
    memory: int = 1024 * MIB  # of address space
    output: int = MIB  # that the code prints; also the largest file it can write
    result: int = 64 * MIB  # the rendered objects, as JSON; of all files together four times as much


@dataclass(frozen=True, slots=True)
class Settings:
    fleet: Fleet = field(default_factory=Fleet)
    paths: Paths = field(default_factory=Paths)
    git: Git = field(default_factory=Git)
    forge: Forge = field(default_factory=Forge)
    budget: Budget = field(default_factory=Budget)
    trust: Trust = field(default_factory=Trust)
    limits: Limits = field(default_factory=Limits)
    approval: Approval = field(default_factory=Approval)

    @classmethod
    def of(cls, data: dict[str, dict[str, Any]]) -> Settings:
        """Return the settings of the data that their JSON holds."""
        return cls(
            Fleet(**data["fleet"]),
            Paths(**data["paths"]),
            Git(**data["git"]),
            Forge(**data["forge"]),
            Budget(**data["budget"]),
            Trust(Code(data["trust"]["code"]), data["trust"]["account"]),
            Limits(**data["limits"]),
            Approval(**data["approval"]),
        )


FILE = "fleet.toml"
LARGEST = 64 * 1024
DEEPEST = 32  # dots in a line: tomllib's time, and its memory, grow with the square of a key's parts
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%")
_ACCOUNT = re.compile(r"(?:[a-z0-9-]|\{stack\})+/(?:[a-z0-9.-]|\{stack\})+")
_SIZE = re.compile(r"(\d{1,15})(Ki|Mi|Gi)?")
_BYTES = {None: 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
MOST_COUNT, LONGEST_TIME, LARGEST_SIZE = 1_000_000, 86_400.0, 1024**4  # what clocks and kernels can still work with
_REF = re.compile(r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock$|\.lock/|/\.|[/.]$))[^\x00-\x20~^:?*\[\\\x7f]+")

_URL = re.compile(
    r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[\w.~-]+)*/?|https?://\[[0-9A-Fa-f:.]+\](:\d{1,5})?(/[\w.~-]+)*/?"
)
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+")
FORGES = ("github", "gitlab", "gitea")


class InvalidError(ValueError):
    """A value that a field does not take; the message says what it takes."""


def check_directory(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidError('is a directory of the repository, such as "stacks"')
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or str(path) == ".":
        raise InvalidError('is a directory below the repository\'s root, such as "stacks"')
    return str(path)


def check_file(value: object) -> str:
    try:
        return check_directory(value)
    except InvalidError:
        raise InvalidError('is a file of the repository, such as "stacks/requirements.lock"') from None


def check_fleet_name(value: object) -> str:
    """Return a name that can be typed after a flag: the default, an address, must be a valid one too."""
    fits = isinstance(value, str) and value.isprintable() and 0 < len(value) <= 250
    if not isinstance(value, str) or not fits or value != value.strip() or value.startswith("-"):
        raise InvalidError('is a name that no other fleet has, such as "shop" or "example.com/team/fleet"')
    return value


def check_ref(value: object) -> str:
    if not isinstance(value, str) or not _REF.fullmatch(value):
        raise InvalidError('is a name that git accepts, such as "main"')
    return value


def check_forge_kind(value: object) -> str:
    if value not in FORGES:
        raise InvalidError("is " + ", ".join(f'"{kind}"' for kind in FORGES[:-1]) + f' or "{FORGES[-1]}"')
    return str(value)


def check_forge_url(value: object) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise InvalidError('is the address of a forge, such as "https://git.example.com", without a user or a password')
    return value.rstrip("/")


def check_forge_repository(value: object) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value) or ".." in value:
        raise InvalidError('is a path on the forge, such as "team/fleet"')
    return value


def check_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_COUNT:
        raise InvalidError("is a whole number, 0 or more and 1000000 at most")
    return value


def parse_share(value: object) -> float:
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if not match or float(match[1]) > 100:
        raise InvalidError('is a share, such as "10%"')
    return float(match[1]) / 100


def parse_code(value: object) -> Code:
    if not isinstance(value, str) or value not in set(Code):
        raise InvalidError("is " + " or ".join(f'"{choice}"' for choice in Code))
    return Code(value)


def check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidError("is true or false")
    return value


def check_account(value: object) -> str:
    if not isinstance(value, str) or not _ACCOUNT.fullmatch(value):
        raise InvalidError('is a service account, "namespace/name", such as "tenants/{stack}"')
    return value


def parse_limit_duration(value: object) -> float:
    try:
        seconds = parse_duration(value) if isinstance(value, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIME:
        raise InvalidError('is a duration above zero and of a day at most, such as "30s" or "2m"')
    return seconds


def parse_size(value: object) -> int:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    number = int(match[1]) * _BYTES[match[2]] if match else 0
    if not 0 < number <= LARGEST_SIZE:
        raise InvalidError('is a size above zero and of 1024Gi at most, such as "512Mi" or "1Gi"')
    return number


SECTIONS: Mapping[str, tuple[type, Mapping[str, Callable[[object], Any]]]] = {
    "fleet": (Fleet, {"name": check_fleet_name}),
    "paths": (Paths, {"stacks": check_directory, "clusters": check_directory, "lock": check_file}),
    "git": (Git, {"remote": check_ref, "branch": check_ref, "status_branch": check_ref, "rendered": check_ref}),
    "forge": (Forge, {"kind": check_forge_kind, "url": check_forge_url, "repository": check_forge_repository}),
    "budget": (Budget, {"deletions": check_count, "share": parse_share}),
    "trust": (Trust, {"code": parse_code, "account": check_account}),
    "limits": (
        Limits,
        {
            "time": parse_limit_duration,
            "cpu": parse_limit_duration,
            "memory": parse_size,
            "output": parse_size,
            "result": parse_size,
        },
    ),
    "approval": (Approval, {"required": check_flag, "branch": check_ref}),
}


def read_settings(text: str) -> Settings:
    """Return the settings in the text of a `fleet.toml`, which may come from an attacker; raise ConfigurationError for
    what is wrong.
    """
    import tomllib  # noqa: PLC0415 - not needed where settings are known already

    try:
        if len(text) > LARGEST:
            raise ConfigurationError("is larger than 64 KiB", hint="it has no reason to be", source=Source(FILE))
        for number, line in enumerate(text.split("\n"), 1):
            if line.count(".") > DEEPEST and not line.lstrip().startswith("#"):
                raise ConfigurationError(
                    f"has more than {DEEPEST} dots in a line", hint="no key is that deep", source=Source(FILE, number)
                )
        return _read_sections(text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(error) from None
    except (RecursionError, ValueError):  # so Python says that a list is too deep, or a number too long
        raise ConfigurationError(
            "has a value that is too long or too deep", hint="it has no reason to be", source=Source(FILE)
        ) from None


def _read_sections(text: str, data: dict[str, Any]) -> Settings:
    sections = {}
    for section, values in data.items():
        if section not in SECTIONS:
            _refuse_unknown(text, (section,), "section", SECTIONS)
        if not isinstance(values, dict):
            _refuse(
                text, (section,), f"{values!r} is no section", f"write a line [{section}] and its settings below it"
            )
        sections[section] = _read_section(text, section, values)
    settings = Settings(**sections)
    if settings.git.branch == settings.git.status_branch:
        _refuse(
            text,
            ("git", "status_branch"),
            "health would be written to the branch that is synced",
            'choose a branch of its own, such as "fleet/status"',
        )
    if settings.git.rendered in (settings.git.branch, settings.git.status_branch):
        _refuse(
            text,
            ("git", "rendered"),
            "rendered sets are branches below this one, and it is for something else",
            'choose a name of its own, such as "fleet/rendered"',
        )
    if settings.approval.branch in (settings.git.branch, settings.git.status_branch):
        _refuse(
            text,
            ("approval", "branch"),
            "approvals would be written to a branch that is for something else",
            'choose a branch of its own, such as "fleet/approved"',
        )
    return settings


def _read_section(text: str, section: str, values: dict[str, Any]) -> Any:
    section_type, fields = SECTIONS[section]
    fields_read = {}
    for name, value in values.items():
        if name not in fields:
            _refuse_unknown(text, (section, name), "setting", fields)
        try:
            fields_read[name] = fields[name](value)
        except InvalidError as error:
            _refuse(text, (section, name), f"does not take {value!r}", f"{name} {error}")
    return section_type(**fields_read)


def _refuse_unknown(text: str, path: tuple[str, ...], what: str, names: Mapping[str, Any]) -> NoReturn:
    from fleet.suggestion import closest  # noqa: PLC0415 - only on the way to an error

    close = closest(path[-1], names)
    hint = f"did you mean {close}?" if close else f"{what}s are: {', '.join(names)}"
    _refuse(text, path, f"there is no such {what}", hint)


def _refuse(text: str, path: tuple[str, ...], message: str, hint: str) -> NoReturn:
    raise ConfigurationError(message, hint=hint, source=Source(FILE, line_of(text, path)), field=".".join(path))


def _toml_error(error: ValueError) -> ConfigurationError:
    message, _, place = str(error).partition(" (at ")
    line = re.search(r"line (\d+)", place)
    return ConfigurationError(
        f"is not TOML: {message}", hint="see https://toml.io", source=Source(FILE, int(line[1]) if line else 0)
    )


def line_of(text: str, path: tuple[str, ...]) -> int:
    """Return the line where a section or a key of it begins; 0 when it cannot be told."""
    section, *rest = path
    current_section = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([^\]\s][^\]]*)\]", line)
        if header:
            current_section = header[1].strip()
            if not rest and current_section.split(".")[0] == section:
                return number
            continue
        key = re.match(r"\s*([\w.\"-]+)\s*=", line)
        full = ".".join(part for part in (current_section, key[1].replace('"', "") if key else "") if part)
        if key and (full == ".".join(path) or full.startswith(".".join(path) + ".")):
            return number
        if key and rest and full == section:  # an inline table: paths = { stacks = "…" }
            return number
    return 0
