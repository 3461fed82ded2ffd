"""The files that a merge would bring, without a checkout: git merges two commits in its object store alone.

No hook, no filter and no working tree takes part; the tree that comes out is reachable from nothing, and git forgets it
in its own time.
"""

from __future__ import annotations

import os

from fleet.errors import ConfigurationError, ConflictError
from fleet.git.failure import from_stderr
from fleet.git.repository import Commit, Repository

MOST_NAMES = 5


def merged_tree(repository: Repository, base: Commit, head: Commit) -> str:
    """The id of the tree that `base` would have once `head` is merged; ConflictError where a person has to decide."""
    what = f"merge {head.short} into {base.short}"
    git = repository.git
    ancestor = git.run(what, "merge-base", "--is-ancestor", base.id, head.id, accept=(0, 1))
    if ancestor.status == 0:
        return head.tree  # as a fast-forward
    done = git.run(
        what,
        "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base.id, head.id,
        accept=(0, 1, 128, 129),
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
