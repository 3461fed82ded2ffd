"""`fleet rollback`: a commit that takes a stack back to what it was at an earlier one. No cluster is touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from fleet.evaluate.result import Evaluation
    from fleet.git.refs import Address
    from fleet.git.repository import GitRepository
    from fleet.sync.rollout.rollback import Rollback, RollbackBase
    from fleet.sync.source import Commit, WorkingTree


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
    from fleet.git.merge import propose, set_branch, tip_of, user_identity
    from fleet.git.repository import GitRepository
    from fleet.git.status import destination
    from fleet.sync.rollout.rollback import rollback_message
    from fleet.sync.source import read_working_tree

    if direct and branch:
        raise click.UsageError("--direct is for the branch that is synced, --branch for another: not both")
    with read_working_tree() as files:
        git = files.git or GitRepository.find(files.repository.root)  # which says why there is none
    synced = files.repository.settings.git.branch
    remote = destination(git, files.repository.settings.git.remote)
    tip = tip_of(git, remote, synced)
    if tip is None:
        raise ConfigurationError(f"there is no branch {synced}", hint="[git] branch in fleet.toml says what is synced")
    history = _StackHistory(files, git, remote, stack, tip)
    target, difference = history.plan_rollback(to)
    for path in difference.left:
        print_message(f"left as it is, because other stacks read it too: {path}")
    changes = {history.prefix + path: content for path, content in difference.changes.items()}
    text = rollback_message(stack, target, git.resolve(target).subject, changes)
    commit = propose(git, tip, changes, text, identity=user_identity(git.root))
    name = synced if direct else branch or f"fleet/rollback-{stack}-{target[:8]}"
    if form == "text":
        _show_preview(tip, commit, stack)
    if not dry_run:
        set_branch(git, remote, commit, name, seen=tip if direct else None)
    emit_result(
        {"stack": stack, "to": target, "commit": commit, "branch": None if dry_run else name, "files": sorted(changes)},
        form,
        lambda: _describe_outcome(stack, target, commit, "" if dry_run else name, direct=direct, remote=remote),
    )
    return 0


@dataclass(frozen=True, slots=True)
class _StackHistory:
    """A stack on the synced branch, now and at earlier commits."""

    files: WorkingTree
    git: GitRepository
    remote: Address | None
    stack: str
    tip: str  # the newest commit of the synced branch

    @property
    def prefix(self) -> str:
        """Return the fleet's directory in the git repository, with a slash; "" for its root."""
        directory = self.files.repository.root.relative_to(self.git.root.resolve()).as_posix()
        return "" if directory == "." else f"{directory}/"

    def plan_rollback(self, revision: str | None) -> tuple[str, Rollback]:
        """Return the commit to go back to and what has to change; raise ConfigurationError if nothing has to."""
        from fleet.errors import ConfigurationError

        current = self._read_ground(self.tip)
        target = self.git.resolve(revision).id if revision else self._find_last_good(current)
        difference = self._compare(current, target)
        if not difference.changes:
            raise ConfigurationError(f"{self.stack} is as it was at {target[:8]}", hint="name another one with --to")
        return target, difference

    def _compare(self, current: RollbackBase, target: str) -> Rollback:
        from fleet.sync.rollout.rollback import roll_back_files

        earlier = self._read_ground(target)
        paths = current.own | current.shared | earlier.own | earlier.shared
        return roll_back_files(current, earlier, self._read_files(self.tip, paths), self._read_files(target, paths))

    def _find_last_good(self, current: RollbackBase) -> str:
        """Return the newest commit at which the stack was healthy with other files of its own than now."""
        from fleet.errors import NotFoundError
        from fleet.git.history import good_entries, read_history

        own = {self.prefix + path for path in current.own}
        for entry in good_entries(read_history(self.git, self.remote, self.tip), self.stack):
            if any(change.path in own for change in self.git.changes(entry.revision, self.tip)):
                return entry.revision
        raise NotFoundError(
            f"no earlier commit is known at which {self.stack} was well with other files than now",
            hint="this clone is shallow: git fetch --unshallow"
            if self.git.shallow
            else "`fleet history` shows what was synced; name a commit with --to",
        )

    def _read_ground(self, revision: str) -> RollbackBase:
        from fleet.sync.rollout.rollback import find_rollback_base

        with _evaluate(revision) as (files, evaluation):
            return find_rollback_base(evaluation, self.stack, frozenset(files.repository.cluster_files()))

    def _read_files(self, revision: str, paths: frozenset[str]) -> dict[str, bytes]:
        names = {self.prefix + path for path in paths}
        contents = self.git.tree(revision).read_all(matching=names.__contains__)
        return {path.removeprefix(self.prefix): content for path, content in contents.items()}


@contextmanager
def _evaluate(revision: str) -> Iterator[tuple[Commit, Evaluation]]:
    """Evaluate a commit anew: what each file reads is not part of a stored evaluation."""
    from fleet.evaluate import evaluate
    from fleet.sync.source import read_commit

    with read_commit(revision) as files:
        yield files, evaluate(files.repository).check()


def _show_preview(base: str, head: str, stack: str) -> None:
    """Print what merging the commit changes in the stack, without asking any cluster."""
    from fleet.cli.plans import print_plan
    from fleet.errors import PolicyError
    from fleet.preview.merge import preview_merge

    try:
        run, about = preview_merge(base, head, stacks=[stack])
    except PolicyError as error:  # a machine without a sandbox shows no merges
        print_message(f"what it would do is not shown: {error.message}")
        return
    print_plan(run, "text", about=about)


def _describe_outcome(stack: str, target: str, commit: str, branch: str, *, direct: bool, remote: Any) -> str:
    if not branch:
        return f"{stack} would go back to {target[:8]}; no branch was made"
    where = f"{branch} on {remote}" if remote else branch
    next_ = "the next sync of it applies it" if direct else "merge it, and the next sync applies it"
    return f"{stack} goes back to {target[:8]} with {commit[:8]} in {where}: {next_}"
