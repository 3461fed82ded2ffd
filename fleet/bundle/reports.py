"""Places where agents report the state of their clusters: the status branch, or repositories of their own.

An agent that reports to a repository of its own cannot touch the records of others, and a user may say which clusters
that repository can speak for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.errors import ConfigurationError
from fleet.git.refs import Address, address
from fleet.git.repository import GitRepository
from fleet.git.status import read_status
from fleet.git.status_records import StatusRecord


@dataclass(frozen=True, slots=True)
class ReportRepository:
    """A repository that agents report to. `clusters`: those that count there; none named: all."""

    address: Address
    clusters: frozenset[str] = frozenset()

    def count(self, record: StatusRecord) -> bool:
        return not self.clusters or record.cluster in self.clusters


def parse_report_repository(text: str) -> ReportRepository:
    """Parse a repository as users write it: `https://…`, or `eu-1=https://…`, or `eu-1,eu-2=https://…`."""
    names, separator, url = text.partition("=")
    if not separator or set(names) & set("/:@"):  # the sign is of the address
        return ReportRepository(address(text, by_person=True))
    clusters = frozenset(names.split(","))
    if "" in clusters or not url:
        raise ConfigurationError(
            f"--reports {text}: a name or an address is missing",
            hint="write URL, or CLUSTER=URL, or CLUSTER,CLUSTER=URL",
        )
    return ReportRepository(address(url, by_person=True), clusters)


def read_reports(
    git: GitRepository, home: Address | None, repositories: Sequence[ReportRepository], branch: str
) -> list[StatusRecord]:
    """Return the records of each stack and cluster; of two, the one in a repository of its own."""
    records = list(read_status(git, remote=home, branch=branch).records)
    for repository in repositories:
        records += filter(repository.count, read_status(git, remote=repository.address, branch=branch).records)
    return list({(record.stack, record.cluster): record for record in records}.values())
