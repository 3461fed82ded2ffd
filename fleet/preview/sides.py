"""The two sides of a preview, from git's objects: nothing is checked out, and nothing that is not committed counts.

The head is taken as the merge would be, so what others changed on the base meanwhile is no change of it. Settings and
policy are the base's: a pull request cannot loosen the rules that it is judged by.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.git.merge import merged_tree
from fleet.git.repository import Commit
from fleet.git.tree import Tree
from fleet.repository import Repository, find_root
from fleet.repository.read import FILE
from fleet.sync.source import Files, commit


@dataclass(frozen=True, slots=True)
class Sides:
    base: Files
    merged: Repository  # the files after the merge, with the settings of the base
    before: Commit
    head: Commit
    tree: str  # git's id of the files after the merge
    remarks: tuple[str, ...] = ()


@contextmanager
def sides(base: str, head: str, start: Path | None = None) -> Iterator[Sides]:
    """For as long as the block lasts."""
    with commit(base, start, known=True) as files:
        git = files.git
        assert git is not None  # noqa: S101 - a commit is of one
        before, after = git.resolve(base), git.resolve(head)
        tree = Tree(git.git, merged_tree(git, before, after), f"{after.short} merged into {before.short}")
        below = find_root(start).relative_to(git.root.resolve())
        inside = () if below == Path() else (below.as_posix(),)
        with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
            root = Path(directory) / "tree"
            tree.materialise(root, *inside)
            merged = Repository.at(root / below, settings=files.repository.settings)
            yield Sides(files, merged, before, after, tree.id, _settings_changed(merged))


def _settings_changed(merged: Repository) -> tuple[str, ...]:
    try:
        same = Repository.at(merged.root).settings == merged.settings
    except FleetError as problem:
        return (f"{FILE} would be wrong after the merge: {problem.message}",)
    return () if same else (f"{FILE} changes too; this preview is made with the settings of the base",)
