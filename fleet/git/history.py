"""The commits that a branch consisted of, one after the other: what was merged is part of the commit that merged it."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.git.repository import Commit, Repository


@dataclass(frozen=True, slots=True)
class Past:
    """A commit that the branch once ended in. `tree` is that of the directory asked for, "" if it had none."""

    commit: str
    tree: str
    subject: str

    @property
    def title(self) -> str:
        return f"{self.commit[:8]} {self.subject}".strip()


def first_parents(repository: Repository, revision: Commit, below: str = "", *, most: int) -> tuple[Past, ...]:
    """The newest `most` of them, the oldest first."""
    listed = repository.git.run(
        f"read the history of {revision.short}",
        "rev-list", "--first-parent", f"--max-count={most}", "--no-commit-header", "--format=%H %T %s",
        "--end-of-options", revision.id,
    )  # fmt: skip
    found = [Past(*line.split(" ", 2)) for line in listed.lines]
    if below:
        with repository.objects(f"read the history of {revision.short}") as objects:
            trees = [objects.find(f"{one.tree}:{below}") for one in found]
        found = [
            Past(one.commit, tree.id if tree and tree.kind == "tree" else "", one.subject)
            for one, tree in zip(found, trees, strict=True)
        ]
    return tuple(reversed(found))


def parent(repository: Repository, commit: Commit) -> str:
    """The commit's first parent, "" when it is the first of all."""
    listed = repository.git.run(
        f"read the history of {commit.short}",
        "rev-list", "--first-parent", "--max-count=1", "--skip=1", "--end-of-options", commit.id,
    )  # fmt: skip
    return listed.text
