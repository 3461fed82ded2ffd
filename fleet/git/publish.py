"""Compare-and-swap writes of refs, so that no other writer's work is lost.

A writer reads the tip, edits its files, commits on it, and swaps the ref if it is still at that tip.

Plumbing only, with an index of its own: the user's index, working tree and branches stay as they are. Against a remote
the swap is a push with a lease, so that the server compares; without one it is `update-ref`.

A branch that a program writes grows for ever; `trim` cuts its history off and leaves its files as they are. The newest
files become a commit without parents, swapped in only if no other writer was faster. Another writer finds the cut
branch at its next try: it reads the tip before it writes.
"""

from __future__ import annotations

import fcntl
import hashlib
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.errors import AccessError, ConfigurationError, FleetError, ResourceError
from fleet.git import refs
from fleet.git.errors import error_from_stderr
from fleet.git.objects import Objects, Snapshot
from fleet.git.refs import Address
from fleet.git.repository import GitRepository
from fleet.text import without_credentials

Changes = Mapping[str, bytes | None]
"""What to write by path; None removes the file."""

_LOST_RACE = re.compile(
    r"stale info|fetch first|non-fast-forward|needs force|failed to (update|lock)|cannot lock ref|unable to lock"
    r"|incorrect old value|already exists|is at [0-9a-f]+ but expected"
)
_IN_THE_WAY = re.compile(r"exists; cannot create|directory/file conflict|D/F conflict")


@dataclass(frozen=True, slots=True)
class Identity:
    """Author of a commit. The status branch is written by a program, and says so."""

    name: str = "fleet"
    email: str = "fleet@localhost"

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that give this identity to git."""
        return {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", self.name), ("EMAIL", self.email))
        }


FLEET = Identity()


@dataclass(frozen=True, slots=True)
class Edit:
    """New content of one ref. `decide` gets the newest files (None: no ref yet), and again after each lost race."""

    ref: str
    message: str
    decide: Callable[[Snapshot | None], Changes]


@dataclass(slots=True)
class Published:
    """The refs that got a new commit; one that is missing needed none."""

    commits: dict[str, str] = field(default_factory=dict)
    attempts: int = 0

    def __bool__(self) -> bool:
        return bool(self.commits)


def publish(
    repository: GitRepository,
    remote: Address | None,
    edits: Sequence[Edit],
    *,
    identity: Identity = FLEET,
    seconds: float = 60,
) -> Published:
    """Bring every ref to what its edit decides, in one push if no other writer interferes; raise the first refusal."""
    for edit in edits:
        refs.ref(edit.ref)
    result, refusals = Published(), list[FleetError]()
    pending, deadline = list(edits), time.monotonic() + seconds
    while pending:
        result.attempts += 1
        with fetch_tips(repository, remote, [edit.ref for edit in pending]) as tips:
            proposed = [
                proposal for edit in pending if (proposal := _propose(repository, tips[edit.ref], edit, identity))
            ]
        if not proposed:
            break
        swap = _push_refs if remote else _update_refs
        outcome = swap(repository, remote, proposed)
        pending = [proposal.edit for proposal in proposed if outcome[proposal.edit.ref] == "lost"]
        for proposal in proposed:
            verdict = outcome[proposal.edit.ref]
            if isinstance(verdict, FleetError):
                refusals.append(verdict)
            elif verdict == "done":
                result.commits[proposal.edit.ref] = proposal.commit
        if pending and time.monotonic() > deadline:
            raise ResourceError(
                f"{pending[0].ref} is not written: other writers were faster for {seconds:g} s",
                hint="the next sync writes it",
            )
        if pending:  # full jitter: writers that met once should not meet again
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2**result.attempts)))  # noqa: S311
    if refusals:
        raise refusals[0]
    return result


@contextmanager
def fetch_tips(
    repository: GitRepository, remote: Address | None, refs: Sequence[str], *, fresh: bool = True
) -> Iterator[dict[str, Snapshot | None]]:
    """Yield the newest files of every ref, None where there is no such ref; fetched when they are a remote's.

    Not `fresh`: as they were when they were last fetched here, and None where they never were.
    """
    local_refs = {ref: ref if remote is None else _tracking_ref(remote, ref) for ref in refs}
    if remote is not None and fresh:
        # A pattern that matches nothing is not an error as a missing name is, and with --prune it also forgets.
        specs = [f"+{ref}*:{local_ref}*" for ref, local_ref in local_refs.items()]
        with _FetchLock(repository):
            repository.git.run(
                f"fetch the status from {remote}",
                "fetch", "--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                "--no-auto-maintenance", "--end-of-options", remote.url, *specs,
                protocol=remote.protocol,
            )  # fmt: skip
    with repository.objects("read the refs") as objects:
        yield {ref: _snapshot(objects, local_ref, ref, repository) for ref, local_ref in local_refs.items()}


def _snapshot(objects: Objects, local_ref: str, ref: str, repository: GitRepository) -> Snapshot | None:
    return Snapshot.of(objects, local_ref, repository.limits, title=ref)


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A commit that is made and not yet swapped in."""

    edit: Edit
    tip: str | None
    commit: str


