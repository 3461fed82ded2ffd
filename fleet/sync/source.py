"""The commit of a run: files, signature, evaluation.

Which files a run reads: the working tree for looking, a commit for applying, never a mix of the two.

Whether a commit comes from somebody who may say what clusters look like.

What the stacks of some files want: as remembered, or by evaluating them.

What may be applied is evaluated twice, so that code whose result depends on chance or on the hour is told of before it
changes anything; and so whatever is remembered was found to be the same twice. Of a new commit only those files are
evaluated that can mean something else than in the newest commit before it that is remembered.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.evaluate.result import Evaluation
from fleet.git import refs
from fleet.git.repository import Commit, Dirt
from fleet.git.repository import Repository as Git
from fleet.git.signature import verify_signature
from fleet.git.status_records import clean
from fleet.git.tree import Tree
from fleet.repository import Repository, find_root
from fleet.repository.repository import repository_identity
from fleet.repository.settings import Git as GitSettings
from fleet.repository.settings import Settings

if TYPE_CHECKING:
    from fleet.evaluate.cache import CachedEvaluation
    from fleet.evaluate.evaluation import PreviousEvaluation

NO_FILES = Path(os.devnull) / "remembered"  # no directory, and none can be made there


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory to evaluate. `revision` is the commit's id, "" for the working tree."""

    repository: Repository
    revision: str = ""
    subject: str = ""
    git: Git | None = None
    remarks: tuple[str, ...] = ()  # what a person should know of the choice
    identity: str = ""  # of the repository, see fleet.repository.repository
    remotes: Mapping[str, str] = field(default_factory=dict)  # name → address
    tree: str = ""  # the id that git has for all the files together; "" for the working tree
    below: str = ""  # where in git's tree they lie, "" at its top
    remembered: Evaluation | None = None  # then the files themselves are not there: nobody needs them
    outside: str = ""  # why it is no commit of the branch that fleet.toml says is synced; "" if it is, or may be

    @property
    def title(self) -> str:
        return f"{self.revision[:8]} {self.subject}".strip() if self.revision else "the working tree"


@contextmanager
def read_working_tree(start: Path | None = None) -> Iterator[Checkout]:
    """The files as they lie there, committed or not."""
    repository = Repository.find(start)
    git = _git_of(repository.root)
    remotes = git.remotes() if git else {}
    identity = _identity(repository.settings, git, repository.root, remotes)
    yield Checkout(repository, git=git, identity=identity, remotes=remotes)


@contextmanager
def read_commit(revision: str = "HEAD", start: Path | None = None, *, known: bool = False) -> Iterator[Checkout]:
    """The files of a commit, settings included; the working tree only tells which repository is meant.

    With `known`, what was evaluated before is taken from memory, and then there are no files.
    """
    here = find_root(start)
    git = Git.find(here)
    found = git.resolve(revision)
    below = here.relative_to(git.root.resolve())
    tree = found.tree if below == Path() else git.subtree(found, below.as_posix())
    with _files(git, found, below, tree if known else "") as (repository, remembered):
        dirt = git.dirt() if revision == "HEAD" else Dirt()
        outside, unsure = _outside(git, found, repository.settings.git, dirt.branch)
        about = [
            _uncommitted(dirt, below.as_posix(), found.short),
            unsure or _unpushed(git, found, repository.settings.git, elsewhere=bool(outside)),
        ]
        remotes = git.remotes()
        identity = _identity(repository.settings, git, here, remotes)
        inside = "" if below == Path() else below.as_posix()
        yield Checkout(
            repository,
            found.id,
            found.subject,
            git,
            tuple(filter(None, about)),
            identity,
            remotes,
            tree,
            inside,
            remembered,
            outside,
        )


def check_branch(files: Checkout, *, any_branch: bool) -> tuple[str, ...]:
    """All that a person should know of the choice, before it is applied.

    Raises ConfigurationError when it is a commit of another branch than the synced one, without `any_branch`.
    """
    if not files.outside:
        return files.remarks
    usual = files.repository.settings.git.branch
    if not any_branch:
        raise ConfigurationError(
            f"{files.outside}, and fleet.toml says that {usual} is synced",
            hint=f"git switch {usual}; or apply it all the same with --any-branch: {usual} is then refused as "
            "rewritten until it has these commits. If another branch is meant for good, say so under [git] branch",
        )
    after = f"{usual} will be refused as rewritten until it has {files.revision[:8]}"
    return (*files.remarks, f"{files.outside}: {after}")


