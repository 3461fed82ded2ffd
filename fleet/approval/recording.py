"""Write down what was previewed: of a pull request, or of a commit that had none. The edge between the two and git."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.approval import branch as ledger
from fleet.approval.policy import KEY, PAIR, Policy, policy_at, revisions, rules
from fleet.approval.record import Edge, Record, merged, planned
from fleet.errors import ConfigurationError
from fleet.evaluate.result import Evaluation
from fleet.git.history import first_parents, parent
from fleet.git.objects import Objects
from fleet.git.repository import Repository as Git
from fleet.git.status import chosen
from fleet.plan import Plan
from fleet.plan.severity import Severity
from fleet.plan.step import plan_hash
from fleet.preview.merge import Merged
from fleet.sync.source import Files


def record_merge(made: Merged, *, fork: bool = False) -> tuple[Record, bool]:
    """What the merge changes, by the tree that it leads to. False: it was recorded already."""
    files, sides = made.sides.base, made.sides
    git = _git(files)
    edges = merged(made.before, made.after, made.changed, made.live)
    with git.objects("read the rules of both sides") as objects:
        was, will = (policy_at(objects, one, files.below) for one in (sides.before.id, sides.tree))
        edges += _policy_edge(was, will) if was and will else []
        tree = _subtree(objects, sides.tree, files.below)
    record = Record(
        tree=tree,
        base=sides.before.id,
        head=sides.head.id,
        subject=sides.head.subject,
        edges=tuple(edges),
        plan_hash=made.plan_hash,
        fork=fork,
    )
    return record, _write(files, record, files.repository.settings.approval.branch)


def record_commit(files: Files, evaluation: Evaluation, plans: Sequence[Plan], note: str) -> tuple[Record, bool]:
    """What a sync of a commit would do in the clusters now, the most of it included."""
    git = _git(files)
    commit = git.resolve(files.revision)
    edges, settings = planned(evaluation, plans), files.repository.settings
    will, remote = Policy.of(settings), chosen(files.remotes, settings.git.remote)
    before = rules(git, lambda: remote, revisions(plans) - {commit.id}, files.below, will)
    edges += [edge for was in before.values() for edge in _policy_edge(was, will)]
    branches = {was.records for was in before.values() if was.required}
    record = Record(
        tree=files.tree,
        base=parent(git, commit),
        head=commit.id,
        subject=commit.subject,
        edges=tuple(sorted(set(edges))),
        plan_hash=plan_hash(plans),
        note=note,
    )
    # By the rule of what is applied, where there is one: that is the one that it will be judged by.
    written = [_write(files, record, branch) for branch in sorted(branches or {settings.approval.branch})]
    return record, any(written)


def _write(files: Files, record: Record, branch: str) -> bool:
    remote = chosen(files.remotes, files.repository.settings.git.remote)
    git = _git(files)
    history = first_parents(git, git.resolve(files.revision), files.below, most=ledger.MOST)
    return ledger.write(git, remote, branch, record, merged={one.tree for one in history})


def _policy_edge(was: Policy, will: Policy) -> list[Edge]:
    return [] if was.state == will.state else [Edge(*PAIR, KEY, was.state, will.state, Severity.NOTHING)]


def _subtree(objects: Objects, tree: str, below: str) -> str:
    found = objects.find(f"{tree}:{below}" if below else tree)
    if found is None or found.kind != "tree":
        raise ConfigurationError(f"after the merge there is no directory {below!r}")
    return found.id


def _git(files: Files) -> Git:
    git = files.git
    assert git is not None  # noqa: S101 - commits are of one
    return git