_Verdict = str | FleetError  # "done", "lost", or why it was refused


def _propose(repository: GitRepository, old: Snapshot | None, edit: Edit, identity: Identity) -> _Proposal | None:
    """Make a commit on the tip with the edit's changes; return None when there is nothing to change."""
    changes = edit.decide(old)
    if not changes:
        return None
    tip = old.commit if old else None
    before, what = old.tree if old else "", f"write {edit.ref}"
    commit_id = make_commit(
        repository, what, tip=tip, before=before, changes=changes, message=edit.message, who=identity
    )
    return _Proposal(edit, tip, commit_id) if commit_id else None


def make_commit(
    repository: GitRepository, what: str, *, tip: str | None, before: str, changes: Changes, message: str, who: Identity
) -> str | None:
    """Make a commit on `tip` (with the tree `before`) to which no ref points yet; return None when nothing changes."""
    git = repository.git
    with TemporaryDirectory(prefix="fleet-index-") as scratch:
        own_index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        git.run(what, "read-tree", *([tip] if tip else ["--empty"]), variables=own_index)
        git.run(
            what, "update-index", "-z", "--add", "--replace", "--index-info",
            stdin=_index_lines(changes, _store_contents(repository, what, changes, Path(scratch))), variables=own_index,
        )  # fmt: skip
        tree = git.run(what, "write-tree", variables=own_index).text
    if tree == before:
        return None
    parents = ["-p", tip] if tip else []
    message_bytes = message.encode()
    return git.run(what, "commit-tree", tree, *parents, "-F", "-", stdin=message_bytes, variables=who.variables).text


def swap_ref(repository: GitRepository, remote: Address | None, edit: Edit, seen: str | None, commit: str) -> _Verdict:
    """Move the edit's ref from the tip that was seen to a commit that exists already."""
    swap = _push_refs if remote else _update_refs
    return swap(repository, remote, [_Proposal(edit, seen, commit)])[edit.ref]


def _store_contents(repository: GitRepository, what: str, changes: Changes, scratch: Path) -> dict[str, str]:
    """Put the contents into the object database; return path → id.

    Many become one pack: a sync to disk for each is slow.
    """
    contents = [(path, content) for path, content in changes.items() if content is not None]
    stream = b"".join(
        b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(content), content)
        for mark, (_, content) in enumerate(contents, 1)
    )
    marks = scratch / "marks"
    repository.git.run(what, "fast-import", "--quiet", "--done", f"--export-marks={marks}", stdin=stream + b"done\n")
    ids = dict(line.split(" ") for line in marks.read_text().splitlines())
    return {path: ids[f":{mark}"] for mark, (path, _) in enumerate(contents, 1)}


def _index_lines(changes: Changes, ids: Mapping[str, str]) -> bytes:
    width = len(next(iter(ids.values()), "0" * 40))
    lines = [
        f"100644 {ids[path]}\t{path}\0" if content is not None else f"0 {'0' * width}\t{path}\0"
        for path, content in changes.items()
    ]
    return "".join(sorted(lines)).encode()  # removals ("0 …") first: a file may take a directory's place


def _push_refs(repository: GitRepository, remote: Address | None, proposed: Sequence[_Proposal]) -> dict[str, _Verdict]:
    assert remote is not None  # noqa: S101
    leases = [f"--force-with-lease={proposal.edit.ref}:{proposal.tip or ''}" for proposal in proposed]
    what = f"push the status to {remote}"
    result = repository.git.run(
        what,
        "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", *leases,
        "--end-of-options", remote.url, *(f"{proposal.commit}:{proposal.edit.ref}" for proposal in proposed),
        protocol=remote.protocol, accept=(0, 1),
    )  # fmt: skip
    reports = dict(_push_reports(result.lines))
    if result.status and not reports:
        raise error_from_stderr(what, result.stderr)
    return {
        proposal.edit.ref: _verdict_of(proposal.edit.ref, remote, reports.get(proposal.edit.ref), result.stderr)
        for proposal in proposed
    }


