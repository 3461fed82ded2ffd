"""The settings in `fleet.toml`. No I/O, and imports nothing heavy: every command needs it.

There is one frozen class per section, and a setting is one field of it: its default as the file has it, the values
that it takes, and below it what it means. How it is read, its line in the reference and its part of the JSON schema
for editors follow from that. Every default is safe: an empty `fleet.toml` is a valid one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NoReturn

from fleet.errors import ConfigurationError, Source
from fleet.forge import FORGES
from fleet.repository import values
from fleet.repository.values import InvalidError, choose_from, choose_name, setting

FILE = "fleet.toml"


@dataclass(frozen=True, slots=True)
class Fleet:
    """What this fleet is called: clusters remember it, so that another repository does not take over its stacks."""

    name: str = setting(values.UNIQUE_NAME)
    """A name that no other fleet has. Without one, it is the address of the remote, else the first commit."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Directories and files of the repository, relative to its root."""

    stacks: str = setting(values.DIRECTORY, "stacks")
    """The directory of the files with functions that are stacks."""
    clusters: str = setting(values.DIRECTORY, "clusters")
    """The directory of the files with fleet.Cluster objects."""
    lock: str = setting(values.FILE_PATH, "stacks/requirements.lock")
    """The packages that stacks may import, with hashes. The file need not exist."""


@dataclass(frozen=True, slots=True)
class GitSettings:
    """Which branch is synced, and where health is written."""

    remote: str = setting(values.REF, "origin")
    """The remote that health is pushed to."""
    branch: str = setting(values.REF, "main")
    """The branch that is synced. `fleet sync` applies another one only with --any-branch."""
    status_branch: str = setting(values.REF, "fleet/status")
    """The branch that health is written to, never the one that is synced."""
    rendered: str = setting(values.REF, "fleet/rendered")
    """What clusters with an agent of their own are to have: a branch below this name for each."""


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """Where pull requests are, if the remote's address does not tell. Tokens are never here."""

    kind: str = setting(choose_name(FORGES))
    """The software of a forge of your own ("gitea" is Forgejo, too). Well-known hosts are known."""
    url: str = setting(values.FORGE_URL)
    """The address of the forge, as people open it. Without one, it is that of the remote."""
    repository: str = setting(values.FORGE_PATH)
    """The path of the repository there, such as "team/fleet". Without one, it is that of the remote."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one sync may take away before a person has to say so."""

    deletions: int = setting(values.COUNT, 10)
    """The objects that one sync may delete in a cluster, of all stacks together."""
    share: float = setting(values.SHARE, "10%")
    """The share of a stack's objects that one sync may delete in a cluster. One object may always go."""


class Code(StrEnum):
    """Whose code the stacks are."""

    OWN = "own"  # limits suffice where the system has no sandbox
    OTHERS = "others"  # never runs outside a sandbox


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose code the stacks are, and so how it is evaluated and with which rights it is applied."""

    code: Code = setting(choose_from(Code), "own")
    """Whose code the stacks are. With "others" they are evaluated in a sandbox or not at all."""
    account: str = setting(values.ACCOUNT)
    """The service account, "namespace/{stack}", in whose name a stack is read and applied. Without one, it is the user
    of the kubeconfig.
    """


@dataclass(frozen=True, slots=True)
class Limits:
    """What evaluating one stack for all its clusters may use: spans of time such as "30s", sizes such as "1Gi"."""

    time: float = setting(values.DURATION, "30s")
    """The time by the clock on the wall. All files together may take 60 times as long."""
    cpu: float = setting(values.DURATION, "30s")
    """The time that it computes."""
    memory: int = setting(values.SIZE, "1Gi")
    """The size of its address space."""
    output: int = setting(values.SIZE, "1Mi")
    """The size of what the code prints, and of the largest file that it can write."""
    result: int = setting(values.SIZE, "64Mi")
    """The size of the rendered objects, as JSON. All files together may have four times as much."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Whether only what was previewed and recorded is applied, and where the records are."""

    required: bool = setting(values.FLAG, default=False)
    """Whether a sync applies only what was previewed, recorded and merged, as with --require-approved."""
    branch: str = setting(values.REF, "fleet/approved")
    """The branch of the records. Protect it: whoever can push to it can approve."""


