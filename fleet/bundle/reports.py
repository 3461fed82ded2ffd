"""Where agents say how their clusters are: on the status branch, or in repositories of their own.

Who reports to a repository of its own is kept from what others wrote, and so that it cannot speak for others either, a
person may say which clusters are told of there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.errors import ConfigurationError
from fleet.git.refs import Address, address
from fleet.git.repository import Repository
from fleet.git.status import read_status
from fleet.git.status_records import Record


@dataclass(frozen=True, slots=True)
class Reports:
    """A repository that agents report to. `clusters`: those that count there; none named: all."""

    address: Address
    clusters: frozenset[str] = frozenset()

    def count(self, record: Record) -> bool:
        return not self.clusters or record.cluster in self.clusters


def reports(text: str) -> Reports:
    """As people write it: `https://…`, or `eu-1=https://…`, or `eu-1,eu-2=https://…`."""
    names, given, url = text.partition("=")
    if not given or set(names) & set("/:@"):  # the sign is of the address
        return Reports(address(text, by_person=True))
    clusters = frozenset(names.split(","))
    if "" in clusters or not url:
        raise ConfigurationError(
            f"--reports {text}: a name or an address is missing",
            hint="write URL, or CLUSTER=URL, or CLUSTER,CLUSTER=URL",
        )
    return Reports(address(url, by_person=True), clusters)


def reported(git: Repository, home: Address | None, others: Sequence[Reports], branch: str) -> list[Record]:
    """What is said of each stack and cluster; where it is said twice, what stands in a repository of its own."""
    found = list(read_status(git, remote=home, branch=branch).records)
    for place in others:
        found += filter(place.count, read_status(git, remote=place.address, branch=branch).records)
    return list({(one.stack, one.cluster): one for one in found}.values())
