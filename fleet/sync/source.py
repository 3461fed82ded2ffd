"""Source of a run: the files that it reads, the signature of their commit, and their evaluation.

A run reads the working tree to observe or the files of a commit to apply, never a mix of both. The signature tells
whether a commit comes from a user who may change clusters.

An evaluation comes from the cache or is made. What may be applied is evaluated twice, so that code whose result depends
on chance or on the time is reported before it changes anything; and so every cached evaluation was the same twice. Of a
new commit only those files are evaluated that can mean something else than in the newest earlier commit in the cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.evaluate.result import Evaluation
from fleet.git import refs
from fleet.git.repository import Dirt, GitCommit, GitRepository
from fleet.git.signature import verify_signature
from fleet.git.status_records import clean
from fleet.git.tree import Tree
from fleet.repository import Repository, find_root
from fleet.repository.repository import repository_identity
from fleet.repository.settings import GitSettings, Settings

if TYPE_CHECKING:
    from fleet.evaluate.cache import CachedEvaluation
    from fleet.evaluate.evaluation import OnClusters, PreviousEvaluation

NO_FILES = Path(os.devnull) / "remembered"  # no directory, and none can be created there


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files of the working tree, committed or not."""

    repository: Repository
    git: GitRepository | None = None  # None where no git repository has these files
    identity: str = ""  # of the repository, see fleet.repository.repository
    remotes: Mapping[str, str] = field(default_factory=dict)  # name → address

    @property
    def revision(self) -> str:
        """Return "": it is no commit."""
        return ""


@dataclass(frozen=True, slots=True)
class Commit:
    """The files of a commit."""

    repository: Repository  # with the commit's own settings
    git: GitRepository
    revision: str  # the commit's id
    tree: str  # git's id of the tree of all files; "" for a bundle, whose files git has elsewhere
    subject: str = ""
    identity: str = ""  # of the repository, see fleet.repository.repository
    remotes: Mapping[str, str] = field(default_factory=dict)  # name → address
    below: str = ""  # the directory of the files in git's tree, "" at its top
    remembered: Evaluation | None = None  # from the cache; then the files themselves are not written out
    outside: str = ""  # why it is no commit of the branch that fleet.toml names; "" if it is, or may be
    remarks: tuple[str, ...] = ()  # what the user should know about these files

    @property
    def title(self) -> str:
        return f"{self.revision[:8]} {self.subject}".strip()


Checkout = WorkingTree | Commit


@contextmanager
def read_working_tree(start: Path | None = None) -> Iterator[WorkingTree]:
    """Yield the files of the working tree, committed or not."""
    repository = Repository.find(start)
    git = _find_git(repository.root)
    remotes = git.remotes() if git else {}
    identity = _find_identity(repository.settings, git, repository.root, remotes)
    yield WorkingTree(repository, git, identity, remotes)


@contextmanager
def read_commit(revision: str = "HEAD", start: Path | None = None, *, use_cache: bool = False) -> Iterator[Commit]:
    """Yield the files of a commit, settings included; the working tree only tells which repository is meant.

    With `use_cache`, an evaluation that is in the cache is used, and then there are no files.
    """
    directory = find_root(start)
    git = GitRepository.find(directory)
    commit = git.resolve(revision)
    below = directory.relative_to(git.root.resolve())
    tree = commit.tree if below == Path() else git.subtree(commit, below.as_posix())
    with _open_files(git, commit, below, tree if use_cache else "") as (repository, remembered):
        dirt = git.dirt() if revision == "HEAD" else Dirt()
        outside, unsure = _off_branch_reason(git, commit, repository.settings.git, dirt.branch)
        remarks = [
            _describe_uncommitted(dirt, below.as_posix(), commit.short),
            unsure or _describe_unpushed(git, commit, repository.settings.git, elsewhere=bool(outside)),
        ]
        remotes = git.remotes()
        identity = _find_identity(repository.settings, git, directory, remotes)
        yield Commit(
            repository,
            git,
            commit.id,
            tree,
            commit.subject,
            identity,
            remotes,
            below="" if below == Path() else below.as_posix(),
            remembered=remembered,
            outside=outside,
            remarks=tuple(filter(None, remarks)),
        )


def check_branch(commit: Commit, *, any_branch: bool) -> tuple[str, ...]:
    """Return all that the user should know about the commit before it is applied.

    Raise ConfigurationError when it is a commit of another branch than the synced one, without `any_branch`.
    """
    if not commit.outside:
        return commit.remarks
    usual = commit.repository.settings.git.branch
    if not any_branch:
        raise ConfigurationError(
            f"{commit.outside}, and fleet.toml says that {usual} is synced",
            hint=f"git switch {usual}; or apply it all the same with --any-branch: {usual} is then refused as "
            "rewritten until it has these commits. If another branch is meant for good, say so under [git] branch",
        )
    after = f"{usual} will be refused as rewritten until it has {commit.revision[:8]}"
    return (*commit.remarks, f"{commit.outside}: {after}")