@dataclass(frozen=True, slots=True)
class AppTypes:
    """App types of installed packages, beside those of fleet."""

    require: tuple[str, ...] = setting(values.REQUIREMENTS, ())
    """The packages that must be installed where fleet runs, with their versions, such as ["fleet-nats==1.2.*"]."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections of a `fleet.toml`."""

    fleet: Fleet = field(default_factory=Fleet)
    paths: Paths = field(default_factory=Paths)
    git: GitSettings = field(default_factory=GitSettings)
    forge: ForgeSettings = field(default_factory=ForgeSettings)
    budget: Budget = field(default_factory=Budget)
    trust: Trust = field(default_factory=Trust)
    limits: Limits = field(default_factory=Limits)
    approval: Approval = field(default_factory=Approval)
    apps: AppTypes = field(default_factory=AppTypes)

    @classmethod
    def of(cls, data: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Return the settings of the data that their JSON holds; raise a LookupError, TypeError or ValueError for
        other data.
        """
        return cls(**{name: _restore_section(section, data[name]) for name, section in SECTIONS.items()})


SECTIONS: Mapping[str, Callable[..., Any]] = {
    section.name: section.default_factory for section in fields(Settings) if callable(section.default_factory)
}


def _restore_section(section: Callable[..., Any], data: Mapping[str, Any]) -> Any:
    default = section()
    return section(**{name: type(getattr(default, name))(value) for name, value in data.items()})


def read_settings(text: str) -> Settings:
    """Return the settings in the text of a `fleet.toml`, which may come from an attacker; raise ConfigurationError for
    what is wrong.
    """
    from fleet.repository.toml import parse_toml  # noqa: PLC0415 - not needed where settings are known already

    sections = {}
    for section, data in parse_toml(FILE, text).items():
        if section not in SECTIONS:
            _refuse_unknown(text, (section,), "section", SECTIONS)
        if not isinstance(data, dict):
            hint = f"write a line [{section}] and its settings below it"
            _refuse(text, (section,), f"{_shorten(data)} is no section", hint)
        sections[section] = _read_section(text, section, data)
    settings = Settings(**sections)
    _check_branches(text, settings)
    return settings


def _read_section(text: str, section: str, data: Mapping[str, Any]) -> Any:
    declared: Mapping[str, values.Value[Any]] = {
        declared.name: declared.metadata["value"] for declared in fields(SECTIONS[section]())
    }
    read = {}
    for name, value in data.items():
        if name not in declared:
            _refuse_unknown(text, (section, name), "setting", declared)
        try:
            read[name] = declared[name].read(value)
        except InvalidError as error:
            _refuse(text, (section, name), f"does not take {_shorten(value)}", f"{name} {error}")
    return SECTIONS[section](**read)


def _check_branches(text: str, settings: Settings) -> None:
    git = settings.git
    if git.branch == git.status_branch:
        _refuse(
            text,
            ("git", "status_branch"),
            "health would be written to the branch that is synced",
            'choose a branch of its own, such as "fleet/status"',
        )
    if git.rendered in (git.branch, git.status_branch):
        _refuse(
            text,
            ("git", "rendered"),
            "rendered sets are branches below this one, and it is for something else",
            'choose a name of its own, such as "fleet/rendered"',
        )
    if settings.approval.branch in (git.branch, git.status_branch):
        _refuse(
            text,
            ("approval", "branch"),
            "approvals would be written to a branch that is for something else",
            'choose a branch of its own, such as "fleet/approved"',
        )


def _refuse_unknown(text: str, path: tuple[str, ...], what: str, names: Iterable[str]) -> NoReturn:
    from fleet.suggestion import closest  # noqa: PLC0415 - only on the way to an error

    close = closest(path[-1], names)
    hint = f"did you mean {close}?" if close else f"{what}s are: {', '.join(names)}"
    _refuse(text, path, f"there is no such {what}", hint)


def _refuse(text: str, path: tuple[str, ...], message: str, hint: str) -> NoReturn:
    from fleet.repository.toml import line_of  # noqa: PLC0415

    raise ConfigurationError(message, hint=hint, source=Source(FILE, line_of(text, path)), field=".".join(path))


def _shorten(value: object) -> str:
    """Return a value as an error shows it, shortened: the file may be another's."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # so Python says that a number has too many digits, or a list is too deep
        return "a value of that size"
    return text if len(text) <= 80 else f"{text[:79]}…"
