"""The approval check of a sync before it writes: is this what was approved, and no more than that?

A cluster in which any stack is not approved is left alone as a whole. The check is made twice: on the plans that are
shown, and under the Lease on the plan that is carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from fleet.approval import branch
from fleet.approval.judge import NEVER, AppliedState, ApprovalHistory
from fleet.approval.policy import POLICY_KEY, POLICY_PLACEMENT, Policy, applied_revisions, read_policies
from fleet.approval.record import ABSENT, UNTOUCHED, desired_by_placement, state_of_entry, states_of
from fleet.errors import ConfigurationError, FleetError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.history import first_parents
from fleet.git.refs import Address
from fleet.git.status import choose_remote
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Plan
from fleet.plan.effect import effect_of, severity_of
from fleet.sync.result import Result
from fleet.sync.source import Commit

MOST_COMMITS = 5000  # that are looked back
SHOWN = 8  # objects that a refusal names, and commits
APPROVAL_HINT = (
    "have it previewed and approved again: `fleet preview --base BRANCH --record` for a pull request, "
    "`fleet approve` for what is on the branch already"
)


@dataclass(slots=True)
class ApprovalCheck:
    """The approval check for one commit.

    `required`: the user says so, whatever fleet.toml says. `evaluation` is of all stacks.
    """

    files: Commit
    evaluation: Evaluation
    required: bool = False
    _history: ApprovalHistory | None = None
    _damaged: tuple[FleetError, ...] = ()  # files among the records that are none
    _states: dict[StackCluster, Mapping[Key, str]] = field(default_factory=dict)
    _desired: dict[StackCluster, Desired] = field(default_factory=dict)

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """Return the results with the errors for missing approvals. Git is asked only if there is something to do."""
        busy = {(result.stack, result.cluster): result.plan for result in planned if result.plan and result.is_to_do}
        if not busy:
            return list(planned)
        self._desired = desired_by_placement(self.evaluation)
        try:
            refusals = self._judge_plans(
                list(busy.values()), applied_revisions(result.plan for result in planned if result.plan)
            )
        except PolicyError as error:
            refusals = dict.fromkeys(busy, error)
        stopping = {cluster: stack for stack, cluster in reversed(refusals)}
        waiting = {
            pair: _waiting_error(pair, stopping[pair[1]])
            for pair in busy.keys() - refusals.keys()
            if pair[1] in stopping
        }
        errors = {**waiting, **refusals}
        return [
            replace(result, problem=errors.get((result.stack, result.cluster), result.problem)) for result in planned
        ]

    def check(self, plan: Plan) -> None:
        """Check the plan that is carried out: it may differ from the one that was judged. Raises PolicyError."""
        reasons = list(self._reasons(self._history, plan)) if self._history else []
        if self._history and reasons:
            raise self._refusal_error(self._history, plan, reasons)

    def _judge_plans(self, busy: Sequence[Plan], applied: Set[str]) -> dict[StackCluster, PolicyError]:
        """Return the errors by stack and cluster; raise the one that all have."""
        policy = self._policy(applied)
        if not policy.required:
            return {}
        self._history = history = self._read_history(policy)
        reasons = {(plan.stack, plan.cluster): list(self._reasons(history, plan)) for plan in busy}
        plans = {(plan.stack, plan.cluster): plan for plan in busy}
        return {
            pair: self._refusal_error(history, plans[pair], plan_reasons)
            for pair, plan_reasons in reasons.items()
            if plan_reasons
        }

    def _policy(self, applied: Set[str]) -> Policy:
        """Return the rule that holds. That of what is applied, by any stack, may be left only if that was approved."""
        wanted = Policy.of(self.files.repository.settings)
        before = read_policies(
            self.files.git, lambda: self._remote, applied - {self.files.revision}, self.files.below, wanted
        )
        for revision, applied_policy in before.items():
            if not applied_policy.required or applied_policy.state == wanted.state:
                continue
            history = self._read_history(applied_policy)
            applied_state = AppliedState(
                applied_policy.state, is_applied=False, since=history.position.get(revision, NEVER)
            )
            if refusal := history.permission(POLICY_PLACEMENT, POLICY_KEY, wanted.state, applied_state).refusal:
                raise PolicyError(
                    f"approvals: {applied_policy} → {wanted}: {refusal}", hint=APPROVAL_HINT, field="approval"
                )
        return replace(wanted, required=wanted.required or self.required)

    def _read_history(self, policy: Policy) -> ApprovalHistory:
        git, revision = self.files.git, self.files.revision
        if git.shallow:
            raise ConfigurationError(
                "approvals are looked for in the history of the branch, and this clone is shallow",
                hint="git fetch --unshallow; in CI, check out with the whole history",
            )
        remote = self._remote
        records = branch.read_records(git, remote, policy.records, policy.branch)
        self._damaged = records.problems
        tip = records.tip and git.resolve(records.tip)
        history = first_parents(git, tip, self.files.below, most=MOST_COMMITS) if tip else ()
        end = next((number for number, past_commit in enumerate(history) if past_commit.commit == revision), None)
        if end is None:
            raise PolicyError(
                f"{revision[:8]} is not on {policy.branch}{f' of {remote}' if remote else ''}, "
                "and only what was merged there is approved",
                hint="merge it first; a preview alone approves nothing",
            )
        return ApprovalHistory(records.records, history, end, self._states_of)

    def _states_of(self, pair: StackCluster) -> Mapping[Key, str]:
        if pair == POLICY_PLACEMENT:
            return {POLICY_KEY: Policy.of(self.files.repository.settings).state}
        if pair not in self._states:
            self._states[pair] = states_of(self._desired.get(pair))
        return self._states[pair]

    def _reasons(self, history: ApprovalHistory, plan: Plan) -> Iterator[str]:
        pair = (plan.stack, plan.cluster)
        wanted = {} if plan.leaving else self._states_of(pair)
        entries = plan.inventory.by_key()
        since = history.position.get(plan.inventory.revision, NEVER)
        for step in plan.steps:
            if step.verb in UNTOUCHED:
                continue
            entry = entries.get(step.key)
            applied_state = AppliedState(state_of_entry(entry), bool(entry and entry.uid), since)
            permission = history.permission(pair, step.key, wanted.get(step.key, ABSENT), applied_state)
            if permission.refusal:
                yield f"{step.key}: {permission.refusal}"
            elif severity_of(step) > permission.severity:
                yield f"{step.key}: approved was to {permission.severity.words}, and now it is: {effect_of(step).words}"

    def _refusal_error(self, history: ApprovalHistory, plan: Plan, reasons: Sequence[str]) -> PolicyError:
        title = f"{plan.cluster}: {plan.stack} is not what was approved, and nothing is changed there"
        lines = [title, *reasons[:SHOWN]]
        if len(reasons) > SHOWN:
            lines.append(f"and {len(reasons) - SHOWN} more")
        since = history.position.get(plan.inventory.revision, len(history.history))
        lines += [
            f"no record leads to commit {past_commit.title}"
            for past_commit in history.unrecorded_commits(since)[:SHOWN]
        ]
        lines += [f"not counted: {error.message}" for error in self._damaged[:SHOWN]]
        return PolicyError("\n  ".join(lines), hint=APPROVAL_HINT)

    @property
    def _remote(self) -> Address | None:
        return choose_remote(self.files.remotes, self.files.repository.settings.git.remote)


def _waiting_error(pair: StackCluster, stack: str) -> PolicyError:
    return PolicyError(f"{pair[1]}: {pair[0]} waits, because {stack} is not what was approved there")
