""".

`fleet render --push`: what clusters with agents of their own are to have, each on a branch of git.

`fleet render`: the manifests that the stacks become, to look at or to give to other tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.commands.check import opened
from fleet.cli.options import colour_wanted, signers_option, width_of_terminal
from fleet.cli.output import emit, json_text, remark, table
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.bundle.publish import Rendering
    from fleet.evaluate import Evaluation
    from fleet.git.refs import Address
    from fleet.objects.desired import Desired, Object
    from fleet.sync.source import Files

F = TypeVar("F", bound=Callable[..., Any])


def push_options(command: F) -> F:
    """--push and what only it takes."""
    for option in (
        signers_option,
        click.option("--any-branch", is_flag=True, help="With --push, a commit of another branch than the synced one."),
        click.option("--with-secrets", is_flag=True, help="With --push, also values of Secrets: all who read git can."),
        click.option(
            "--allow-rewritten", is_flag=True, help="With --push, a commit that does not go on from the last."
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
    import time

    from fleet.bundle.publish import Seen, Wish, chosen_clusters, render
    from fleet.bundle.reports import reported
    from fleet.bundle.reports import reports as place
    from fleet.cli.commands.preview import finish
    from fleet.sync.rollout import approvals
    from fleet.sync.source import check_branch, commit, evaluated

    if form == "yaml":
        raise click.UsageError("with --push the output is text or json")
    elsewhere = [place(one) for one in reports]
    with commit(revision or "HEAD", known=True) as files:
        for line in check_branch(files, any_branch=any_branch):
            remark(line)
        if signers:
            from fleet.sync.source import check_signature

            assert files.git is not None  # noqa: S101 - commits come from git
            check_signature(files.git, files.revision, signers)
        evaluation = evaluated(files, ())
    if not chosen_clusters(evaluation, clusters):
        from fleet.errors import ConfigurationError

        raise ConfigurationError(
            "no cluster of this repository pulls",
            hint="fleet cluster add NAME --pull, or pull=True in its fleet.Cluster",
        )
    assert files.git is not None  # noqa: S101 - commits come from git
    home, target = _destination(files, None), _destination(files, remote)
    wish = Wish(tuple(clusters), allow_deletes, allow_rewritten, revision is not None, with_secrets, require_approved)
    branch = files.repository.settings.git.status_branch
    seen = Seen(reported(files.git, home, elsewhere, branch), approvals.read(files.git, home))
    found = render(files, evaluation, wish, target, seen, now=time.time())
    _forget(files, evaluation, home)
    emit(_push_data(files, found), form, lambda: _push_text(found))
    for line in found.remarks:
        remark(line)
    return finish(found.problems)


def _destination(files: Files, remote: str | None) -> Address | None:
    """A remote by its name or its address."""
    from fleet.git import refs
    from fleet.git.status import chosen

    if remote is None or remote in files.remotes:
        return chosen(files.remotes, remote or files.repository.settings.git.remote)
    return refs.address(remote, by_person=True)


def _forget(files: Files, evaluation: Evaluation, home: Address | None) -> None:
    """Whatever git speaks of no more, the status branch need not either: else it would count as missing for ever."""
    from fleet.errors import FleetError
    from fleet.git.status import report
    from fleet.sync.report import no_more
    from fleet.sync.targets import targets

    assert files.git is not None  # noqa: S101
    branch = files.repository.settings.git.status_branch
    try:
        report(files.git, (), gone=no_more(targets(evaluation, (), ())), remote=home, branch=branch)
    except FleetError as problem:
        remark(f"the status branch was not tidied: {problem.message}")


def _push_text(found: Rendering) -> str:
    from fleet.plan.views.text import text_tree

    changed = [one.branch for one in found.results if one.problem or (one.plan and not one.plan.empty)]
    shown = [text_tree(changed, colour=colour_wanted(), width=width_of_terminal())] if changed else []
    lines = [f"{cluster}: {_words(found, cluster)}" for cluster in sorted({*found.sets, *_refused(found)})]
    return "\n".join([*shown, *lines])


def _words(found: Rendering, cluster: str) -> str:
    if cluster not in found.sets:
        return "not pushed, something speaks against it"
    said = f"pushed as {found.written[cluster][:8]}" if cluster in found.written else "nothing new"
    waits = [f"{stack} waits: {why}" for (stack, where), why in sorted(found.waiting.items()) if where == cluster]
    return "; ".join([said, *waits])


def _refused(found: Rendering) -> set[str]:
    return {one.cluster for one in found.results if one.problem}


def _push_data(files: Files, found: Rendering) -> dict[str, Any]:
    return {
        "revision": files.revision,
        "clusters": [
            {
                "cluster": cluster,
                "commit": found.written.get(cluster),
                "stacks": [one.stack for one in made.index.stacks],
                "waiting": dict(made.index.waiting),
            }
            for cluster, made in sorted(found.sets.items())
        ],
        "refused": sorted(_refused(found)),
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
    **said: Any,
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
        usual = context.get_parameter_source("form") is click.core.ParameterSource.DEFAULT
        return render_and_push(clusters, revision, "text" if usual else form, **said)
    typed = click.core.ParameterSource.COMMANDLINE
    given = [one for one in said if context.get_parameter_source(one) is typed]
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} is for --push")
    from fleet.evaluate import Pool

    with opened(revision) as repository, Pool() as pool:
        from fleet.evaluate import evaluate  # while the pool warms up

        evaluation = evaluate(repository, stacks=list(stacks) or None, pool=pool).check()
    wanted = _chosen(evaluation, clusters)
    if not show_secrets:
        wanted = [_discreet(one) for one in wanted]
    if directory is not None:
        _write(wanted, directory)
    elif form == "json":
        click.echo(json_text([_data(one) for one in wanted]))
    elif form == "text":
        rows = [[one.stack, one.cluster, str(thing.key), str(thing.source)] for one in wanted for thing in one.objects]
        click.echo(table(["stack", "cluster", "object", "source"], rows))
    else:
        for part in _documents(wanted):
            click.echo(part, nl=False)
    return 0


def _chosen(evaluation: Evaluation, clusters: Sequence[str]) -> list[Desired]:
    from fleet.sync.targets import check_cluster

    for name in clusters:
        check_cluster(evaluation.clusters, name)
    return [one for stack in evaluation.stacks for one in stack.desired if not clusters or one.cluster in clusters]


def _discreet(desired: Desired) -> Desired:
    """With objects as they may be shown."""
    from dataclasses import replace

    from fleet.objects.redaction import declared_secrecy, redact_manifest

    known = declared_secrecy(one.manifest for one in desired.objects)
    objects = (replace(one, manifest=redact_manifest(one.manifest, known)) for one in desired.objects)
    return replace(desired, objects=tuple(objects))


def _documents(wanted: Iterable[Desired]) -> Iterable[str]:
    from fleet.yaml_text import comment_line, dump

    for desired in wanted:
        for one in desired.objects:
            place = comment_line(f"stack {desired.stack}, cluster {desired.cluster}, {one.source}")
            yield f"---\n{place}{dump(_in_order(one.manifest))}"


def _in_order(manifest: dict[str, Any]) -> dict[str, Any]:
    named = _first(manifest["metadata"], "name", "namespace")
    return _first({**manifest, "metadata": named}, "apiVersion", "kind", "metadata")


def _first(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    """In the order that people expect; else as it was."""
    return {name: mapping[name] for name in names if name in mapping} | mapping


def _data(desired: Desired) -> dict[str, Any]:
    return {
        "stack": desired.stack,
        "cluster": desired.cluster,
        "exports": desired.exports,
        "objects": [_object(one) for one in desired.objects],
    }


def _object(one: Object) -> dict[str, Any]:
    return {
        "source": str(one.source),
        "depends_on": [str(key) for key in one.depends_on],
        "manifest": one.manifest,
    }


def _write(wanted: Sequence[Desired], directory: Path) -> None:
    from fleet.errors import ConfigurationError

    if directory.exists() and any(directory.iterdir()):
        raise ConfigurationError(
            f"{directory} is not empty", hint="name a new directory: files of an earlier rendering would stay in it"
        )
    for desired in wanted:
        path = directory / desired.cluster / f"{desired.stack}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_documents([desired])))
    remark(f"{count_noun(len(wanted), 'file')} in {directory}")
