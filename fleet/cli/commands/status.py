"""`fleet status`: health of every stack in every cluster, asked of the clusters now or read from the status branch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import is_colour_wanted, selection_options
from fleet.cli.output import emit_result, format_table, output_option, print_message

if TYPE_CHECKING:
    from fleet.git.status import StatusBranch
    from fleet.sync.observe import FleetStatus
    from fleet.sync.source import WorkingTree

COLOURS = {"Healthy": 32, "Suspended": 2, "Progressing": 33, "Missing": 31, "Degraded": 31, "Unknown": 2}


@click.command()
@selection_options
@click.option("--git", "from_git", is_flag=True, help="Read the status branch; no cluster is asked.")
@click.option("--objects", is_flag=True, help="Show every object, not only apps and what is not healthy.")
@output_option
def status(
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    from_git: bool,
    objects: bool,
    form: str,
) -> int:
    """Show health, version and revision of every stack in every cluster.

    Live by default: the clusters' inventories say what is there, the objects how it is. Stacks of other repositories
    are left out. Exit code 4 when a cluster cannot be asked, 3 when credentials for that are missing.

    \b
    fleet status --stack orders --cluster eu-1
    fleet status --git -o json
    """
    from fleet.sync.source import read_working_tree

    with read_working_tree() as files:
        if from_git:
            return _show_git(files, stacks, clusters, form)
        return _show_live(files, stacks, clusters, kubeconfig, form, every=objects)


def _show_live(
    files: WorkingTree,
    stacks: Sequence[str],
    clusters: Sequence[str],
    kubeconfig: Path | None,
    form: str,
    *,
    every: bool,
) -> int:
    import asyncio

    from fleet.cli.clusters import select_clusters
    from fleet.cli.results import finish
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.observe import observe_fleet

    selected = select_clusters(files.repository, clusters)
    observation = asyncio.run(observe_fleet(selected, stacks, kubeconfig, RepositoryOwnership(files.identity)))
    if not observation.failed:
        _check_stacks(files, stacks, {status.stack for status in observation.stacks})
    names = [cluster.name for cluster in selected]
    emit_result(_observation_data(observation), form, lambda: _format_observation(observation, names, every=every))
    for cluster, stack_names in sorted(observation.other_stacks.items()):
        print_message(f"{cluster}: of other repositories, and left out: {', '.join(stack_names)}")
    return finish(list(observation.failed.values()))


def _check_stacks(files: WorkingTree, names: Sequence[str], deployed: Collection[str]) -> None:
    """Raise an error for a name that is neither deployed nor a stack in git; do not if broken files cannot tell."""
    from fleet.evaluate import evaluate

    missing = [name for name in names if name not in deployed]
    if missing:
        evaluate(files.repository, stacks=missing)


def _format_observation(observation: FleetStatus, clusters: Sequence[str], *, every: bool) -> str:
    rows = [
        [
            status.stack,
            status.cluster,
            status.health,
            _format_versions(status.objects),
            status.revision[:8] or "–",
            str(len(status.objects)),
        ]
        for status in observation.stacks
    ]
    if rows:
        text = format_table(["stack", "cluster", "health", "version", "revision", "objects"], rows)
    else:
        answered = set(clusters) - set(observation.failed) or not clusters
        text = "nothing is deployed" if answered else "nothing is known"
    from fleet.plan.views.escape import escape_line

    details = [
        escape_line(f"  {status.stack} on {status.cluster}: {status.suspended}")
        for status in observation.stacks
        if status.suspended
    ]
    details += [
        escape_line(f"  {status.stack} on {status.cluster}: {item.title} {item.state}")
        + (f": {escape_line(item.message)}" if item.message else "")
        for status in observation.stacks
        for item in status.objects
        if every or item.is_app or item.state != "Healthy"
    ]
    failed = sorted(observation.failed)
    unasked = [f"could not be asked: {', '.join(failed)}"] if failed else []
    return _add_colour("\n".join([text, *([""] if details else []), *details, *unasked]))


def _observation_data(observation: FleetStatus) -> dict[str, Any]:
    return {
        "stacks": [
            {
                "stack": status.stack,
                "cluster": status.cluster,
                "health": status.health,
                "revision": status.revision,
                "suspended": status.suspended,
                "objects": [
                    {
                        "kind": item.kind,
                        "namespace": item.namespace,
                        "name": item.called or item.name,
                        "name_in_cluster": item.name,
                        "health": item.state,
                        "version": item.version,
                        "members": item.members,
                        "available": item.available,
                        "message": item.message,
                    }
                    for item in status.objects
                ],
            }
            for status in observation.stacks
        ],
        "failed": {cluster: str(error) for cluster, error in sorted(observation.failed.items())},
    }


def _format_versions(objects: Sequence[Any]) -> str:
    from fleet.git.status import versions_of

    return ", ".join(versions_of(objects)) or "–"


def _show_git(files: WorkingTree, stacks: Sequence[str], clusters: Sequence[str], form: str) -> int:
    from fleet.git.repository import GitRepository
    from fleet.git.status import read_status

    git = files.git or GitRepository.find(files.repository.root)  # which says why there is none
    settings = files.repository.settings.git
    status = read_status(git, remote=settings.remote, branch=settings.status_branch)
    for error in status.problems:
        print_message(f"left out: {error.message}")
    _check_stacks(files, stacks, {record.stack for record in status.records})
    emit_result(
        _records_data(status, stacks, clusters), form, lambda: _add_colour(_format_records(status, stacks, clusters))
    )
    return 0


def _select_records(status: StatusBranch, stacks: Sequence[str], clusters: Sequence[str]) -> list[Any]:
    return [
        record
        for record in status.records
        if (not stacks or record.stack in stacks) and (not clusters or record.cluster in clusters)
    ]


def _format_records(status: StatusBranch, stacks: Sequence[str], clusters: Sequence[str]) -> str:
    from fleet.plan.views.escape import escape_line

    if status.commit is None:
        return "there is no status branch yet; `fleet sync` writes it"
    records = _select_records(status, stacks, clusters)
    rows = [
        [
            record.stack,
            record.cluster,
            record.sync,
            record.health,
            _format_versions(record.apps),
            record.revision[:8] or "–",
            record.since,
        ]
        for record in records
    ]
    if not rows:
        return "nothing is deployed"
    text = format_table(["stack", "cluster", "sync", "health", "version", "revision", "since"], rows)
    messages = [
        f"  {record.stack} on {record.cluster}: {escape_line(record.message)}" for record in records if record.message
    ]
    return "\n".join([text, "", *messages]) if messages else text


def _records_data(status: StatusBranch, stacks: Sequence[str], clusters: Sequence[str]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"commit": status.commit, "stacks": [asdict(record) for record in _select_records(status, stacks, clusters)]}


def _add_colour(text: str) -> str:
    """Paint the words for health, if standard output takes colours."""
    if not is_colour_wanted():
        return text
    from fleet.plan.views.text import paint

    for health, code in COLOURS.items():
        text = text.replace(f" {health}", f" {paint(health, code, True)}")
    return text
