"""`fleet cluster`: the clusters of the repository, which are files in it. Nothing here changes a cluster.

To add or remove a cluster is an edit of the working tree: it takes effect when it is committed and synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.options import kubeconfig_option
from fleet.cli.output import emit_result, format_table, output_option, print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.cli.access import AccessFinding
    from fleet.errors import FleetError
    from fleet.evaluate import ClusterData, Evaluation
    from fleet.repository import Repository


@click.group()
def cluster() -> None:
    """Clusters of this repository: add, list, check, remove."""


@cluster.command()
@click.argument("name")
@click.option("--context", help="The context of the kubeconfig. [default: NAME]")
@click.option("--secret", metavar="NAMESPACE/NAME", help="Reached by `fleet serve` through this Secret.")
@click.option("--pull", is_flag=True, help="An agent inside the cluster pulls; nobody connects to it.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="To place stacks by; may be repeated.")
@kubeconfig_option()
def add(
    *, name: str, context: str | None, secret: str | None, pull: bool, labels: Sequence[str], kubeconfig: Path | None
) -> None:
    """Write a file for a new cluster.

    \b
    fleet cluster add eu-1 --context kind-eu-1 --label env=prod --label region=eu
    """
    from fleet.errors import ConfigurationError
    from fleet.model.cluster import Cluster

    try:
        new = Cluster(name, labels=_parse_labels(labels), context=context, secret=secret, pull=pull)
    except ConfigurationError as error:
        error.source = None  # it was not written in a file
        raise
    repository, evaluation = _evaluate(stacks=False)
    for existing in evaluation.clusters:
        if existing.name == name:
            raise ConfigurationError(f"there is a cluster {name!r} already", source=existing.source)
    if not secret and not pull:
        _check_context(new.kubeconfig_context, kubeconfig)
    path = repository.root / repository.settings.paths.clusters / f"{name}.py"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_format_source(new))
    except FileExistsError:
        raise ConfigurationError(f"{path.relative_to(repository.root)} exists already and holds other things") from None
    click.echo(path.relative_to(repository.root))
    print_message(
        "next: commit it, and run `fleet agent` in it" if pull else f"next: fleet cluster check {name}, then commit it"
    )


@cluster.command("list")
@click.option("--check", "checked", is_flag=True, help="Also ask every cluster for its version.")
@kubeconfig_option()
@output_option
def list_(checked: bool, kubeconfig: Path | None, form: str) -> int:
    """Show the clusters, their labels, how they are reached and which stacks go there."""
    _, evaluation = _evaluate()
    versions = _read_versions(evaluation.clusters, kubeconfig) if checked else {}
    rows = [
        _cluster_data(cluster, _list_stacks(evaluation, cluster.name), versions.get(cluster.name), checked)
        for cluster in evaluation.clusters
    ]
    header = ["name", "labels", "access", "stacks", *(["version"] if checked else [])]
    emit_result(
        rows,
        form,
        lambda: (
            format_table(header, [_format_row(row) for row in rows]) if rows else "no clusters; see fleet cluster add"
        ),
    )
    errors = [version for version in versions.values() if not isinstance(version, str)]
    return max((error.exit_code for error in errors), default=0)


@cluster.command()
@click.argument("cluster", metavar="NAME")
@kubeconfig_option()
@output_option
def check(cluster: str, kubeconfig: Path | None, form: str) -> int:
    """Test the access to a cluster: context, connection, version, definitions, rights. Nothing is changed.

    Exit code 3 when credentials or rights are missing, 4 when it cannot be reached or is too old.
    """
    import asyncio

    from fleet.cli.access import check_access

    _, evaluation = _evaluate()
    entry = _find_cluster(evaluation.clusters, cluster)
    if entry.pull or entry.secret:
        access = (
            "an agent inside it pulls" if entry.pull else f"`fleet serve` reaches it with the Secret {entry.secret}"
        )
        emit_result(
            {"cluster": cluster, "ok": True, "findings": []},
            form,
            lambda: f"{cluster}: nothing to check here: {access}",
        )
        return 0
    every = (desired for stack in evaluation.stacks for desired in stack.desired)
    selected = [desired for desired in every if desired.cluster == cluster]
    findings = asyncio.run(check_access(entry, selected, kubeconfig))
    errors = [finding.problem for finding in findings if finding.problem]
    data = {"cluster": cluster, "ok": not errors, "findings": [_finding_data(finding) for finding in findings]}
    emit_result(data, form, lambda: "\n".join(_format_findings(findings)))
    return errors[0].exit_code if errors else 0


@cluster.command()
@click.argument("cluster", metavar="NAME")
@click.option("--force", is_flag=True, help="Also when git could not bring the file back.")
def remove(cluster: str, force: bool) -> None:
    """Delete a cluster's file, and say what becomes of its apps. They keep running."""
    from fleet.errors import ConfigurationError

    repository, evaluation = _evaluate()
    entry = _find_cluster(evaluation.clusters, cluster)
    file = entry.source.file
    neighbours = [item.name for item in evaluation.clusters if item.source.file == file and item.name != cluster]
    if neighbours:
        raise ConfigurationError(
            f"the file holds other clusters too: {', '.join(neighbours)}", source=entry.source, hint="edit it by hand"
        )
    if not force and not _is_committed(repository, file):
        raise ConfigurationError(
            "the file is not committed as it is, so git could not bring it back",
            source=entry.source,
            hint="use --force",
        )
    (repository.root / file).unlink()
    click.echo(f"removed {file}")
    for line in _describe_consequences(evaluation, cluster, file):
        print_message(line)


