"""Which files of stacks have to be evaluated again after a commit, and what stays as it was. Pure.

Every file of stacks leaves a list of what it was made from (`Reads`): its own text, what it imported and read, the
directories that it listed. If none of that changed, nor the clusters, nor the settings, it would say the same again.
Whoever needs a stack that is evaluated again is evaluated again with it. What a file would have read had it been there
is in no list, so a file that comes or goes counts for all, unless it is one of stacks that nobody could have meant.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from fleet.evaluate.result import ClusterData, Evaluation, Reads, StackResult


@dataclass(frozen=True, slots=True)
class Before:
    """What is known from an earlier evaluation. It holds as long as the clusters are these."""

    clusters: tuple[ClusterData, ...]
    stacks: tuple[StackResult, ...]
    reads: tuple[Reads, ...]


def still_true(
    before: Evaluation, *, edited: Iterable[str], moved: Iterable[str], files: Collection[str], of_all: Collection[str]
) -> Before | None:
    """What of `before` holds after files were `edited` and others came or went (`moved`); None: nothing.

    `files` are the files of stacks that there are now, `of_all` what every one of them goes by: settings, packages.
    """
    edited, moved = set(edited), set(moved)
    if before.problems or before.foreign or not before.reads or not (edited | moved).isdisjoint(of_all):
        return None
    known = {one.file for one in before.reads}
    if any((path not in files and path not in known) or _may_be_meant(path, before.reads) for path in moved):
        return None
    unmoved = {one.file for one in before.reads if one.file in files and not _touched(one, edited | moved)}
    again = {one.name for one in before.stacks if one.source.file not in unmoved}
    while more := {one.name for one in before.stacks if one.name not in again and not again.isdisjoint(one.needs)}:
        unmoved -= {one.source.file for one in before.stacks if one.name in more}
        again = {one.name for one in before.stacks if one.source.file not in unmoved}
    return Before(
        before.clusters,
        tuple(one for one in before.stacks if one.source.file in unmoved),
        tuple(one for one in before.reads if one.file in unmoved),
    )


def _touched(one: Reads, changed: set[str]) -> bool:
    return one.file in changed or not changed.isdisjoint(one.files) or any(_listed(path, one) for path in changed)


def _listed(path: str, one: Reads) -> bool:
    return any(directory == "." or path.startswith(f"{directory}/") for directory in one.directories)


def _may_be_meant(path: str, reads: Iterable[Reads]) -> bool:
    """Whether an import of the same name could find this file now, or no longer."""
    name = PurePosixPath(path).stem
    names = {PurePosixPath(file).stem for one in reads for file in one.files if file != path}
    return name in sys.stdlib_module_names or name in names