@contextmanager
def _files(git: Git, found: Commit, below: Path, tree: str) -> Iterator[tuple[Repository, Evaluation | None]]:
    """From memory, or in a directory for as long as the block lasts."""
    from fleet.evaluate.cache import load_evaluation  # noqa: PLC0415 - not for those who only look at the working tree

    remembered = load_evaluation(tree, whole=True) if tree else None
    if remembered is not None:
        yield Repository(NO_FILES, remembered.settings), remembered.evaluation
        return
    inside = () if below == Path() else (below.as_posix(),)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        Tree(git.git, found.tree, found.id).materialise(Path(directory) / "tree", *inside)
        yield Repository.at(Path(directory) / "tree" / below), None


def _git_of(root: Path) -> Git | None:
    try:
        return Git.find(root)
    except FleetError:
        return None


def _identity(settings: Settings, git: Git | None, directory: Path, remotes: Mapping[str, str]) -> str:
    """By the settings that are read; `directory` is where they lie in the person's clone."""
    name = settings.fleet.name
    if name or git is None:
        return name
    below = directory.relative_to(git.root.resolve()).as_posix()
    try:
        address = refs.address(remotes[settings.git.remote], by_person=True)
    except (KeyError, FleetError):  # a remote that is never talked to: its address is of no use
        address = None
    if address is None:
        return repository_identity("", first_commit=_first_commit(git), below=below)
    url = address.url
    if address.protocol == "file" and "://" not in url:
        url = str(git.root.resolve() / url)  # `../fleet.git` is not the same one elsewhere
    return repository_identity("", remote=url, below=below)


def _first_commit(git: Git) -> str:
    """ "" where it cannot be known: there is no commit yet, or the clone is shallow."""
    if git.shallow:
        return ""
    found = git.git.run("find the first commit", "rev-list", "--max-parents=0", "HEAD", accept=(0, 128))
    return min(found.text.split(), default="") if found.status == 0 else ""


def _outside(git: Git, found: Commit, settings: GitSettings, branch: str | None) -> tuple[str, str]:
    """Return why the commit is not of the synced branch, or what is to be said where this clone cannot know.

    `branch` is the one that HEAD is on. A commit without one, which the user names or CI checks out, is of the synced
    branch if that has it, here or as the remote last had it.
    """
    if branch:
        return ("" if branch == settings.branch else f"this is the branch {branch}"), ""
    tips = set(_tips(git, settings).values())
    if any(not git.outside([found.id], tip) for tip in tips):
        return "", ""
    if git.shallow or not tips:
        why = "is shallow" if git.shallow else "does not have it"
        return "", f"not known whether {found.short} is on the branch {settings.branch}: this clone {why}"
    return f"{found.short} is not on the branch {settings.branch}", ""


def _unpushed(git: Git, found: Commit, settings: GitSettings, *, elsewhere: bool) -> str:
    """Return the commits that the remote's branch does not have, as this clone knows it; `elsewhere`: any branch."""
    remote = f"refs/remotes/{settings.remote}/{settings.branch}"
    if _tips(git, settings).get(remote) in (None, found.id):
        return ""
    there = ("--not", f"--remotes={settings.remote}") if elsewhere else (f"^{remote}",)
    listed = git.git.run("compare with the remote", "log", "--format=%h %s", "--abbrev=8", found.id, *there).text
    commits = [clean(line, 80) for line in listed.splitlines()]
    if not commits:
        return ""
    named = ", ".join(commits[:3]) + (f" and {len(commits) - 3} more" if len(commits) > 3 else "")
    return f"not pushed to {settings.remote}, so others cannot go on from it: {named}"


def _tips(git: Git, settings: GitSettings) -> dict[str, str]:
    """The branch that is synced, here and as the remote last had it, each with its commit, as far as there is one."""
    refs = (f"refs/heads/{settings.branch}", f"refs/remotes/{settings.remote}/{settings.branch}")
    listed = git.git.run("find the branch", "for-each-ref", "--format=%(refname) %(objectname)", *refs).text
    tips = dict(line.split(" ") for line in listed.splitlines())
    return {ref: tips[ref] for ref in refs if ref in tips}


