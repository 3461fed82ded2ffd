"""`fleet status`: how every stack is in every cluster, asked of the clusters now or read from the status branch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import choice_options, colour_wanted
from fleet.cli.output import emit, output_option, remark, table

if TYPE_CHECKING:
    from fleet.git.status import Status
    from fleet.sync.observe import Observation
    from fleet.sync.source import Files

COLOURS = {"Healthy": 32, "Suspended": 2, "Progressing": 33, "Missing": 31, "Degraded": 31, "Unknown": 2}


@click.command()
@choice_options
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
    from fleet.sync.source import working_tree

    with working_tree() as files:
        if from_git:
            return _of_git(files, stacks, clusters, form)
        return _live(files, stacks, clusters, kubeconfig, form, every=objects)


def _live(
    files: Files, stacks: Sequence[str], clusters: Sequence[str], kubeconfig: Path | None, form: str, *, every: bool
) -> int:
    import asyncio

    from fleet.cli.commands.preview import finish
    from fleet.evaluate import evaluate
    from fleet.plan.ownership import RepositoryOwnership
    from fleet.sync.observe import observe
    from fleet.sync.targets import check_cluster

    known = evaluate(files.repository, stacks=()).check().clusters
    chosen = [check_cluster(known, name) for name in clusters] or list(known)
    seen = asyncio.run(observe(chosen, stacks, kubeconfig, RepositoryOwnership(files.identity)))
    if not seen.failed:
        _check_stacks(files, stacks, {one.stack for one in seen.stacks})
    emit(_data(seen), form, lambda: _text(seen, [one.name for one in chosen], every=every))
    for cluster, names in sorted(seen.others.items()):
        remark(f"{cluster}: of other repositories, and left out: {', '.join(names)}")
    return finish(list(seen.failed.values()))


def _check_stacks(files: Files, asked: Sequence[str], found: Collection[str]) -> None:
    """A stack that is deployed nowhere is fine, but it has to be one. Broken files cannot tell, and do not matter."""
    from fleet.evaluate import evaluate

    missing = [name for name in asked if name not in found]
    if missing:
        evaluate(files.repository, stacks=missing)


def _text(seen: Observation, asked: Sequence[str], *, every: bool) -> str:
    rows = [
        [one.stack, one.cluster, one.health, _versions(one.objects), one.revision[:8] or "–", str(len(one.objects))]
        for one in seen.stacks
    ]
    if rows:
        text = table(["stack", "cluster", "health", "version", "revision", "objects"], rows)
    else:
        text = "nothing is deployed" if set(asked) - set(seen.failed) or not asked else "nothing is known"
    from fleet.plan.views.escape import escape_line

    details = [escape_line(f"  {one.stack} on {one.cluster}: {one.suspended}") for one in seen.stacks if one.suspended]
    details += [
        escape_line(f"  {one.stack} on {one.cluster}: {each.title} {each.state}")
        + (f": {escape_line(each.message)}" if each.message else "")
        for one in seen.stacks
        for each in one.objects
        if every or each.is_app or each.state != "Healthy"
    ]
    unasked = [f"could not be asked: {', '.join(sorted(seen.failed))}"] if seen.failed else []
    return _coloured("\n".join([text, *([""] if details else []), *details, *unasked]))


def _data(seen: Observation) -> dict[str, Any]:
    return {
        "stacks": [
            {
                "stack": one.stack,
                "cluster": one.cluster,
                "health": one.health,
                "revision": one.revision,
                "suspended": one.suspended,
                "objects": [
                    {
                        "kind": each.kind,
                        "namespace": each.namespace,
                        "name": each.called or each.name,
                        "name_in_cluster": each.name,
                        "health": each.state,
                        "version": each.version,
                        "members": each.members,
                        "available": each.available,
                        "message": each.message,
                    }
                    for each in one.objects
                ],
            }
            for one in seen.stacks
        ],
        "failed": {cluster: str(problem) for cluster, problem in sorted(seen.failed.items())},
    }


def _versions(objects: Sequence[Any]) -> str:
    from fleet.git.status import versions_of

    return ", ".join(versions_of(objects)) or "–"


def _of_git(files: Files, stacks: Sequence[str], clusters: Sequence[str], form: str) -> int:
    from fleet.git.repository import Repository as Git
    from fleet.git.status import read_status

    git = files.git or Git.find(files.repository.root)  # which says why there is none
    settings = files.repository.settings.git
    found = read_status(git, remote=settings.remote, branch=settings.status_branch)
    for problem in found.problems:
        remark(f"left out: {problem.message}")
    _check_stacks(files, stacks, {one.stack for one in found.records})
    emit(_git_data(found, stacks, clusters), form, lambda: _coloured(_git_text(found, stacks, clusters)))
    return 0


def _chosen(found: Status, stacks: Sequence[str], clusters: Sequence[str]) -> list[Any]:
    return [
        one
        for one in found.records
        if (not stacks or one.stack in stacks) and (not clusters or one.cluster in clusters)
    ]


def _git_text(found: Status, stacks: Sequence[str], clusters: Sequence[str]) -> str:
    from fleet.plan.views.escape import escape_line

    if found.commit is None:
        return "there is no status branch yet; `fleet sync` writes it"
    records = _chosen(found, stacks, clusters)
    rows = [
        [one.stack, one.cluster, one.sync, one.health, _versions(one.apps), one.revision[:8] or "–", one.since]
        for one in records
    ]
    if not rows:
        return "nothing is deployed"
    text = table(["stack", "cluster", "sync", "health", "version", "revision", "since"], rows)
    said = [f"  {one.stack} on {one.cluster}: {escape_line(one.message)}" for one in records if one.message]
    return "\n".join([text, "", *said]) if said else text


def _git_data(found: Status, stacks: Sequence[str], clusters: Sequence[str]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"commit": found.commit, "stacks": [asdict(one) for one in _chosen(found, stacks, clusters)]}


def _coloured(text: str) -> str:
    if not colour_wanted():
        return text
    from fleet.plan.views.text import paint

    for word, code in COLOURS.items():
        text = text.replace(f" {word}", f" {paint(word, code, True)}")
    return text
