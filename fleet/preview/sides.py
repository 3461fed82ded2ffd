"""The two sides of a preview, from git's objects: nothing is checked out, and nothing that is not committed counts.

The head is taken as the merge would be, so what others changed on the base meanwhile is no change of it. Settings and
policy are the base's: a pull request cannot loosen the rules that it is judged by. Its code is that of others, whatever
the settings say: nobody has approved it yet.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.errors import FleetError
from fleet.git.merge import merged_tree
from fleet.git.repository import Commit
from fleet.git.tree import Tree
from fleet.repository import Code, Repository, Settings, Trust, find_root
from fleet.repository.read import FILE
from fleet.sync.source import Files, commit


@dataclass(frozen=True, slots=True)
class Sides:
    base: Files
    merged: Repository  # the files after the merge: with the settings of the base, and never trusted
    before: Commit
    head: Commit
    tree: str  # git's id of the files after the merge
    remarks: tuple[str, ...] = ()


@contextmanager
def sides(base: str, head: str, start: Path | None = None, *, known: Files | None = None) -> Iterator[Sides]:
    """For as long as the block lasts. `known` is the base where somebody has it: of a mirror, without a clone."""
    with nullcontext(known) if known else commit(base, start, known=True) as files:
        git = files.git
        assert git is not None  # noqa: S101 - a commit is of one
        before, after = git.resolve(base), git.resolve(head)
        tree = Tree(git.git, merged_tree(git, before, after), f"{after.short} merged into {before.short}")
        below = Path(known.below) if known else find_root(start).relative_to(git.root.resolve())
        inside = () if below == Path() else (below.as_posix(),)
        with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
            root = Path(directory) / "tree"
            tree.materialise(root, *inside)
            settings = files.repository.settings
            locked = _locked(Tree(git.git, before.tree, before.id), (below / settings.paths.lock).as_posix())
            others = replace(settings, trust=Trust(Code.OTHERS))
            merged = Repository.at(root / below, settings=others, locked=locked)
            remarks = (*_settings_changed(merged.root, settings), *_lock_changed(merged))
            yield Sides(files, merged, before, after, tree.id, remarks)


def _locked(base: Tree, path: str) -> str:
    """The base's lockfile: a pull request does not choose which packages run in its own preview."""
    content = {file.path: file for file in base.files(path)}
    return base.read(path).decode(errors="replace") if path in content else ""


def _lock_changed(merged: Repository) -> tuple[str, ...]:
    file = merged.root / merged.settings.paths.lock
    text = file.read_bytes().decode(errors="replace") if file.is_file() else ""
    if text == merged.locked:
        return ()
    return (f"{merged.settings.paths.lock} changes too; this preview is made with the packages of the base",)


def _settings_changed(root: Path, before: Settings) -> tuple[str, ...]:
    try:
        same = Repository.at(root).settings == before
    except FleetError as problem:
        return (f"{FILE} would be wrong after the merge: {problem.message}",)
    return () if same else (f"{FILE} changes too; this preview is made with the settings of the base",)
