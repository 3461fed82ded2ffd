"""`fleet adopt`: the apps that run in a cluster already, which of them fleet can manage, and a stack for these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import kubeconfig_option
from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.adopt.find import AdoptionFinding
    from fleet.cli.clusters import ClusterRef


@click.command()
@click.option("--context", metavar="NAME", help="A context of the kubeconfig instead of a cluster of the repository.")
@click.option("--cluster", metavar="NAME", help="A cluster of the repository. [default: the only one]")
@kubeconfig_option()
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only this one. [default: all]")
@click.option("--select", default="", metavar="LABELS", help="Only StatefulSets with these labels, as app=etcd.")
@click.option(
    "--write", "directory", metavar="DIR", type=click.Path(path_type=Path), help="Write a file per namespace."
)
@click.option("--branch", metavar="NAME", help="Commit the files to this new branch; what is checked out stays.")
@output_option
def adopt(
    *,
    context: str | None,
    cluster: str | None,
    kubeconfig: Path | None,
    namespace: str,
    select: str,
    directory: Path | None,
    branch: str | None,
    form: str,
) -> int:
    """Find what runs already and was set up by others, and describe it as a stack. In the cluster nothing changes.

    Shown are all StatefulSets: which engine it is by its process and by what members answer, what is kept as found,
    and why it cannot be managed if it cannot, as when a stack has it already. With --branch (or --write) comes a stack
    that describes exactly what runs; merged and synced, it takes over without a restart. Members are asked by the
    engine's own client in their pods, so you need the right to exec there.

    \b
    fleet adopt --namespace legacy
    fleet adopt --namespace legacy --branch adopt-legacy
    """
    import asyncio

    from fleet.cli.clusters import resolve_clusters

    target = _require_single(resolve_clusters([cluster] if cluster else [], context, kubeconfig))
    name = _find_cluster_name(context) if context and (branch or directory) else target.name
    findings = asyncio.run(_find_apps(target, namespace, select))
    emit_result([_finding_data(finding) for finding in findings], form, lambda: _format_findings(findings))
    files = _describe_as_stacks(findings, name)
    if branch:
        _commit_files(files, branch)
    elif directory:
        _write_files(files, directory)
    elif files:
        print_message("write it as a stack with --branch NAME, or with --write stacks")
    return 0


def _require_single(clusters: Sequence[ClusterRef]) -> ClusterRef:
    """Return the only cluster; raise ConfigurationError if there are several."""
    from fleet.errors import ConfigurationError

    if len(clusters) == 1:
        return clusters[0]
    names = ", ".join(cluster.name for cluster in clusters)
    raise ConfigurationError(f"the repository has several clusters: {names}", hint="say which with --cluster")


def _find_cluster_name(context: str) -> str:
    """Return the name that the repository has for the cluster of a context; outside of a repository, the context's."""
    from fleet.errors import ConfigurationError
    from fleet.evaluate import evaluate
    from fleet.repository import Repository, find_root

    try:
        find_root()
    except ConfigurationError:
        return context
    clusters = evaluate(Repository.find(), stacks=()).check().clusters
    names = [cluster.name for cluster in clusters if cluster.kubeconfig_context == context]
    if len(names) == 1:
        return names[0]
    several = f"several clusters of the repository have the context {context}: {', '.join(names)}"
    raise ConfigurationError(
        several if names else f"no cluster of the repository has the context {context}, and a stack goes to clusters",
        hint="say which with --cluster" if names else "add it with `fleet cluster add`, and say --cluster",
    )


async def _find_apps(cluster: ClusterRef, namespace: str, labels: str) -> list[AdoptionFinding]:
    """Return a finding for each StatefulSet that could be adopted."""
    from fleet.adopt.find import find_engines

    async with cluster.client() as client:
        return await find_engines(client, namespace, labels)


def _describe_as_stacks(findings: Sequence[AdoptionFinding], cluster: str) -> dict[str, str]:
    """Return the text of a stack file per namespace, by the name of the file."""
    from fleet.adopt.stack_file import function_name, stack_file

    by_namespace: dict[str, list[Any]] = {}
    for finding in findings:
        if finding.candidate is not None:
            by_namespace.setdefault(finding.namespace, []).append(finding.candidate)
    return {
        f"{function_name(namespace)}.py": stack_file(namespace, [cluster], candidates)
        for namespace, candidates in by_namespace.items()
    }


def _write_files(files: dict[str, str], directory: Path) -> None:
    """Write stack files; raise ConfigurationError if a file of that name exists."""
    from fleet.errors import ConfigurationError

    existing = [name for name in files if (directory / name).exists()]
    if existing:
        raise ConfigurationError(
            f"{', '.join(str(directory / name) for name in existing)} exists and is not changed", hint="write elsewhere"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
        print_message(f"wrote {directory / name}; look at it with `fleet preview`")


def _commit_files(files: dict[str, str], branch: str) -> None:
    """Commit stack files to a new branch."""
    from fleet.adopt.stack_file import commit_files

    if not files:
        print_message("there is nothing to take over, and no branch")
        return
    preview = f"fleet preview --base HEAD --head {branch} --live"
    for path in commit_files(files, branch):
        print_message(f"wrote {path} on branch {branch}; look at it with `{preview}`")


def _finding_data(finding: AdoptionFinding) -> dict[str, Any]:
    candidate = finding.candidate
    return {
        "namespace": finding.namespace,
        "statefulSet": finding.name,
        "engine": finding.engine or None,
        "sign": finding.sign or None,
        "manageable": candidate is not None,
        "problem": str(finding.problem) if finding.problem else None,
        **(_candidate_data(candidate) if candidate else {}),
    }


def _candidate_data(candidate: Any) -> dict[str, Any]:
    return {
        "identity": candidate.identity,
        "version": candidate.version,
        "members": [
            {"name": member.name, "id": member.identity, "role": member.role, "version": member.version}
            for member in candidate.members
        ],
        "facts": dict(candidate.facts),
        "statefulSets": dict(candidate.stateful_sets),
        "kept": list(candidate.kept),
        "managers": list(candidate.managers),
        "spec": candidate.app.spec(),
    }


def _format_findings(findings: Sequence[AdoptionFinding]) -> str:
    if not findings:
        return "no StatefulSets that could be taken over"
    return "\n".join(line for finding in findings for line in _format_finding(finding))


def _format_finding(finding: AdoptionFinding) -> list[str]:
    head = f"StatefulSet {finding.namespace}/{finding.name}"
    candidate = finding.candidate
    if candidate is None:
        engine = f" ({finding.engine}: {finding.sign})" if finding.engine else ""
        error = finding.problem
        hint = [f"    {error.hint}"] if error and error.hint else []
        return [f"✗ {head}{engine}: {error.message if error else ''}", *hint]
    members = ", ".join(f"{member.name} ({member.role})" for member in candidate.members)
    lines = [
        f"✓ {head}: {finding.engine} {candidate.version}, {finding.sign}",
        f"    cluster {candidate.identity}: {members}",
    ]
    lines += [f"    {name}: {text}" for name, text in candidate.facts.items()]
    lines += [f"    kept as found: {text}" for text in candidate.kept]
    return [*lines, f"    managed by: {', '.join(candidate.managers)}"] if candidate.managers else lines