def _uncommitted(dirt: Dirt, below: str, short: str) -> str:
    files = [name for name in (*dirt.changed, *dirt.untracked) if below == "." or name.startswith(f"{below}/")]
    if not files:
        return ""
    names = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"not committed, so not part of this sync of {short}: {names}"


def check_signature(git: Git, revision: str, signers: Path) -> str:
    """Raise PolicyError unless the commit is signed by one of them; before anything of it is evaluated."""
    return verify_signature(git, git.resolve(revision), signers)


PAST = 5  # commits that are asked for, from the newest


def evaluate_checkout(files: Checkout, stacks: Sequence[str]) -> Evaluation:
    """Without problems: those are raised. With names, only those stacks."""
    if files.remembered is not None:
        return select_clusters(files.remembered, stacks)
    from fleet.evaluate.pool import Pool  # noqa: PLC0415 - this and what follows is needed only now

    twice = bool(files.tree)
    with Pool(twice=twice) as pool:
        from fleet.evaluate.evaluation import evaluate  # noqa: PLC0415 - while the pool warms up

        remembered, before = _before(files) if twice else (None, None)
        names = list(stacks) or None
        evaluation = evaluate(files.repository, stacks=names, pool=pool, twice=twice, before=before).check()
    if files.tree and not stacks:
        from fleet.evaluate.cache import store_evaluation  # noqa: PLC0415

        store_evaluation(files.tree, files.repository.settings, evaluation, remembered)
    return evaluation


def select_clusters(evaluation: Evaluation, names: Sequence[str]) -> Evaluation:
    """As if only these stacks had been asked for."""
    known = {one.name for one in evaluation.stacks}
    for name in names:
        if name not in known:
            from fleet.suggestion import suggestion  # noqa: PLC0415 - only on the way to an error

            raise NotFoundError(f"there is no stack {name!r}", hint=suggestion(name, known) or "there are none")
    if not names:
        return evaluation
    return replace(evaluation, stacks=tuple(one for one in evaluation.stacks if one.name in names))


def open_checkout(
    git: Git, before: Evaluation, repository: Repository, *, base: str, head: str, below: str = ""
) -> PreviousEvaluation | None:
    """Return what of the evaluation of commit `base` holds for commit `head`, whose files `repository` has.

    `below` is the directory of the repository in git. The settings of both are the same.
    """
    return _still_true(before, _changes(git, base, head, below), repository)


def _changes(git: Git, base: str, head: str, below: str) -> list[tuple[str, str]]:
    """Return the files of the repository that differ, each with what became of it; it is `below` the top of git's."""
    top = f"{below}/" if below else ""
    return [(one.path.removeprefix(top), one.verb) for one in git.changes(base, head) if one.path.startswith(top)]


def _still_true(
    before: Evaluation, changes: Sequence[tuple[str, str]], repository: Repository, unknown: Sequence[str] = ()
) -> PreviousEvaluation | None:
    from fleet.evaluate.evaluation import still_true  # noqa: PLC0415
    from fleet.repository.settings import FILE  # noqa: PLC0415

    return still_true(
        before,
        edited=(path for path, verb in changes if verb == "changed"),
        moved=(path for path, verb in changes if verb != "changed"),
        files=repository.stack_files(),
        of_all=(FILE, repository.settings.paths.lock),
        unknown=unknown,
    )


def _before(files: Checkout) -> tuple[CachedEvaluation | None, PreviousEvaluation | None]:
    """Return what is remembered of the newest commit of which something is, and what of it holds: None where none is.

    That may be this very commit, of which some files are not kept.
    """
    from fleet.evaluate.cache import is_known, load_evaluation  # noqa: PLC0415
    from fleet.git.history import first_parents  # noqa: PLC0415

    if files.git is None:
        return None, None
    past = first_parents(files.git, files.git.resolve(files.revision), files.below, most=PAST + 1)
    for one in reversed(past):
        if not one.tree or not is_known(one.tree):
            continue
        changes = _changes(files.git, one.commit, files.revision, files.below)
        found = load_evaluation(one.tree, besides={path for path, _ in changes})
        if found is not None and found.settings == files.repository.settings:
            return found, _still_true(found.evaluation, changes, files.repository, found.unknown)
    return None, None
