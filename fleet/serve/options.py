"""Options of a service: what the user who runs it decides for the whole process, and no repository can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fleet.bundle.reports import ReportRepository
from fleet.kube.client.client import Client
from fleet.serve.scope import SHARED, RepositoryScope


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of `fleet serve`, shared by its repositories except for `scope`."""

    kubeconfig: Path | None = None
    cache: Path = Path("/var/cache/fleet")
    poll: float = 30.0  # about so many seconds between two looks at a repository
    resync: float = 600.0  # seconds between two syncs of everything, whatever the watches report
    status: bool = True  # write health into git
    require_approved: bool = False  # even if fleet.toml does not ask for it
    forge: bool = False  # post commit statuses
    previews: bool = False  # of pull requests
    public_url: str = ""  # the address at which users reach this process, for pages of previews
    notify: str = ""  # where to POST changes of health to
    notify_secret: str = field(default="", repr=False)
    settle: float = 0.5
    every: float = 3.0  # seconds between two writes of health
    management: Client | None = None  # for clusters that are reached through a Secret there
    scope: RepositoryScope = SHARED  # of the one repository
    trust_kubeconfigs: bool = False  # in Secrets: they may run programs and read files here
    signers: Path | None = None  # only commits signed with one of their keys are applied
    inside: bool = False  # the only cluster is the one that this process runs in
    reports: tuple[ReportRepository, ...] = ()  # where agents report, besides the status branch
    name: str = "fleet-serve"  # of the program, in records of what it applied
