"""`fleet adopt`: what runs in a cluster already, what of it fleet can manage, and a stack that describes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.adopt.find import Finding
    from fleet.cli.clusters import Place


@click.command()
@click.option("--context", metavar="NAME", help="A context of the kubeconfig instead of a cluster of the repository.")
@click.option("--cluster", metavar="NAME", help="A cluster of the repository. [default: the only one]")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Where the contexts are. [default: as kubectl finds it]",
)
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

    from fleet.cli.apps import in_one

    place = _one(in_one(cluster, context, kubeconfig))
    named = _cluster(context) if context and (branch or directory) else place.name
    findings = asyncio.run(_look(place, namespace, select))
    emit([_data(one) for one in findings], form, lambda: _text(findings))
    files = _files(findings, named)
    if branch:
        _commit(files, branch)
    elif directory:
        _write(files, directory)
    elif files:
        remark("write it as a stack with --branch NAME, or with --write stacks")
    return 0


def _one(chosen: Sequence[Place]) -> Place:
    from fleet.errors import ConfigurationError

    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(one.name for one in chosen)
    raise ConfigurationError(f"the repository has several clusters: {names}", hint="say which with --cluster")


def _cluster(context: str) -> str:
    """What the repository calls the cluster of a context; outside of any, where nobody calls it otherwise, the same."""
    from fleet.errors import ConfigurationError
    from fleet.evaluate import evaluate
    from fleet.repository import Repository, find_root

    try:
        find_root()
    except ConfigurationError:
        return context
    known = evaluate(Repository.find(), stacks=()).check().clusters
    named = [one.name for one in known if one.kubeconfig_context == context]
    if len(named) == 1:
        return named[0]
    several = f"several clusters of the repository have the context {context}: {', '.join(named)}"
    raise ConfigurationError(
        several if named else f"no cluster of the repository has the context {context}, and a stack goes to clusters",
        hint="say which with --cluster" if named else "add it with `fleet cluster add`, and say --cluster",
    )


async def _look(place: Place, namespace: str, labels: str) -> list[Finding]:
    from fleet.adopt.find import look

    async with place.client() as client:
        return await look(client, namespace, labels)


def _files(findings: Sequence[Finding], cluster: str) -> dict[str, str]:
    """The text of a file per namespace, by its name."""
    from fleet.adopt.stack_file import function_name, stack_file

    by_namespace: dict[str, list[Any]] = {}
    for one in findings:
        if one.candidate is not None:
            by_namespace.setdefault(one.namespace, []).append(one.candidate)
    return {
        f"{function_name(namespace)}.py": stack_file(namespace, [cluster], candidates)
        for namespace, candidates in by_namespace.items()
    }


def _write(files: dict[str, str], directory: Path) -> None:
    from fleet.errors import ConfigurationError

    there = [name for name in files if (directory / name).exists()]
    if there:
        raise ConfigurationError(
            f"{', '.join(str(directory / name) for name in there)} exists and is not changed", hint="write elsewhere"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
        remark(f"wrote {directory / name}; look at it with `fleet preview`")


def _commit(files: dict[str, str], branch: str) -> None:
    from fleet.adopt.stack_file import commit

    if not files:
        remark("there is nothing to take over, and no branch")
        return
    look = f"fleet preview --base HEAD --head {branch} --live"
    for path in commit(files, branch):
        remark(f"wrote {path} on branch {branch}; look at it with `{look}`")


def _data(one: Finding) -> dict[str, Any]:
    found = one.candidate
    return {
        "namespace": one.namespace,
        "statefulSet": one.name,
        "engine": one.engine or None,
        "sign": one.sign or None,
        "manageable": found is not None,
        "problem": str(one.problem) if one.problem else None,
        **(_described(found) if found else {}),
    }


def _described(found: Any) -> dict[str, Any]:
    return {
        "identity": found.identity,
        "version": found.version,
        "members": [
            {"name": one.name, "id": one.identity, "role": one.role, "version": one.version} for one in found.members
        ],
        "facts": dict(found.facts),
        "kept": list(found.kept),
        "managers": list(found.managers),
        "spec": found.app.spec(),
    }


def _text(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no StatefulSets that could be taken over"
    return "\n".join(line for one in findings for line in _lines(one))


def _lines(one: Finding) -> list[str]:
    head = f"StatefulSet {one.namespace}/{one.name}"
    found = one.candidate
    if found is None:
        what = f" ({one.engine}: {one.sign})" if one.engine else ""
        problem = one.problem
        hint = [f"    {problem.hint}"] if problem and problem.hint else []
        return [f"✗ {head}{what}: {problem.message if problem else ''}", *hint]
    members = ", ".join(f"{member.name} ({member.role})" for member in found.members)
    lines = [f"✓ {head}: {one.engine} {found.version}, {one.sign}", f"    cluster {found.identity}: {members}"]
    lines += [f"    {name}: {text}" for name, text in found.facts.items()]
    lines += [f"    kept as found: {text}" for text in found.kept]
    return [*lines, f"    managed by: {', '.join(found.managers)}"] if found.managers else lines
