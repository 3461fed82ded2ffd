"""Rendered sets out of git and into it: one branch per cluster, each commit on the one before, never by force.

Whoever writes has read the commit that it follows. If somebody else was faster, nothing is written: what a cluster may
have was worked out from what it had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from fleet.errors import ConfigurationError, ResourceError
from fleet.git import names
from fleet.git.names import Address
from fleet.git.objects import Snapshot
from fleet.git.publication import Changes, Edit, Published, fetched, publish
from fleet.git.repository import Repository
from fleet.git.status import clean
from fleet.rendered.form import INDEX, check_set, encode, path, read_index, read_stack
from fleet.rendered.model import Part, RenderedSet

TRAILER = "Source: "


def branch_of(prefix: str, cluster: str) -> str:
    return f"{prefix}/{cluster}"


def read_set(tip: Snapshot, cluster: str, before: RenderedSet | None = None) -> RenderedSet:
    """The set at a commit. What `before` has of it already is not read again."""
    files = tip.files()
    if INDEX not in files:
        raise ConfigurationError(f"{tip.ref} has no {INDEX}", hint="is it a branch that `fleet render --push` writes?")
    index = read_index(tip.read(INDEX), tip.ref, cluster)
    ids = {one.stack: files.get(path(one.stack), "") for one in index.stacks}
    known = {(stack, before.blobs[stack]): one for stack, one in before.stacks.items()} if before else {}
    stacks = {
        stack: known.get((stack, blob)) or read_stack(tip.read(path(stack)), tip.ref, stack)
        for stack, blob in ids.items()
        if blob
    }
    if missing := [stack for stack in ids if stack not in stacks]:
        raise ConfigurationError(f"{tip.ref} has no {path(missing[0])}, which its {INDEX} names")
    return check_set(RenderedSet(index, stacks, tip.commit, ids), files, tip.ref)


def read_sets(
    repository: Repository, remote: Address | None, prefix: str, clusters: Iterable[str]
) -> dict[str, RenderedSet]:
    """By cluster, those that were ever rendered."""
    refs = {names.branch(branch_of(prefix, cluster)): cluster for cluster in clusters}
    if not refs:
        return {}
    with fetched(repository, remote, list(refs)) as tips:
        return {refs[ref]: read_set(tip, refs[ref]) for ref, tip in tips.items() if tip is not None}


def write_sets(
    repository: Repository,
    remote: Address | None,
    prefix: str,
    sets: Collection[RenderedSet],
    before: Mapping[str, RenderedSet],
) -> Published:
    """All of them in one push; a set that is what its branch has makes no commit."""
    edits = [_edit(prefix, one, before.get(one.index.cluster)) for one in sets]
    return publish(repository, remote, edits)


def _edit(prefix: str, one: RenderedSet, before: RenderedSet | None) -> Edit:
    cluster, index = one.index.cluster, one.index

    def decide(tip: Snapshot | None) -> Changes:
        if (tip.commit if tip else "") != (before.commit if before else ""):
            raise ResourceError(
                f"{branch_of(prefix, cluster)} was written by somebody else meanwhile; nothing was pushed",
                hint="run it again: it starts from what is there now",
            )
        files, old = encode(one), encode(before) if before else {}
        changed: dict[str, bytes | None] = {name: text for name, text in files.items() if old.get(name) != text}
        return {**changed, **dict.fromkeys(old.keys() - files.keys())}

    words = f"{cluster}: {index.revision[:8]} {clean(index.subject, 80)}".strip()
    return Edit(names.branch(branch_of(prefix, cluster)), f"{words}\n\n{TRAILER}{index.revision}\n", decide)


def sources(repository: Repository, commit: str) -> frozenset[str]:
    """The commits that were rendered on the way to this one, by the messages of its branch."""
    listed = repository.git.run(
        "read what was rendered", "log", "--first-parent", "--no-notes", "--format=%B", "--end-of-options", commit
    )
    lines = (line.strip() for line in listed.text.splitlines())
    return frozenset(line.removeprefix(TRAILER) for line in lines if line.startswith(TRAILER))


def given_at(repository: Repository, commit: str, part: Part) -> float | None:
    """When a stack of the set at this commit got the objects that it has there, by the branch's own history."""
    found = repository.git.run(
        "read what was rendered",
        "log", "--first-parent", "--no-notes", "--max-count=1", "--format=%ct", f"-S{part.content}",
        "--end-of-options", commit, "--", INDEX,
    )  # fmt: skip
    return float(found.text) if found.text.strip() else None
