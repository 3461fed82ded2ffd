"""`fleet suspend` and `fleet resume`: leave a stack as it is until somebody says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import cluster_options
from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from fleet.plan.inventory import Suspension
    from fleet.sync.source import Files


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
    from fleet.sync.suspension import word

    return _said(stacks, clusters, kubeconfig, form, word(reason, everywhere=not clusters))


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
    return _said(stacks, clusters, kubeconfig, form, None)


def _said(
    stacks: Sequence[str], clusters: Sequence[str], kubeconfig: Path | None, form: str, word: Suspension | None
) -> int:
    import asyncio

    from fleet.cli.clusters import Place, at_each, places
    from fleet.cli.commands.preview import finish
    from fleet.errors import NotFoundError
    from fleet.kube.client.client import Client
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.source import working_tree
    from fleet.sync.suspension import suspend

    with working_tree() as files:
        placed = _placed(files, stacks)
    claim = RepositoryOwnership(files.identity)

    async def write(place: Place, client: Client) -> list[str]:
        return [one for one in stacks if await suspend(client, one, word, claim, placed=placed.get(one, ()))]

    done, problems = asyncio.run(at_each(places(clusters, None, kubeconfig), write))
    rows = [{"stack": stack, "cluster": name} for name, its in done.items() for stack in its]
    missing = [one for one in stacks if not any(row["stack"] == one for row in rows)]
    said = str(word) if word else "resumed; the next sync goes on with it"
    if rows:
        emit(rows, form, lambda: "\n".join(f"{row['stack']} on {row['cluster']}: {said}" for row in rows))
    if missing and not problems:
        problems = [NotFoundError(f"no cluster has anything of stack {one!r}") for one in missing]
    return finish(problems)


def _placed(files: Files, stacks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Where they are meant to be. Files that are broken do not keep anybody from suspending what is there."""
    from fleet.errors import FleetError
    from fleet.evaluate import evaluate

    try:
        found = evaluate(files.repository, stacks=stacks)
    except FleetError:  # it may be in the clusters all the same
        return {}
    if found.problems:
        remark("the stacks cannot be evaluated: it is written only where the clusters have something of them")
    return {one.name: one.clusters for one in found.stacks}
