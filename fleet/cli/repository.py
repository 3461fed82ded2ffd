"""The repository that a command is about: a revision of it, and which of its clusters the user chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.evaluate import ClusterData
    from fleet.repository import Repository


@contextmanager
def open_repository(revision: str | None) -> Iterator[Repository]:
    """Open the working tree around the current directory, or a commit of it."""
    if revision is None:
        from fleet.repository import Repository

        yield Repository.find()
        return
    from fleet.sync.source import read_commit

    with read_commit(revision) as files:
        yield files.repository


def select_clusters(repository: Repository, names: Sequence[str]) -> list[ClusterData]:
    """Return the clusters that the user named, or all; raise an error for a name that the repository does not have."""
    from fleet.evaluate import evaluate
    from fleet.sync.targets import check_cluster

    clusters = evaluate(repository, stacks=()).check().clusters
    return [check_cluster(clusters, name) for name in names] or list(clusters)
