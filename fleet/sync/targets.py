"""Targets of a run: which stacks go to which clusters, as git says and the flags narrow it. Pure.

Here is also the service account with which a stack is applied: fleet.toml has the pattern, and stacks cannot change it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from fleet.errors import NotFoundError
from fleet.evaluate.result import ClusterData, Evaluation
from fleet.objects.desired import Desired
from fleet.plan.selection import ALL_STEPS, Selection


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """One cluster with the stacks that git wants there."""

    cluster: ClusterData
    desired: tuple[Desired, ...]  # in the order in which stacks need each other
    needs: dict[str, tuple[str, ...]]  # stack → stacks that are applied before it
    stacks: frozenset[str]  # every stack of the run, whether it is placed here or not
    complete: bool  # the run is about all stacks of the repository
    narrowing: Selection = ALL_STEPS  # the objects that the user selected

    def only(self, pairs: Container[tuple[str, str]]) -> ClusterTarget:
        """Return the target with these placements only."""
        return replace(
            self, desired=tuple(desired for desired in self.desired if (desired.stack, desired.cluster) in pairs)
        )


def choose_targets(
    evaluation: Evaluation, stacks: Sequence[str], clusters: Sequence[str], narrowing: Selection = ALL_STEPS
) -> tuple[ClusterTarget, ...]:
    """Return the targets of the run, by cluster; raise NotFoundError for an unknown cluster.

    A cluster without any placement is a target too: it may have something to forget.
    """
    for name in clusters:
        check_cluster(evaluation.clusters, name)
    selected_stacks = [stack for stack in evaluation.stacks if not stacks or stack.name in stacks]
    return tuple(
        ClusterTarget(
            cluster=cluster,
            desired=tuple(
                desired for stack in selected_stacks for desired in stack.desired if desired.cluster == cluster.name
            ),
            needs={stack.name: stack.needs for stack in selected_stacks},
            stacks=frozenset(stack.name for stack in selected_stacks),
            complete=not stacks,
            narrowing=narrowing,
        )
        for cluster in evaluation.clusters
        if not clusters or cluster.name in clusters
    )


def empty_targets(
    all_clusters: Sequence[ClusterData], stacks: Sequence[str], clusters: Sequence[str]
) -> tuple[ClusterTarget, ...]:
    """Return targets that want nothing of these stacks in the clusters, which is how a stack is removed.

    Raise NotFoundError for an unknown cluster.
    """
    for name in clusters:
        check_cluster(all_clusters, name)
    return tuple(
        ClusterTarget(
            cluster=cluster,
            desired=tuple(Desired(stack, cluster.name, ()) for stack in dict.fromkeys(stacks)),
            needs={},
            stacks=frozenset(stacks),
            complete=False,
        )
        for cluster in all_clusters
        if not clusters or cluster.name in clusters
    )


def check_cluster(clusters: Sequence[ClusterData], name: str) -> ClusterData:
    """Return the cluster of that name; raise NotFoundError with a hint if git has none."""
    for cluster in clusters:
        if cluster.name == name:
            return cluster
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

    names = [cluster.name for cluster in clusters]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"clusters are: {', '.join(names) or 'none'}"
    raise NotFoundError(f"there is no cluster {name!r}", hint=hint)


def account_of(pattern: str, stack: str) -> str:
    """Return the service account of a stack: "tenants/{stack}" → "tenants/orders"; "" if it has none of its own."""
    return pattern.replace("{stack}", stack)