@contextmanager
def _open_files(
    git: GitRepository, commit: GitCommit, below: Path, tree: str
) -> Iterator[tuple[Repository, Evaluation | None]]:
    """Yield the repository of a commit: with its cached evaluation, or in a directory removed after the block."""
    from fleet.evaluate.cache import load_evaluation  # noqa: PLC0415 - not needed to read the working tree

    remembered = load_evaluation(tree, whole=True) if tree else None
    if remembered is not None:
        yield Repository(NO_FILES, remembered.settings), remembered.evaluation
        return
    inside = () if below == Path() else (below.as_posix(),)
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        Tree(git.git, commit.tree, commit.id).materialise(Path(directory) / "tree", *inside)
        yield Repository.at(Path(directory) / "tree" / below), None


def _find_git(root: Path) -> GitRepository | None:
    """Return the git repository that has this directory, or None."""
    try:
        return GitRepository.find(root)
    except FleetError:
        return None


def _find_identity(settings: Settings, git: GitRepository | None, directory: Path, remotes: Mapping[str, str]) -> str:
    """Return the repository's identity by the settings that are read; `directory` is theirs in the user's clone."""
    name = settings.fleet.name
    if name or git is None:
        return name
    below = directory.relative_to(git.root.resolve()).as_posix()
    try:
        address = refs.address(remotes[settings.git.remote], by_person=True)
    except (KeyError, FleetError):  # a remote that is never connected to: its address is of no use
        address = None
    if address is None:
        return repository_identity("", first_commit=_find_first_commit(git), below=below)
    url = address.url
    if address.protocol == "file" and "://" not in url:
        url = str(git.root.resolve() / url)  # `../fleet.git` is another repository elsewhere
    return repository_identity("", remote=url, below=below)


def _find_first_commit(git: GitRepository) -> str:
    """Return the first commit of the history; "" if it cannot be known: no commit yet, or a shallow clone."""
    if git.shallow:
        return ""
    output = git.git.run("find the first commit", "rev-list", "--max-parents=0", "HEAD", accept=(0, 128))
    return min(output.text.split(), default="") if output.status == 0 else ""


def _off_branch_reason(
    git: GitRepository, commit: GitCommit, settings: GitSettings, branch: str | None
) -> tuple[str, str]:
    """Return why the commit is not of the synced branch, and a remark where this clone cannot know; each may be "".

    `branch` is the one that HEAD is on. A commit without one, which the user names or CI checks out, is of the synced
    branch if that has it, here or as the remote last had it.
    """
    if branch:
        return ("" if branch == settings.branch else f"this is the branch {branch}"), ""
    tips = set(_branch_tips(git, settings).values())
    if any(not git.outside([commit.id], tip) for tip in tips):
        return "", ""
    if git.shallow or not tips:
        why = "is shallow" if git.shallow else "does not have it"
        return "", f"not known whether {commit.short} is on the branch {settings.branch}: this clone {why}"
    return f"{commit.short} is not on the branch {settings.branch}", ""


def _describe_unpushed(git: GitRepository, commit: GitCommit, settings: GitSettings, *, elsewhere: bool) -> str:
    """Return a remark on commits that the remote's branch does not have, as this clone knows it; "" if there are none.

    `elsewhere`: commits that no branch of the remote has.
    """
    remote = f"refs/remotes/{settings.remote}/{settings.branch}"
    if _branch_tips(git, settings).get(remote) in (None, commit.id):
        return ""
    excluded = ("--not", f"--remotes={settings.remote}") if elsewhere else (f"^{remote}",)
    listed = git.git.run("compare with the remote", "log", "--format=%h %s", "--abbrev=8", commit.id, *excluded).text
    commits = [clean(line, 80) for line in listed.splitlines()]
    if not commits:
        return ""
    names = ", ".join(commits[:3]) + (f" and {len(commits) - 3} more" if len(commits) > 3 else "")
    return f"not pushed to {settings.remote}, so others cannot build on it: {names}"


def _branch_tips(git: GitRepository, settings: GitSettings) -> dict[str, str]:
    """Return the commit of the synced branch, here and as the remote last had it, by ref, where there is one."""
    refs = (f"refs/heads/{settings.branch}", f"refs/remotes/{settings.remote}/{settings.branch}")
    listed = git.git.run("find the branch", "for-each-ref", "--format=%(refname) %(objectname)", *refs).text
    tips = dict(line.split(" ") for line in listed.splitlines())
    return {ref: tips[ref] for ref in refs if ref in tips}


