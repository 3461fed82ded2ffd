"""Which stacks go to which clusters.

Which stacks go to which clusters in this run: what git says, narrowed by the flags. Pure.

Which service account a stack is applied with: a pattern of fleet.toml, which stacks have no say in. Pure.
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
    """One cluster with what is wanted there."""

    cluster: ClusterData
    desired: tuple[Desired, ...]  # in the order in which stacks need each other
    needs: dict[str, tuple[str, ...]]  # stack → stacks that come before it
    stacks: frozenset[str]  # every stack of the run, placed here or not
    complete: bool  # the run is about all stacks of the repository
    narrowing: Selection = ALL_STEPS  # which objects of them are meant

    def only(self, pairs: Container[tuple[str, str]]) -> ClusterTarget:
        """Narrowed to these pairs of stack and cluster."""
        return replace(self, desired=tuple(one for one in self.desired if (one.stack, one.cluster) in pairs))


def choose_targets(
    evaluation: Evaluation, stacks: Sequence[str], clusters: Sequence[str], narrowing: Selection = ALL_STEPS
) -> tuple[ClusterTarget, ...]:
    """By cluster; clusters with nothing placed on them are there too, for they may have something to forget."""
    for name in clusters:
        check_cluster(evaluation.clusters, name)
    chosen = [stack for stack in evaluation.stacks if not stacks or stack.name in stacks]
    return tuple(
        ClusterTarget(
            cluster=cluster,
            desired=tuple(one for stack in chosen for one in stack.desired if one.cluster == cluster.name),
            needs={stack.name: stack.needs for stack in chosen},
            stacks=frozenset(stack.name for stack in chosen),
            complete=not stacks,
            narrowing=narrowing,
        )
        for cluster in evaluation.clusters
        if not clusters or cluster.name in clusters
    )


def empty_targets(
    known: Sequence[ClusterData], stacks: Sequence[str], clusters: Sequence[str]
) -> tuple[ClusterTarget, ...]:
    """The clusters with nothing wanted of these stacks: the way to take them out."""
    for name in clusters:
        check_cluster(known, name)
    return tuple(
        ClusterTarget(
            cluster=cluster,
            desired=tuple(Desired(stack, cluster.name, ()) for stack in dict.fromkeys(stacks)),
            needs={},
            stacks=frozenset(stacks),
            complete=False,
        )
        for cluster in known
        if not clusters or cluster.name in clusters
    )


def check_cluster(known: Sequence[ClusterData], name: str) -> ClusterData:
    for cluster in known:
        if cluster.name == name:
            return cluster
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

    names = [cluster.name for cluster in known]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"clusters are: {', '.join(names) or 'none'}"
    raise NotFoundError(f"there is no cluster {name!r}", hint=hint)


def account_of(pattern: str, stack: str) -> str:
    """ "tenants/{stack}" → "tenants/orders"; "": none of its own."""
    return pattern.replace("{stack}", stack)
