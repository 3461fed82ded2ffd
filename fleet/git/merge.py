"""Merge and commit without a checkout.

The files that a merge would bring, without a checkout: git merges two commits in its object store alone.

It does so in a repository of its own that is empty but for borrowing the clone's objects. So no configuration of the
clone, no attributes and no working tree take part, no driver is run, and whoever merges the same two commits elsewhere
gets the same tree. What comes out lies in the clone, reachable from nothing, and git forgets it in its own time.

A commit that a program proposes: made on top of another one without a checkout, and given a branch.

As with the status branch, nothing of the person's index, working tree or branches is touched; a branch that is there
already is moved only if it is still where it was seen.
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
from fleet.git.errors import from_stderr
from fleet.git.publish import FLEET, Changes, Edit, Identity, committed, fetched, swapped
from fleet.git.refs import Address
from fleet.git.repository import Commit, Repository

MOST_NAMES = 5
_NAME_BYTES = 128  # of most paths


def merged_tree(repository: Repository, base: Commit, head: Commit) -> str:
    """The id of the tree that `base` would have once `head` is merged; ConflictError where a person has to decide."""
    what = f"merge {head.short} into {base.short}"
    git = repository.git
    ancestor = git.run(what, "merge-base", "--is-ancestor", base.id, head.id, accept=(0, 1))
    if ancestor.status == 0:
        return head.tree  # as a fast-forward
    _check_size(git, head)
    with _apart(repository, what) as (aside, variables):
        done = aside.run(
            what,
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base.id, head.id,
            variables=variables, accept=(0, 1, 128, 129),
        )  # fmt: skip
    if done.status == 129:
        raise ConfigurationError(
            f"cannot {what}: this git cannot merge without a checkout", hint="install git 2.38 or newer"
        )
    if done.status == 128 and "unrelated histories" in done.stderr:
        hint = "git fetch --unshallow" if repository.shallow else "name two commits of one history"
        raise ConfigurationError(f"cannot {what}: they have no common ancestor here", hint=hint)
    if done.status == 128:
        raise from_stderr(what, done.stderr)
    tree, *names = [os.fsdecode(part) for part in done.stdout.split(b"\0") if part]
    if done.status == 1:
        files = sorted(set(names))
        more = f" and {len(files) - MOST_NAMES} more" if len(files) > MOST_NAMES else ""
        raise ConflictError(
            f"cannot {what}: both change {', '.join(map(repr, files[:MOST_NAMES]))}{more}",
            hint="merge or rebase the branch on its base, and preview it again",
        )
    return tree


def _check_size(git: Git, head: Commit) -> None:
    """A few objects can make a tree of any size, and where both sides differ a merge has all of it in memory."""
    most = git.limits.merged_files
    room = replace(git.limits, output_bytes=min(git.limits.output_bytes, most * _NAME_BYTES))
    listing = replace(git, limits=room).run(
        f"list the files of {head.short}", "ls-tree", "-r", "-z", "--name-only", "--full-tree", head.tree
    )
    if listing.stdout.count(b"\0") > most:
        raise ResourceError(f"{head.short} has more than {most} files, and is not merged")


@contextmanager
def _apart(repository: Repository, what: str) -> Iterator[tuple[Git, dict[str, str]]]:
    """git in a bare repository without refs, whose objects are the clone's; what it has to know of the clone is copied.

    That is the kind of its ids, where its history is cut off, and with whom its files are shared.
    """
    git = repository.git
    kind, _, common = git.run(what, "rev-parse", "--show-object-format", "--git-common-dir").text.partition("\n")
    theirs = (repository.root / common).resolve()
    shared = git.run(what, "config", "--get", "core.sharedRepository", accept=(0, 1)).text
    with TemporaryDirectory(prefix="fleet-merge-") as directory:
        own = Path(directory)
        for part in ("objects", "refs"):
            (own / part).mkdir()
        (own / "HEAD").write_text("ref: refs/heads/none\n")
        (own / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tattributesFile = /dev/null\n"
            + (f"\tsharedRepository = {shared}\n" if shared.isalnum() else "")
            # Without the name of a remote (there is none) what a partial clone lacks would be taken for empty.
            + f"[extensions]\n\tobjectFormat = {kind}\n\tpartialClone = none\n"
        )
        if (theirs / "shallow").is_file():
            (own / "shallow").write_bytes((theirs / "shallow").read_bytes())
        yield (
            replace(git, git_dir=own),
            {"GIT_OBJECT_DIRECTORY": str(theirs / "objects"), "GIT_ATTR_NOSYSTEM": "1"},
        )


def tip_of(repository: Repository, remote: Address | None, branch: str) -> str | None:
    """The commit that a branch has now, on the remote if there is one; None when there is no such branch."""
    ref = refs.branch(branch)
    with fetched(repository, remote, [ref]) as tips:
        tip = tips[ref]
        return tip.commit if tip else None


def propose(repository: Repository, base: str, changes: Changes, message: str, *, identity: Identity = FLEET) -> str:
    """A commit on `base` with these changes, that nothing points at yet; its id."""
    found = repository.resolve(base)
    made = committed(
        repository,
        "make the commit",
        tip=found.id,
        before=found.tree,
        changes=changes,
        message=message,
        who=identity,
    )
    return made or found.id


def give_branch(repository: Repository, remote: Address | None, commit: str, branch: str, *, seen: str | None) -> None:
    """Let a branch be at the commit: a new one, or one that is still at `seen`."""
    ref = refs.branch(branch)
    verdict = swapped(repository, remote, Edit(ref, "", lambda _: {}), seen, commit)
    if isinstance(verdict, FleetError):
        raise verdict
    if verdict == "lost":
        what = "was changed by somebody else meanwhile" if seen else "is there already"
        raise ConflictError(f"the branch {branch} {what}", hint="try again, or name another one with --branch")


def who(directory: Path) -> Identity:
    """The person whose git this is, as git would say in a commit; fleet itself where git knows nobody."""
    found = Git(directory).person()
    return Identity(*found) if found else FLEET
