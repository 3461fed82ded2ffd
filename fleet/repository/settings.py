"""What `fleet.toml` may say, as types: one frozen class per section, every field with a default that is safe.

An empty `fleet.toml` is a valid one. Reading the file and explaining what is wrong in it is `read.py`'s job; this
module has no I/O and imports nothing heavy, because every command needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
        """From what JSON makes of them."""
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
