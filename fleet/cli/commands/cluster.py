"""`fleet cluster`: the clusters of the repository, which are files in it. Nothing here changes a cluster.

Adding and removing one is an edit of the working tree: it takes effect when it is committed and synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.output import emit, output_option, remark, table
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.cli.commands.access import Finding
    from fleet.errors import FleetError
    from fleet.evaluate import ClusterData, Evaluation
    from fleet.repository import Repository

kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Where the contexts are. [default: as kubectl finds it]",
)


@click.group()
def cluster() -> None:
    """Clusters of this repository: add, list, check, remove."""


@cluster.command()
@click.argument("name")
@click.option("--context", help="The context of the kubeconfig. [default: NAME]")
@click.option("--secret", metavar="NAMESPACE/NAME", help="Reached by `fleet serve` through this Secret.")
@click.option("--pull", is_flag=True, help="An agent inside the cluster pulls; nobody connects to it.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="To place stacks by; may be repeated.")
@kubeconfig_option
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
        made = Cluster(name, labels=_pairs(labels), context=context, secret=secret, pull=pull)
    except ConfigurationError as error:
        error.source = None  # it was not written in a file
        raise
    repository, evaluation = _evaluated(stacks=False)
    for known in evaluation.clusters:
        if known.name == name:
            raise ConfigurationError(f"there is a cluster {name!r} already", source=known.source)
    if not secret and not pull:
        _check_context(made.kubeconfig_context, kubeconfig)
    path = repository.root / repository.settings.paths.clusters / f"{name}.py"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_file(made))
    except FileExistsError:
        raise ConfigurationError(f"{path.relative_to(repository.root)} exists already and holds other things") from None
    click.echo(path.relative_to(repository.root))
    remark(
        "next: commit it, and run `fleet agent` in it" if pull else f"next: fleet cluster check {name}, then commit it"
    )


@cluster.command("list")
@click.option("--check", "checked", is_flag=True, help="Also ask every cluster for its version.")
@kubeconfig_option
@output_option
def list_(checked: bool, kubeconfig: Path | None, form: str) -> int:
    """Show the clusters, their labels, how they are reached and which stacks go there."""
    _, evaluation = _evaluated()
    answers = asyncio.run(_versions(evaluation.clusters, kubeconfig)) if checked else {}
    rows = [
        _row(each, _stacks_on(evaluation, each.name), answers.get(each.name), checked) for each in evaluation.clusters
    ]
    header = ["name", "labels", "access", "stacks", *(["version"] if checked else [])]
    emit(
        rows,
        form,
        lambda: table(header, [_cells(row) for row in rows]) if rows else "no clusters; see fleet cluster add",
    )
    problems = [answer for answer in answers.values() if not isinstance(answer, str)]
    return max((problem.exit_code for problem in problems), default=0)


@cluster.command()
@click.argument("cluster", metavar="NAME")
@kubeconfig_option
@output_option
def check(cluster: str, kubeconfig: Path | None, form: str) -> int:
    """Test the access to a cluster: context, connection, version, definitions, rights. Nothing is changed.

    Exit code 3 when credentials or rights are missing, 4 when it cannot be reached or is too old.
    """
    from fleet.cli.commands.access import look

    _, evaluation = _evaluated()
    found = _named(evaluation.clusters, cluster)
    if found.pull or found.secret:
        how = "an agent inside it pulls" if found.pull else f"`fleet serve` reaches it with the Secret {found.secret}"
        emit({"cluster": cluster, "ok": True, "findings": []}, form, lambda: f"{cluster}: nothing to check here: {how}")
        return 0
    wanted = [one for stack in evaluation.stacks for one in stack.desired if one.cluster == cluster]
    findings = asyncio.run(look(found, wanted, kubeconfig))
    problems = [finding.problem for finding in findings if finding.problem]
    data = {"cluster": cluster, "ok": not problems, "findings": [_finding(finding) for finding in findings]}
    emit(data, form, lambda: "\n".join(_lines(findings)))
    return problems[0].exit_code if problems else 0


@cluster.command()
@click.argument("cluster", metavar="NAME")
@click.option("--force", is_flag=True, help="Also when git could not bring the file back.")
def remove(cluster: str, force: bool) -> None:
    """Delete a cluster's file, and say what becomes of its apps. They keep running."""
    from fleet.errors import ConfigurationError

    repository, evaluation = _evaluated()
    found = _named(evaluation.clusters, cluster)
    file = found.source.file
    others = [each.name for each in evaluation.clusters if each.source.file == file and each.name != cluster]
    if others:
        raise ConfigurationError(
            f"the file holds other clusters too: {', '.join(others)}", source=found.source, hint="edit it by hand"
        )
    if not force and not _is_committed(repository, file):
        raise ConfigurationError(
            "the file is not committed as it is, so git could not bring it back",
            source=found.source,
            hint="use --force",
        )
    (repository.root / file).unlink()
    click.echo(f"removed {file}")
    for line in _consequences(evaluation, cluster, file):
        remark(line)


