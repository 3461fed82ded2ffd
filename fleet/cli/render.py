"""`fleet render`: the manifests that the stacks become, to look at or to give to other tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.check import opened
from fleet.cli.output import json_text, remark, table
from fleet.cli.render_push import push_options, render_and_push
from fleet.printable import count_noun

if TYPE_CHECKING:
    from fleet.evaluate import Evaluation
    from fleet.model.desired import Desired, Object


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
    from fleet.sync.choice import check_cluster

    for name in clusters:
        check_cluster(evaluation.clusters, name)
    return [one for stack in evaluation.stacks for one in stack.desired if not clusters or one.cluster in clusters]


def _discreet(desired: Desired) -> Desired:
    """With objects as they may be shown."""
    from dataclasses import replace

    from fleet.model.secrecy import declared_secrecy, masked_manifest

    known = declared_secrecy(one.manifest for one in desired.objects)
    objects = (replace(one, manifest=masked_manifest(one.manifest, known)) for one in desired.objects)
    return replace(desired, objects=tuple(objects))


def _documents(wanted: Iterable[Desired]) -> Iterable[str]:
    from fleet.yaml_text import comment, dump

    for desired in wanted:
        for one in desired.objects:
            place = comment(f"stack {desired.stack}, cluster {desired.cluster}, {one.source}")
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
