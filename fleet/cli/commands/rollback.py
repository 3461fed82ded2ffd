"""`fleet rollback`: a stack as it was at an earlier commit, as a commit of its own. No cluster is touched by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.output import emit, output_option, remark

if TYPE_CHECKING:
    from fleet.evaluate.result import Evaluation
    from fleet.git.refs import Address
    from fleet.git.repository import Repository as Git
    from fleet.sync.rollout.rollback import Ground, Rollback
    from fleet.sync.source import Files


@click.command()
@click.argument("stack", metavar="STACK")
@click.option("--to", metavar="REV", help="The commit to go back to. [default: the last one at which it was well]")
@click.option("--branch", metavar="NAME", help="The branch to make. [default: fleet/rollback-STACK-COMMIT]")
@click.option("--direct", is_flag=True, help="Commit to the branch that is synced, and not to one of its own.")
@click.option("--dry-run", is_flag=True, help="Say what it would do, and make no commit that anybody sees.")
@output_option
def rollback(*, stack: str, to: str | None, branch: str | None, direct: bool, dry_run: bool, form: str) -> int:
    """Make a commit that takes the files of STACK back to an earlier commit, and push it as a branch.

    Only files that no other stack reads are changed. What the commit would do is shown; merge it as any other, and the
    next sync applies it. Your working tree, index and branches stay as they are.

    \b
    fleet rollback orders
    fleet rollback orders --to HEAD~3 --dry-run
    """
    from fleet.errors import ConfigurationError
    from fleet.git.merge import give_branch, propose, tip_of, who
    from fleet.git.repository import Repository as Git
    from fleet.git.status import destination
    from fleet.sync.rollout.rollback import message
    from fleet.sync.source import working_tree

    if direct and branch:
        raise click.UsageError("--direct is for the branch that is synced, --branch for another: not both")
    with working_tree() as files:
        git = files.git or Git.find(files.repository.root)  # which says why there is none
    synced = files.repository.settings.git.branch
    remote = destination(git, files.repository.settings.git.remote)
    tip = tip_of(git, remote, synced)
    if tip is None:
        raise ConfigurationError(f"there is no branch {synced}", hint="[git] branch in fleet.toml says what is synced")
    side = _Sides(files, git, remote, stack, tip)
    target, found = side.back_to(to)
    for path in found.left:
        remark(f"left as it is, because other stacks read it too: {path}")
    prefix = side.prefix
    changes = {prefix + path: content for path, content in found.changes.items()}
    about = git.resolve(target)
    text = message(stack, target, about.subject, changes)
    made = propose(git, tip, changes, text, identity=who(git.root))
    name = synced if direct else branch or f"fleet/rollback-{stack}-{target[:8]}"
    if form == "text":
        _show(tip, made, stack)
    if not dry_run:
        give_branch(git, remote, made, name, seen=tip if direct else None)
    emit(
        {"stack": stack, "to": target, "commit": made, "branch": None if dry_run else name, "files": sorted(changes)},
        form,
        lambda: _said(stack, target, made, "" if dry_run else name, direct=direct, remote=remote),
    )
    return 0


@dataclass(frozen=True, slots=True)
class _Sides:
    """The synced branch, and what it had before."""

    files: Files
    git: Git
    remote: Address | None
    stack: str
    tip: str

    @property
    def prefix(self) -> str:
        below = self.files.repository.root.relative_to(self.git.root.resolve()).as_posix()
        return "" if below == "." else f"{below}/"

    def back_to(self, revision: str | None) -> tuple[str, Rollback]:
        """The commit, and what is to change; ConfigurationError when nothing is."""
        from fleet.errors import ConfigurationError

        here = self._ground(self.tip)
        target = self.git.resolve(revision).id if revision else self._last_good(here)
        found = self._between(here, target)
        if not found.changes:
            raise ConfigurationError(f"{self.stack} is as it was at {target[:8]}", hint="name another one with --to")
        return target, found

    def _between(self, here: Ground, target: str) -> Rollback:
        from fleet.sync.rollout.rollback import rolled_back

        there = self._ground(target)
        paths = here.own | here.shared | there.own | there.shared
        return rolled_back(here, there, self._contents(self.tip, paths), self._contents(target, paths))

    def _last_good(self, here: Ground) -> str:
        """The newest commit at which the stack was well, and its own files were others than now."""
        from fleet.errors import NotFoundError
        from fleet.git.history import good, read_history

        own = {self.prefix + path for path in here.own}
        for one in good(read_history(self.git, self.remote, self.tip), self.stack):
            if any(change.path in own for change in self.git.changes(one.revision, self.tip)):
                return one.revision
        raise NotFoundError(
            f"no earlier commit is known at which {self.stack} was well with other files than now",
            hint="this clone is shallow: git fetch --unshallow"
            if self.git.shallow
            else "`fleet history` shows what was synced; name a commit with --to",
        )

    def _ground(self, revision: str) -> Ground:
        from fleet.sync.rollout.rollback import ground

        with _evaluated(revision) as (files, evaluation):
            return ground(evaluation, self.stack, frozenset(files.repository.cluster_files()))

    def _contents(self, revision: str, paths: frozenset[str]) -> dict[str, bytes]:
        wanted = {self.prefix + path for path in paths}
        found = self.git.tree(revision).read_all(matching=wanted.__contains__)
        return {path.removeprefix(self.prefix): content for path, content in found.items()}


@contextmanager
def _evaluated(revision: str) -> Iterator[tuple[Files, Evaluation]]:
    """With what each file reads, which is not remembered."""
    from fleet.evaluate import evaluate
    from fleet.sync.source import commit

    with commit(revision) as files:
        yield files, evaluate(files.repository).check()


def _show(base: str, head: str, stack: str) -> None:
    """What merging the commit changes in the stack, without asking any cluster."""
    from fleet.cli.commands.preview import print_plan
    from fleet.errors import PolicyError
    from fleet.preview.merge import of_merge

    try:
        run, about = of_merge(base, head, stacks=[stack])
    except PolicyError as problem:  # a machine without a sandbox shows no merges
        remark(f"what it would do is not shown: {problem.message}")
        return
    print_plan(run, "text", about=about)


def _said(stack: str, target: str, commit: str, branch: str, *, direct: bool, remote: Any) -> str:
    if not branch:
        return f"{stack} would go back to {target[:8]}; no branch was made"
    where = f"{branch} on {remote}" if remote else branch
    next_ = "the next sync of it applies it" if direct else "merge it, and the next sync applies it"
    return f"{stack} goes back to {target[:8]} with {commit[:8]} in {where}: {next_}"