def _evaluate(*, stacks: bool = True) -> tuple[Repository, Evaluation]:
    """Evaluate the working tree; raise errors in files of clusters. Errors in stacks are counted in a message only."""
    from fleet.evaluate import Problems, evaluate
    from fleet.repository import Repository

    repository = Repository.find()
    files = set(repository.cluster_files())
    evaluation = evaluate(repository, stacks=None if stacks else [])
    problems = [item for item in evaluation.problems if item.source is None or item.source.file in files]
    if problems:
        raise problems[0] if len(problems) == 1 else Problems(problems)
    if evaluation.problems and stacks:
        count = len(evaluation.problems)
        print_message(f"the stacks have {count_noun(count, 'problem')} and are not considered: see fleet check")
    return repository, evaluation


def _parse_labels(labels: Sequence[str]) -> dict[str, str]:
    """Return labels by key; raise ConfigurationError for what is not KEY=VALUE, or for two values of a key."""
    from fleet.errors import ConfigurationError

    pairs: dict[str, str] = {}
    for label in labels:
        key, separator, value = label.partition("=")
        if not separator or not key:
            raise ConfigurationError(
                f"{label!r} is not a label", hint="write KEY=VALUE, such as env=prod", field="--label"
            )
        if pairs.setdefault(key, value) != value:
            raise ConfigurationError(f"the label {key!r} is given twice", field="--label")
    return pairs


def _check_context(context: str, kubeconfig: Path | None) -> None:
    """Raise NotFoundError if the kubeconfig has no such context."""
    from fleet.cli.clusters import list_contexts
    from fleet.errors import NotFoundError
    from fleet.suggestion import closest

    names = list_contexts(kubeconfig)
    if context not in names:
        close = closest(context, names)
        advice = f"did you mean {close}?" if close else f"contexts are: {', '.join(names) or 'none'}"
        raise NotFoundError(f"the kubeconfig has no context {context!r}", hint=f"{advice}; name one with --context")


def _format_source(cluster: Any) -> str:
    """Return the file of a cluster as a user would write it."""
    arguments = [_quote(cluster.name)]
    if cluster.labels:
        pairs = ", ".join(f"{_quote(key)}: {_quote(value)}" for key, value in sorted(cluster.labels.items()))
        arguments.append(f"labels={{{pairs}}}")
    if cluster.context and cluster.context != cluster.name:
        arguments.append(f"context={_quote(cluster.context)}")
    if cluster.secret:
        arguments.append(f"secret={_quote(cluster.secret)}")
    if cluster.pull:
        arguments.append("pull=True")
    line = f"fleet.Cluster({', '.join(arguments)})"
    if len(line) > 100:
        line = "fleet.Cluster(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    return f"import fleet\n\n{line}\n"


