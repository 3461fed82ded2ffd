"""`fleet suspend` and `fleet resume`: stacks that syncs leave as they are until they are resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import cluster_options
from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from fleet.plan.inventory import Suspension
    from fleet.sync.source import WorkingTree


@click.command()
@click.argument("stacks", metavar="STACK...", nargs=-1, required=True)
@cluster_options
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever wonders later.")
@output_option
def suspend(*, stacks: Sequence[str], clusters: Sequence[str], kubeconfig: Path | None, reason: str, form: str) -> int:
    """Leave STACK as it is: neither `fleet sync` nor the service changes anything of it until `fleet resume`.

    Recorded in the clusters, with who, when and why; `fleet status` shows it. A sync that is under way is waited for.
    The apps run on, and the operator looks after them as before.

    \b
    fleet suspend orders --reason "the sale, until Monday"
    fleet suspend orders --cluster eu-1
    """
    from fleet.sync.suspension import suspension_text

    return _write_suspension(stacks, clusters, kubeconfig, form, suspension_text(reason, everywhere=not clusters))


@click.command()
@click.argument("stacks", metavar="STACK...", nargs=-1, required=True)
@cluster_options
@output_option
def resume(*, stacks: Sequence[str], clusters: Sequence[str], kubeconfig: Path | None, form: str) -> int:
    """Let syncs change STACK again. What waits is done by the next one.

    \b
    fleet resume orders
    fleet resume orders --cluster eu-1
    """
    return _write_suspension(stacks, clusters, kubeconfig, form, None)


def _write_suspension(
    stacks: Sequence[str], clusters: Sequence[str], kubeconfig: Path | None, form: str, suspension: Suspension | None
) -> int:
    """Write a suspension into the clusters, or None to remove it; raise an error for a stack that no cluster has."""
    import asyncio

    from fleet.cli.clusters import ClusterRef, resolve_clusters, run_in_each
    from fleet.cli.results import finish
    from fleet.errors import NotFoundError
    from fleet.kube.client.client import Client
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.source import read_working_tree
    from fleet.sync.suspension import suspend

    with read_working_tree() as files:
        placements = _find_placements(files, stacks)
    claim = RepositoryOwnership(files.identity)

    async def write(_: ClusterRef, client: Client) -> list[str]:
        return [
            stack
            for stack in stacks
            if await suspend(client, stack, suspension, claim, placed=placements.get(stack, ()))
        ]

    results, errors = asyncio.run(run_in_each(resolve_clusters(clusters, None, kubeconfig), write))
    rows = [{"stack": stack, "cluster": name} for name, changed in results.items() for stack in changed]
    missing = [stack for stack in stacks if not any(row["stack"] == stack for row in rows)]
    outcome = str(suspension) if suspension else "resumed; the next sync includes it again"
    if rows:
        emit_result(rows, form, lambda: "\n".join(f"{row['stack']} on {row['cluster']}: {outcome}" for row in rows))
    if missing and not errors:
        errors = [NotFoundError(f"no cluster has anything of stack {stack!r}") for stack in missing]
    return finish(errors)


def _find_placements(files: WorkingTree, stacks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the clusters of each stack in git. Broken files do not keep the user from suspending what is deployed."""
    from fleet.errors import FleetError
    from fleet.evaluate import evaluate

    try:
        evaluation = evaluate(files.repository, stacks=stacks)
    except FleetError:  # it may be in the clusters all the same
        return {}
    if evaluation.problems:
        print_message("the stacks cannot be evaluated: it is written only where the clusters have something of them")
    return {stack.name: stack.clusters for stack in evaluation.stacks}
