"""Recording of what was previewed: of a pull request, or of a commit that had none. The edge between it and git."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.approval.branch import MOST_RECORDS, write_record
from fleet.approval.policy import POLICY_KEY, POLICY_PLACEMENT, Policy, applied_revisions, read_policies, read_policy
from fleet.approval.record import ApprovalRecord, ApprovedChange, changes_of_merge, changes_of_plans
from fleet.errors import ConfigurationError
from fleet.evaluate.result import Evaluation
from fleet.git.history import first_parent, first_parents
from fleet.git.objects import Objects
from fleet.git.status import choose_remote
from fleet.plan import Plan
from fleet.plan.effect import Severity
from fleet.plan.step import plan_hash
from fleet.preview.merge import MergePreview
from fleet.sync.source import Commit


def record_merge(preview: MergePreview, *, fork: bool = False) -> tuple[ApprovalRecord, bool]:
    """Record what a merge changes, by the tree that it leads to.

    Returns the record, and False if it was there already.
    """
    files, sides = preview.sides.base, preview.sides
    git = files.git
    edges = changes_of_merge(preview.before, preview.after, preview.changed, preview.live)
    with git.objects("read the rules of both sides") as objects:
        policy_before, policy_after = (
            read_policy(objects, commit_or_tree, files.below) for commit_or_tree in (sides.before.id, sides.tree)
        )
        edges += _policy_change(policy_before, policy_after) if policy_before and policy_after else []
        tree = _subtree(objects, sides.tree, files.below)
    record = ApprovalRecord(
        tree=tree,
        base=sides.before.id,
        head=sides.head.id,
        subject=sides.head.subject,
        edges=tuple(edges),
        plan_hash=preview.plan_hash,
        fork=fork,
    )
    return record, _record_on_branch(files, record, files.repository.settings.approval.branch)


def record_commit(
    files: Commit, evaluation: Evaluation, plans: Sequence[Plan], note: str
) -> tuple[ApprovalRecord, bool]:
    """Record what a sync of a commit would do in the clusters now, the most of it included.

    Returns the record, and False if it was there already.
    """
    git = files.git
    commit = git.resolve(files.revision)
    edges, settings = changes_of_plans(evaluation, plans), files.repository.settings
    policy, remote = Policy.of(settings), choose_remote(files.remotes, settings.git.remote)
    before = read_policies(git, lambda: remote, applied_revisions(plans) - {commit.id}, files.below, policy)
    edges += [edge for policy_before in before.values() for edge in _policy_change(policy_before, policy)]
    branches = {policy_before.records for policy_before in before.values() if policy_before.required}
    record = ApprovalRecord(
        tree=files.tree,
        base=first_parent(git, commit),
        head=commit.id,
        subject=commit.subject,
        edges=tuple(sorted(set(edges))),
        plan_hash=plan_hash(plans),
        note=note,
    )
    # By the rule of what is applied, where there is one: that is the one that it will be judged by.
    written = [_record_on_branch(files, record, branch) for branch in sorted(branches or {settings.approval.branch})]
    return record, any(written)


def _record_on_branch(files: Commit, record: ApprovalRecord, branch: str) -> bool:
    remote = choose_remote(files.remotes, files.repository.settings.git.remote)
    git = files.git
    history = first_parents(git, git.resolve(files.revision), files.below, most=MOST_RECORDS)
    return write_record(git, remote, branch, record, merged={past_commit.tree for past_commit in history})


def _policy_change(before: Policy, after: Policy) -> list[ApprovedChange]:
    return (
        []
        if before.state == after.state
        else [ApprovedChange(*POLICY_PLACEMENT, POLICY_KEY, before.state, after.state, Severity.NOTHING)]
    )


def _subtree(objects: Objects, tree: str, below: str) -> str:
    directory = objects.find(f"{tree}:{below}" if below else tree)
    if directory is None or directory.kind != "tree":
        raise ConfigurationError(f"after the merge there is no directory {below!r}")
    return directory.id