def _quote(text: str) -> str:
    import json

    return json.dumps(text)


def _cluster_data(
    cluster: ClusterData, stacks: Sequence[str], version: str | FleetError | None, checked: bool
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": cluster.name,
        "labels": dict(sorted(cluster.labels.items())),
        "access": _describe_access(cluster),
        "stacks": list(stacks),
        "source": str(cluster.source),
    }
    if checked:
        row["version"] = version if isinstance(version, str) else None
        row["problem"] = version.message if version is not None and not isinstance(version, str) else None
    return row


def _describe_access(cluster: ClusterData) -> str:
    if cluster.pull:
        return "pull"
    return f"secret {cluster.secret}" if cluster.secret else f"context {cluster.kubeconfig_context}"


def _format_row(row: dict[str, Any]) -> list[str]:
    labels = ",".join(f"{key}={value}" for key, value in row["labels"].items())
    cells = [row["name"], labels or "-", row["access"], ", ".join(row["stacks"]) or "-"]
    if "version" in row:
        cells.append(row["version"] or (f"✗ {row['problem']}" if row["problem"] else "-"))
    return cells


def _read_versions(clusters: Sequence[ClusterData], kubeconfig: Path | None) -> dict[str, str | FleetError]:
    """Ask all clusters that are reached from here for their versions at once; return versions or errors by name."""
    import asyncio

    from fleet.cli.access import read_version
    from fleet.errors import FleetError

    async def ask(cluster: ClusterData) -> str | FleetError:
        try:
            return await read_version(cluster, kubeconfig)
        except FleetError as error:
            return error

    async def ask_all() -> list[str | FleetError]:
        return await asyncio.gather(*map(ask, reachable))

    reachable = [cluster for cluster in clusters if not cluster.pull and not cluster.secret]
    versions = asyncio.run(ask_all())
    return {cluster.name: version for cluster, version in zip(reachable, versions, strict=True)}


def _list_stacks(evaluation: Evaluation, name: str) -> list[str]:
    return [stack.name for stack in evaluation.stacks if name in stack.clusters]


def _find_cluster(clusters: Sequence[ClusterData], name: str) -> ClusterData:
    from fleet.sync.targets import check_cluster

    return check_cluster(clusters, name)


def _finding_data(finding: AccessFinding) -> dict[str, Any]:
    return {"what": finding.what, "ok": finding.problem is None, "detail": finding.detail, "hint": finding.hint}


def _format_findings(findings: Sequence[AccessFinding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{'✗' if finding.problem else '✓'} {finding.what.ljust(12)} {finding.detail}")
        if finding.hint:
            lines.append(f"  hint: {finding.hint}")
    return lines


def _is_committed(repository: Repository, file: str) -> bool:
    """Return whether HEAD has the file as it is now."""
    from fleet.errors import FleetError
    from fleet.git.repository import GitRepository

    path = repository.root / file
    try:
        git = GitRepository.find(repository.root)
        return git.tree().read(path.relative_to(git.root.resolve()).as_posix()) == path.read_bytes()
    except FleetError:
        return False


def _describe_consequences(evaluation: Evaluation, name: str, file: str) -> list[str]:
    """Return what becomes of the apps of a cluster whose file is removed, a line each."""
    stacks = _list_stacks(evaluation, name)
    if not stacks:
        return ["no stack goes there; nothing else changes"]
    lines = [
        f"its apps keep running: when this is committed, fleet no longer looks after {', '.join(stacks)} there",
        f"to remove them, first: git restore {file} && fleet destroy {' '.join(stacks)} --cluster {name}",
    ]
    alone = [stack.name for stack in evaluation.stacks if stack.clusters == (name,)]
    if alone:
        lines.append(f"placed nowhere else, so an error of fleet check from now on: {', '.join(alone)}")
    return lines