def _describe_uncommitted(dirt: Dirt, below: str, short: str) -> str:
    """Return a remark on files that are not committed; "" if there are none."""
    files = [name for name in (*dirt.changed, *dirt.untracked) if below == "." or name.startswith(f"{below}/")]
    if not files:
        return ""
    names = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"not committed, so not part of this sync of {short}: {names}"


def check_signature(git: GitRepository, revision: str, signers: Path) -> str:
    """Return who signed the commit; raise PolicyError unless that is one of the signers.

    This is checked before anything of the commit is evaluated.
    """
    return verify_signature(git, git.resolve(revision), signers)


PAST = 5  # earlier commits that are looked up in the cache, from the newest


def evaluate_checkout(
    checkout: Checkout, stacks: Sequence[str], prepare: Callable[[], OnClusters] | None = None
) -> Evaluation:
    """Return the evaluation of the files, with names of these stacks only; raise its problems.

    `prepare` is called while the processes that evaluate start. It returns a function that is called with the clusters
    as soon as they are known, which is before the stacks are evaluated; only if an earlier commit is in the cache, and
    this one is not: nothing is sent to the clusters of a repository of which no commit was ever good here.
    """
    commit = checkout if isinstance(checkout, Commit) else None
    if commit and commit.remembered is not None:
        if prepare:
            prepare()
        return select_clusters(commit.remembered, stacks)
    from fleet.evaluate.pool import Pool  # noqa: PLC0415 - this and what follows is needed only now

    with Pool(twice=commit is not None) as pool:
        from fleet.evaluate.evaluation import evaluate, ignore_clusters  # noqa: PLC0415 - while the pool warms up

        on_clusters = prepare() if prepare else ignore_clusters
        remembered, before = _find_previous(commit) if commit else (None, None)
        evaluation = evaluate(
            checkout.repository,
            stacks=list(stacks) or None,
            pool=pool,
            twice=commit is not None,
            before=before,
            on_clusters=on_clusters if remembered else ignore_clusters,
        ).check()
    if commit and not stacks:
        from fleet.evaluate.cache import store_evaluation  # noqa: PLC0415

        store_evaluation(commit.tree, commit.repository.settings, evaluation, remembered)
    return evaluation


def select_clusters(evaluation: Evaluation, names: Sequence[str]) -> Evaluation:
    """Return the evaluation as if only these stacks had been asked for; raise NotFoundError for an unknown one."""
    stack_names = {stack.name for stack in evaluation.stacks}
    for name in names:
        if name not in stack_names:
            from fleet.suggestion import suggestion  # noqa: PLC0415 - needed only for an error

            raise NotFoundError(f"there is no stack {name!r}", hint=suggestion(name, stack_names) or "there are none")
    if not names:
        return evaluation
    return replace(evaluation, stacks=tuple(stack for stack in evaluation.stacks if stack.name in names))


def open_checkout(
    git: GitRepository, before: Evaluation, repository: Repository, *, base: str, head: str, below: str = ""
) -> PreviousEvaluation | None:
    """Return what of the evaluation of commit `base` is valid for commit `head`, whose files `repository` has, or None.

    `below` is the directory of the repository in git. The settings of both commits are the same.
    """
    return _reuse_evaluation(before, _list_changes(git, base, head, below), repository)


def _list_changes(git: GitRepository, base: str, head: str, below: str) -> list[tuple[str, str]]:
    """Return the changed files, each with its verb; the repository is `below` the top of git's tree."""
    top = f"{below}/" if below else ""
    return [
        (change.path.removeprefix(top), change.verb)
        for change in git.changes(base, head)
        if change.path.startswith(top)
    ]


def _reuse_evaluation(
    before: Evaluation, changes: Sequence[tuple[str, str]], repository: Repository, unknown: Sequence[str] = ()
) -> PreviousEvaluation | None:
    """Return what of the earlier evaluation is valid after these changes, or None."""
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


def _find_previous(commit: Commit) -> tuple[CachedEvaluation | None, PreviousEvaluation | None]:
    """Return the newest cached evaluation of the history and what of it is valid for this commit, or None twice.

    That may be the evaluation of this very commit, with some files missing from the cache.
    """
    from fleet.evaluate.cache import is_known, load_evaluation  # noqa: PLC0415
    from fleet.git.history import first_parents  # noqa: PLC0415

    git = commit.git
    history = first_parents(git, git.resolve(commit.revision), commit.below, most=PAST + 1)
    for entry in reversed(history):
        if not entry.tree or not is_known(entry.tree):
            continue
        changes = _list_changes(git, entry.commit, commit.revision, commit.below)
        cached = load_evaluation(entry.tree, besides={path for path, _ in changes})
        if cached is not None and cached.settings == commit.repository.settings:
            return cached, _reuse_evaluation(cached.evaluation, changes, commit.repository, cached.unknown)
    return None, None