def _push_reports(output_lines: Sequence[str]) -> list[tuple[str, tuple[str, str]]]:
    """Read `git push --porcelain`: ref → (flag, summary)."""
    lines = [line.split("\t", 2) for line in output_lines if line.count("\t") >= 2]
    return [(pair.rpartition(":")[2], (flag.strip(), summary)) for flag, pair, summary in lines]


def _verdict_of(ref: str, remote: Address, report: tuple[str, str] | None, stderr: str) -> _Verdict:
    flag, summary = report or ("!", "the remote did not answer for it")
    if flag != "!":
        return "done"
    if _IN_THE_WAY.search(summary) or _IN_THE_WAY.search(stderr):
        return ConfigurationError(
            f"{ref} cannot be made on {remote}: another branch is in the way of its name",
            hint="choose another status branch in fleet.toml, or rename that branch",
        )
    if _LOST_RACE.search(summary):
        return "lost"
    remote_lines = " ".join(line[8:].strip() for line in stderr.splitlines() if line.startswith("remote: "))
    reason = without_credentials(f"{summary} {remote_lines}".strip())[:400]
    return AccessError(
        f"{remote} refused {ref}: {''.join(letter if letter.isprintable() else ' ' for letter in reason)}",
        hint=f"allow this writer to push to {ref} (branch protection, hooks, deploy key with write access)",
    )


def _update_refs(
    repository: GitRepository, remote: Address | None, proposed: Sequence[_Proposal]
) -> dict[str, _Verdict]:
    assert remote is None  # noqa: S101
    busy = repository.checked_out()
    return {proposal.edit.ref: _update_ref(repository, proposal, busy) for proposal in proposed}


def _update_ref(repository: GitRepository, proposal: _Proposal, busy: frozenset[str]) -> _Verdict:
    ref = proposal.edit.ref
    if ref in busy:
        return ConfigurationError(
            f"{ref} is checked out here, and fleet does not write to a branch that is checked out",
            hint="switch to another branch",
        )
    result = repository.git.run(
        f"write {ref}",
        "update-ref",
        "-m",
        "fleet: status",
        ref,
        proposal.commit,
        proposal.tip or "",
        accept=(0, 1, 128),
    )
    if result.status == 0:
        return "done"
    if _IN_THE_WAY.search(result.stderr):
        return ConfigurationError(
            f"{ref} cannot be made: another branch is in the way of its name",
            hint="choose another status branch in fleet.toml, or rename that branch",
        )
    return "lost" if _LOST_RACE.search(result.stderr) else error_from_stderr(f"write {ref}", result.stderr)


def _tracking_ref(remote: Address, ref: str) -> str:
    """Return where a remote's ref is kept here: a place of our own, that no branch listing shows."""
    key = hashlib.sha256(remote.url.encode()).hexdigest()[:16]
    return f"refs/fleet/{key}/{ref.removeprefix('refs/')}"


class _FetchLock:
    """Lock of a clone's fetches: two fetches into the same refs would fail on each other's locks."""

    def __init__(self, repository: GitRepository) -> None:
        common = repository.git.run("find the repository", "rev-parse", "--git-common-dir").text
        self._path = repository.root / common / "fleet.lock"

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


MOST_COMMITS = 2000  # commits


def trim(
    repository: GitRepository, remote: Address | None, ref: str, *, most: int = MOST_COMMITS, identity: Identity = FLEET
) -> bool:
    """Cut the branch if it has more than `most` commits; return False if it has not or another writer was faster."""
    with fetch_tips(repository, remote, [ref]) as tips:
        tip = tips[ref]
    if tip is None:
        return False
    git, what = repository.git, f"shorten {ref}"
    if int(git.run(what, "rev-list", "--count", f"--max-count={most + 1}", tip.commit).text) <= most:
        return False
    message = f"As of {tip.commit[:12]}; what was before it is cut off\n"
    commit = git.run(
        what, "commit-tree", tip.tree, "-F", "-", stdin=message.encode(), variables=identity.variables
    ).text
    return swap_ref(repository, remote, Edit(ref, message, lambda files: {}), tip.commit, commit) == "done"