def _evaluated(*, stacks: bool = True) -> tuple[Repository, Evaluation]:
    """The clusters of the working tree. Mistakes in stacks are told and do not hide the clusters."""
    from fleet.evaluate import Problems, evaluate
    from fleet.repository import Repository

    repository = Repository.find()
    files = set(repository.cluster_files())
    evaluation = evaluate(repository, stacks=None if stacks else [])
    here = [problem for problem in evaluation.problems if problem.source is None or problem.source.file in files]
    if here:
        raise here[0] if len(here) == 1 else Problems(here)
    if evaluation.problems and stacks:
        count = len(evaluation.problems)
        remark(f"the stacks have {count_noun(count, 'problem')} and are not considered: see fleet check")
    return repository, evaluation


def _pairs(labels: Sequence[str]) -> dict[str, str]:
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
    from fleet.cli.clusters import contexts
    from fleet.errors import NotFoundError
    from fleet.suggestion import closest

    known = contexts(kubeconfig)
    if context not in known:
        close = closest(context, known)
        there = f"did you mean {close}?" if close else f"contexts are: {', '.join(known) or 'none'}"
        raise NotFoundError(f"the kubeconfig has no context {context!r}", hint=f"{there}; name one with --context")


def _file(made: Any) -> str:
    """The file as a person would write it."""
    arguments = [_quoted(made.name)]
    if made.labels:
        pairs = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in sorted(made.labels.items()))
        arguments.append(f"labels={{{pairs}}}")
    if made.context and made.context != made.name:
        arguments.append(f"context={_quoted(made.context)}")
    if made.secret:
        arguments.append(f"secret={_quoted(made.secret)}")
    if made.pull:
        arguments.append("pull=True")
    line = f"fleet.Cluster({', '.join(arguments)})"
    if len(line) > 100:
        line = "fleet.Cluster(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    return f"import fleet\n\n{line}\n"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


def _row(each: ClusterData, stacks: Sequence[str], answer: str | FleetError | None, checked: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": each.name,
        "labels": dict(sorted(each.labels.items())),
        "access": _access(each),
        "stacks": list(stacks),
        "source": str(each.source),
    }
    if checked:
        row["version"] = answer if isinstance(answer, str) else None
        row["problem"] = answer.message if answer is not None and not isinstance(answer, str) else None
    return row


def _access(each: ClusterData) -> str:
    return "pull" if each.pull else f"secret {each.secret}" if each.secret else f"context {each.kubeconfig_context}"


def _cells(row: dict[str, Any]) -> list[str]:
    labels = ",".join(f"{key}={value}" for key, value in row["labels"].items())
    cells = [row["name"], labels or "-", row["access"], ", ".join(row["stacks"]) or "-"]
    if "version" in row:
        cells.append(row["version"] or (f"✗ {row['problem']}" if row["problem"] else "-"))
    return cells


async def _versions(clusters: Sequence[ClusterData], kubeconfig: Path | None) -> dict[str, str | FleetError]:
    from fleet.cli.commands.access import version
    from fleet.errors import FleetError

    async def ask(each: ClusterData) -> str | FleetError:
        try:
            return await version(each, kubeconfig)
        except FleetError as error:
            return error

    asked = [each for each in clusters if not each.pull and not each.secret]
    answers = await asyncio.gather(*map(ask, asked))
    return {each.name: answer for each, answer in zip(asked, answers, strict=True)}


def _stacks_on(evaluation: Evaluation, name: str) -> list[str]:
    return [stack.name for stack in evaluation.stacks if name in stack.clusters]


def _named(clusters: Sequence[ClusterData], name: str) -> ClusterData:
    from fleet.sync.targets import check_cluster

    return check_cluster(clusters, name)


def _finding(finding: Finding) -> dict[str, Any]:
    return {"what": finding.what, "ok": finding.problem is None, "detail": finding.detail, "hint": finding.hint}


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{'✗' if finding.problem else '✓'} {finding.what.ljust(12)} {finding.detail}")
        if finding.hint:
            lines.append(f"  hint: {finding.hint}")
    return lines


def _is_committed(repository: Repository, file: str) -> bool:
    """Whether HEAD has the file as it is now."""
    from fleet.errors import FleetError
    from fleet.git.repository import Repository as GitRepository

    path = repository.root / file
    try:
        git = GitRepository.find(repository.root)
        return git.tree().read(path.relative_to(git.root.resolve()).as_posix()) == path.read_bytes()
    except FleetError:
        return False


def _consequences(evaluation: Evaluation, name: str, file: str) -> list[str]:
    stacks = _stacks_on(evaluation, name)
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
