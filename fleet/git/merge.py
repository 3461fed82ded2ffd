"""Merge and commit without a checkout.

A merge happens in the object store alone, in a repository of its own that is empty but for borrowing the clone's
objects. So no configuration of the clone, no attributes and no working tree take part, no driver is run, and everyone
who merges the same two commits gets the same tree. The result lies in the clone, reachable from nothing, and git
forgets it in its own time.

A commit that fleet proposes is made on top of another one in the same way, and given a branch. As with the status
branch, the user's index, working tree and branches are not touched; an existing branch is moved only if it is still
where it was seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.errors import ConfigurationError, ConflictError, FleetError, ResourceError
from fleet.git import refs
from fleet.git.command import Git
from fleet.git.errors import error_from_stderr
from fleet.git.publish import FLEET, Changes, Edit, Identity, fetch_tips, make_commit, swap_ref
from fleet.git.refs import Address
from fleet.git.repository import GitCommit, GitRepository

MOST_NAMES = 5
_NAME_BYTES = 128  # of most paths


def merged_tree(repository: GitRepository, base: GitCommit, head: GitCommit) -> str:
    """Return the id of the tree that `base` would have once `head` is merged; raise ConflictError for a conflict."""
    what = f"merge {head.short} into {base.short}"
    git = repository.git
    ancestor = git.run(what, "merge-base", "--is-ancestor", base.id, head.id, accept=(0, 1))
    if ancestor.status == 0:
        return head.tree  # as a fast-forward
    _check_size(git, head)
    with _isolated_git(repository, what) as (isolated, variables):
        result = isolated.run(
            what,
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base.id, head.id,
            variables=variables, accept=(0, 1, 128, 129),
        )  # fmt: skip
    if result.status == 129:
        raise ConfigurationError(
            f"cannot {what}: this git cannot merge without a checkout", hint="install git 2.38 or newer"
        )
    if result.status == 128 and "unrelated histories" in result.stderr:
        hint = "git fetch --unshallow" if repository.shallow else "name two commits of one history"
        raise ConfigurationError(f"cannot {what}: they have no common ancestor here", hint=hint)
    if result.status == 128:
        raise error_from_stderr(what, result.stderr)
    tree, *names = [os.fsdecode(part) for part in result.stdout.split(b"\0") if part]
    if result.status == 1:
        files = sorted(set(names))
        more = f" and {len(files) - MOST_NAMES} more" if len(files) > MOST_NAMES else ""
        raise ConflictError(
            f"cannot {what}: both change {', '.join(map(repr, files[:MOST_NAMES]))}{more}",
            hint="merge or rebase the branch on its base, and preview it again",
        )
    return tree


def _check_size(git: Git, head: GitCommit) -> None:
    """Refuse a tree with too many files.

    A few objects can make a tree of any size, and where both sides differ a merge has all of it in memory.
    """
    most = git.limits.merged_files
    room = replace(git.limits, output_bytes=min(git.limits.output_bytes, most * _NAME_BYTES))
    listing = replace(git, limits=room).run(
        f"list the files of {head.short}", "ls-tree", "-r", "-z", "--name-only", "--full-tree", head.tree
    )
    if listing.stdout.count(b"\0") > most:
        raise ResourceError(f"{head.short} has more than {most} files, and is not merged")


@contextmanager
def _isolated_git(repository: GitRepository, what: str) -> Iterator[tuple[Git, dict[str, str]]]:
    """Yield git in a bare repository without refs whose objects are the clone's, and the variables that make it so.

    What it has to know of the clone is copied: the kind of its ids, where its history is cut off, and with whom its
    files are shared.
    """
    git = repository.git
    kind, _, common = git.run(what, "rev-parse", "--show-object-format", "--git-common-dir").text.partition("\n")
    clone = (repository.root / common).resolve()
    shared = git.run(what, "config", "--get", "core.sharedRepository", accept=(0, 1)).text
    with TemporaryDirectory(prefix="fleet-merge-") as directory:
        isolated = Path(directory)
        for part in ("objects", "refs"):
            (isolated / part).mkdir()
        (isolated / "HEAD").write_text("ref: refs/heads/none\n")
        (isolated / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tattributesFile = /dev/null\n"
            + (f"\tsharedRepository = {shared}\n" if shared.isalnum() else "")
            # Without the name of a remote (there is none) what a partial clone lacks would be taken for empty.
            + f"[extensions]\n\tobjectFormat = {kind}\n\tpartialClone = none\n"
        )
        if (clone / "shallow").is_file():
            (isolated / "shallow").write_bytes((clone / "shallow").read_bytes())
        yield (
            replace(git, git_dir=isolated),
            {"GIT_OBJECT_DIRECTORY": str(clone / "objects"), "GIT_ATTR_NOSYSTEM": "1"},
        )


def tip_of(repository: GitRepository, remote: Address | None, branch: str) -> str | None:
    """Return the commit that a branch has now, on the remote if there is one; None when there is no such branch."""
    ref = refs.branch_ref(branch)
    with fetch_tips(repository, remote, [ref]) as tips:
        tip = tips[ref]
        return tip.commit if tip else None


def propose(repository: GitRepository, base: str, changes: Changes, message: str, *, identity: Identity = FLEET) -> str:
    """Make a commit on `base` with these changes, to which no ref points yet, and return its id."""
    base_commit = repository.resolve(base)
    commit_id = make_commit(
        repository,
        "make the commit",
        tip=base_commit.id,
        before=base_commit.tree,
        changes=changes,
        message=message,
        who=identity,
    )
    return commit_id or base_commit.id


def set_branch(
    repository: GitRepository, remote: Address | None, commit: str, branch: str, *, seen: str | None
) -> None:
    """Let a branch point at the commit: a new one, or one that is still at `seen`. Raises ConflictError otherwise."""
    ref = refs.branch_ref(branch)
    verdict = swap_ref(repository, remote, Edit(ref, "", lambda _: {}), seen, commit)
    if isinstance(verdict, FleetError):
        raise verdict
    if verdict == "lost":
        reason = "was changed by somebody else meanwhile" if seen else "is there already"
        raise ConflictError(f"the branch {branch} {reason}", hint="try again, or name another one with --branch")


def user_identity(directory: Path) -> Identity:
    """Return the user's identity as git would put it in a commit; fleet's own where git knows none."""
    person = Git(directory).person()
    return Identity(*person) if person else FLEET
