"""`fleet render`: the manifests that the stacks become, to look at or to give to other tools.

With `--push`, it writes bundles: what each cluster with an agent of its own is to have, on a branch of git.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.clusters import open_repository
from fleet.cli.options import signers_option
from fleet.cli.output import emit_result, format_json, format_table, print_message
from fleet.cli.plans import view_plan
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.bundle.publish import PublishResult
    from fleet.evaluate import Evaluation
    from fleet.git.refs import Address
    from fleet.objects.desired import Desired, Object
    from fleet.sync.source import Commit

F = TypeVar("F", bound=Callable[..., Any])


def push_options(command: F) -> F:
    """Add --push and the options that only it takes."""
    for option in (
        signers_option,
        click.option("--any-branch", is_flag=True, help="With --push, a commit of another branch than the synced one."),
        click.option("--with-secrets", is_flag=True, help="With --push, also values of Secrets: all who read git can."),
        click.option(
            "--allow-rewritten", is_flag=True, help="With --push, a commit that does not descend from the last."
        ),
        click.option(
            "--allow-deletes",
            type=click.IntRange(min=0),
            metavar="N",
            help="With --push, let this one take away up to N objects per cluster, whatever the budget says.",
        ),
        click.option(
            "--require-approved",
            is_flag=True,
            help="With --push, only what was recorded as approved. [default: as fleet.toml says]",
        ),
        click.option(
            "--reports",
            multiple=True,
            metavar="[CLUSTER,…=]URL",
            help="With --push, where agents report, if not beside, and which of them; may be repeated.",
        ),
        click.option("--remote", metavar="NAME|URL", help="With --push, where to. [default: as fleet.toml says]"),
        click.option("--push", is_flag=True, help="Render a commit for clusters that pull, and push it there."),
    ):
        command = option(command)
    return command


def render_and_push(
    clusters: Sequence[str],
    revision: str | None,
    form: str,
    *,
    remote: str | None,
    reports: Sequence[str],
    require_approved: bool,
    allow_deletes: int | None,
    allow_rewritten: bool,
    any_branch: bool,
    with_secrets: bool,
    signers: Path | None,
) -> int:
    """Render a commit for the clusters that pull, and push a bundle for each; print what was pushed and what waits."""
    import time

    from fleet.bundle.publish import ObservedState, PublishOptions, publish_bundles, select_clusters
    from fleet.bundle.reports import parse_report_repository as parse_report
    from fleet.bundle.reports import read_reports
    from fleet.cli.results import finish
    from fleet.sync.rollout import approvals
    from fleet.sync.source import check_branch, evaluate_checkout, read_commit

    if form == "yaml":
        raise click.UsageError("with --push the output is text or json")
    elsewhere = [parse_report(report) for report in reports]
    with read_commit(revision or "HEAD", use_cache=True) as files:
        for line in check_branch(files, any_branch=any_branch):
            print_message(line)
        if signers:
            from fleet.sync.source import check_signature

            check_signature(files.git, files.revision, signers)
        evaluation = evaluate_checkout(files, ())
    if not select_clusters(evaluation, clusters):
        from fleet.errors import ConfigurationError

        raise ConfigurationError(
            "no cluster of this repository pulls",
            hint="fleet cluster add NAME --pull, or pull=True in its fleet.Cluster",
        )
    home, target = _find_remote(files, None), _find_remote(files, remote)
    options = PublishOptions(
        tuple(clusters), allow_deletes, allow_rewritten, revision is not None, with_secrets, require_approved
    )
    branch = files.repository.settings.git.status_branch
    seen = ObservedState(read_reports(files.git, home, elsewhere, branch), approvals.read_approvals(files.git, home))
    rendering = publish_bundles(files, evaluation, options, target, seen, now=time.time())
    _tidy_status(files, evaluation, home)
    emit_result(_push_data(files, rendering), form, lambda: _format_push(rendering))
    for line in rendering.remarks:
        print_message(line)
    return finish(rendering.problems)


def _find_remote(files: Commit, remote: str | None) -> Address | None:
    """Return the address of a remote that the user named or wrote out; None for no remote."""
    from fleet.git import refs
    from fleet.git.status import choose_remote

    if remote is None or remote in files.remotes:
        return choose_remote(files.remotes, remote or files.repository.settings.git.remote)
    return refs.address(remote, by_person=True)


def _tidy_status(files: Commit, evaluation: Evaluation, home: Address | None) -> None:
    """Remove from the status branch what git no longer places: else it would count as missing for ever."""
    from fleet.errors import FleetError
    from fleet.git.status import report
    from fleet.sync.report import removed_placements
    from fleet.sync.targets import choose_targets

    branch = files.repository.settings.git.status_branch
    try:
        report(files.git, (), gone=removed_placements(choose_targets(evaluation, (), ())), remote=home, branch=branch)
    except FleetError as error:
        print_message(f"the status branch was not tidied: {error.message}")


def _format_push(rendering: PublishResult) -> str:
    results = rendering.results
    changed = [result.branch for result in results if result.problem or (result.plan and not result.plan.empty)]
    plans = [view_plan(changed, "text")] if changed else []
    clusters = sorted({*rendering.bundles, *_list_refused(rendering)})
    return "\n".join([*plans, *(f"{cluster}: {_describe_push(rendering, cluster)}" for cluster in clusters)])


def _describe_push(rendering: PublishResult, cluster: str) -> str:
    if cluster not in rendering.bundles:
        return "not pushed, something speaks against it"
    outcome = f"pushed as {rendering.written[cluster][:8]}" if cluster in rendering.written else "nothing new"
    waiting = sorted(rendering.waiting.items())
    waits = [f"{stack} waits: {reason}" for (stack, waiting_cluster), reason in waiting if waiting_cluster == cluster]
    return "; ".join([outcome, *waits])


def _list_refused(rendering: PublishResult) -> set[str]:
    return {result.cluster for result in rendering.results if result.problem}


def _push_data(files: Commit, rendering: PublishResult) -> dict[str, Any]:
    return {
        "revision": files.revision,
        "clusters": [
            {
                "cluster": cluster,
                "commit": rendering.written.get(cluster),
                "stacks": [stack.stack for stack in bundle.index.stacks],
                "waiting": dict(bundle.index.waiting),
            }
            for cluster, bundle in sorted(rendering.bundles.items())
        ],
        "refused": sorted(_list_refused(rendering)),
    }


@click.command()
@click.option("--stack", "stacks", multiple=True, metavar="NAME", help="Only this stack; may be repeated.")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only for this cluster; may be repeated.")
@click.option("--revision", metavar="REV", help="Render this commit and not the working tree.")
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write CLUSTER/STACK.yaml files into a new or empty directory.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json", "text"]),
    default="yaml",
    show_default=True,
    help="YAML documents, JSON with sources and exports, or a table for people.",
)
@click.option("--show-secrets", is_flag=True, help="Print values of Secrets too, which are hidden otherwise.")
@push_options
@click.pass_context
def render(
    context: click.Context,
    /,
    *,
    stacks: Sequence[str],
    clusters: Sequence[str],
    revision: str | None,
    directory: Path | None,
    form: str,
    show_secrets: bool,
    push: bool,
    **push_arguments: Any,
) -> int:
    """Print the manifests of every stack for every cluster. Nothing is sent anywhere.

    \b
    fleet render --stack orders --cluster eu-1 | kubectl diff -f -
    fleet render --to rendered && git diff --no-index rendered.before rendered

    Values of Secrets, and of fields that a definition marks as secret, are printed as "(redacted)".

    With --push, a commit is rendered for the clusters that pull (`fleet.Cluster(…, pull=True)`), and what each is to
    have is pushed to a branch of its own, from which `fleet agent` applies it there. The rules are those of `fleet
    sync`: budgets, approvals, history. What has to wait for other clusters is held back; run it again, or have `fleet
    serve` do it.

    \b
    fleet render --push
    fleet render --push --cluster edge-1 --allow-deletes 12
    """
    if push:
        if stacks or directory is not None or show_secrets:
            raise click.UsageError("--push is about all stacks of clusters: --stack, --to and --show-secrets are not")
        is_default = context.get_parameter_source("form") is click.core.ParameterSource.DEFAULT
        return render_and_push(clusters, revision, "text" if is_default else form, **push_arguments)
    command_line = click.core.ParameterSource.COMMANDLINE
    typed = [name for name in push_arguments if context.get_parameter_source(name) is command_line]
    if typed:
        raise click.UsageError(f"--{typed[0].replace('_', '-')} is for --push")
    from fleet.evaluate import Pool

    with open_repository(revision) as repository, Pool() as pool:
        from fleet.evaluate import evaluate  # while the pool warms up

        evaluation = evaluate(repository, stacks=list(stacks) or None, pool=pool).check()
    selected = _select_placements(evaluation, clusters)
    if not show_secrets:
        selected = [_redact(desired) for desired in selected]
    if directory is not None:
        _write_files(selected, directory)
    elif form == "json":
        click.echo(format_json([_desired_data(desired) for desired in selected]))
    elif form == "text":
        rows = [
            [desired.stack, desired.cluster, str(item.key), str(item.source)]
            for desired in selected
            for item in desired.objects
        ]
        click.echo(format_table(["stack", "cluster", "object", "source"], rows))
    else:
        for document in _format_documents(selected):
            click.echo(document, nl=False)
    return 0


def _select_placements(evaluation: Evaluation, clusters: Sequence[str]) -> list[Desired]:
    from fleet.sync.targets import check_cluster

    for name in clusters:
        check_cluster(evaluation.clusters, name)
    every = (desired for stack in evaluation.stacks for desired in stack.desired)
    return [desired for desired in every if not clusters or desired.cluster in clusters]


def _redact(desired: Desired) -> Desired:
    """Return what is desired without values of secrets."""
    from dataclasses import replace

    from fleet.objects.redaction import declared_secrecy, redact_manifest

    secrecy = declared_secrecy(item.manifest for item in desired.objects)
    objects = (replace(item, manifest=redact_manifest(item.manifest, secrecy)) for item in desired.objects)
    return replace(desired, objects=tuple(objects))


def _format_documents(selected: Iterable[Desired]) -> Iterable[str]:
    """Yield a YAML document per object, with a comment that says where it comes from."""
    from fleet.yaml_text import comment_line, dump

    for desired in selected:
        for item in desired.objects:
            origin = comment_line(f"stack {desired.stack}, cluster {desired.cluster}, {item.source}")
            yield f"---\n{origin}{dump(_sort_fields(item.manifest))}"


def _sort_fields(manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = _move_first(manifest["metadata"], "name", "namespace")
    return _move_first({**manifest, "metadata": metadata}, "apiVersion", "kind", "metadata")


def _move_first(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a mapping that begins with some of its keys, as people expect; the others keep their order."""
    return {name: mapping[name] for name in names if name in mapping} | mapping


def _desired_data(desired: Desired) -> dict[str, Any]:
    return {
        "stack": desired.stack,
        "cluster": desired.cluster,
        "exports": desired.exports,
        "objects": [_object_data(item) for item in desired.objects],
    }


def _object_data(item: Object) -> dict[str, Any]:
    return {
        "source": str(item.source),
        "depends_on": [str(key) for key in item.depends_on],
        "manifest": item.manifest,
    }


def _write_files(selected: Sequence[Desired], directory: Path) -> None:
    """Write a file per stack and cluster; raise ConfigurationError if the directory is not empty."""
    from fleet.errors import ConfigurationError

    if directory.exists() and any(directory.iterdir()):
        raise ConfigurationError(
            f"{directory} is not empty", hint="name a new directory: files of an earlier rendering would stay in it"
        )
    for desired in selected:
        path = directory / desired.cluster / f"{desired.stack}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_format_documents([desired])))
    print_message(f"{count_noun(len(selected), 'file')} in {directory}")
