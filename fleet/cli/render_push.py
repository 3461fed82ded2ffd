"""`fleet render --push`: what clusters with agents of their own are to have, each on a branch of git."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.flags import colour_wanted, signers_option, width_of_terminal
from fleet.cli.output import emit, remark

if TYPE_CHECKING:
    from fleet.evaluate import Evaluation
    from fleet.git.names import Address
    from fleet.rendered.centre import Rendering
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

    from fleet.cli.preview import finish
    from fleet.rendered.centre import Seen, Wish, chosen_clusters, render
    from fleet.rendered.reported import reported
    from fleet.rendered.reported import reports as place
    from fleet.sync import approvals
    from fleet.sync.evaluated import evaluated
    from fleet.sync.source import check_branch, commit

    if form == "yaml":
        raise click.UsageError("with --push the output is text or json")
    elsewhere = [place(one) for one in reports]
    with commit(revision or "HEAD", known=True) as files:
        for line in check_branch(files, any_branch=any_branch):
            remark(line)
        if signers:
            from fleet.sync.trust import check_signature

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
    emit(_data(files, found), form, lambda: _text(found))
    for line in found.remarks:
        remark(line)
    return finish(found.problems)


def _destination(files: Files, remote: str | None) -> Address | None:
    """A remote by its name or its address."""
    from fleet.git import names
    from fleet.git.reporting import chosen

    if remote is None or remote in files.remotes:
        return chosen(files.remotes, remote or files.repository.settings.git.remote)
    return names.address(remote, by_person=True)


def _forget(files: Files, evaluation: Evaluation, home: Address | None) -> None:
    """Whatever git speaks of no more, the status branch need not either: else it would count as missing for ever."""
    from fleet.errors import FleetError
    from fleet.git.reporting import report
    from fleet.sync.choice import targets
    from fleet.sync.status import no_more

    assert files.git is not None  # noqa: S101
    branch = files.repository.settings.git.status_branch
    try:
        report(files.git, (), gone=no_more(targets(evaluation, (), ())), remote=home, branch=branch)
    except FleetError as problem:
        remark(f"the status branch was not tidied: {problem.message}")


def _text(found: Rendering) -> str:
    from fleet.plan.text import tree

    changed = [one.branch for one in found.results if one.problem or (one.plan and not one.plan.empty)]
    shown = [tree(changed, colour=colour_wanted(), width=width_of_terminal())] if changed else []
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


def _data(files: Files, found: Rendering) -> dict[str, Any]:
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
