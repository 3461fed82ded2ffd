"""What a sync asks before it writes: is this what was approved, and no more than that?

A cluster in which anything is not is left alone as a whole. The answer is asked for twice: of the plans that are shown,
and under the Lease of the plan that is carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from fleet.approval import branch
from fleet.approval.judge import NEVER, Book, Having
from fleet.approval.policy import KEY, PAIR, Policy, revisions, rules
from fleet.approval.record import ABSENT, UNTOUCHED, pairs, state_of_entry, states
from fleet.errors import ConfigurationError, FleetError, PolicyError
from fleet.evaluate.result import Evaluation
from fleet.git.history import first_parents
from fleet.git.refs import Address
from fleet.git.repository import Repository as Git
from fleet.git.status import chosen
from fleet.objects.desired import Desired, Key, StackCluster
from fleet.plan import Plan
from fleet.plan.effect import effect_of
from fleet.plan.severity import severity_of
from fleet.sync.result import Result
from fleet.sync.source import Files

MOST_COMMITS = 5000  # that are looked back
SHOWN = 8  # objects that a refusal names, and commits
HINT = (
    "have it previewed and approved again: `fleet preview --base BRANCH --record` for a pull request, "
    "`fleet approve` for what is on the branch already"
)


@dataclass(slots=True)
class Gate:
    """For one commit. `required`: a person says so, whatever fleet.toml says. `evaluation` is of all stacks."""

    files: Files
    evaluation: Evaluation
    required: bool = False
    _book: Book | None = None
    _damaged: tuple[FleetError, ...] = ()  # files among the records that are none
    _states: dict[StackCluster, Mapping[Key, str]] = field(default_factory=dict)
    _wanted: dict[StackCluster, Desired] = field(default_factory=dict)

    def judge(self, planned: Sequence[Result]) -> list[Result]:
        """With the problem that a missing approval is. Git is asked only if there is something to write."""
        busy = {(one.stack, one.cluster): one.plan for one in planned if one.plan and one.is_to_do}
        if not busy:
            return list(planned)
        self._wanted = pairs(self.evaluation)
        try:
            found = self._judged(list(busy.values()), revisions(one.plan for one in planned if one.plan))
        except PolicyError as refusal:
            found = dict.fromkeys(busy, refusal)
        stopped = {cluster: stack for stack, cluster in reversed(found)}
        held = {pair: _held(pair, stopped[pair[1]]) for pair in busy.keys() - found.keys() if pair[1] in stopped}
        problems = {**held, **found}
        return [replace(one, problem=problems.get((one.stack, one.cluster), one.problem)) for one in planned]

    def check(self, plan: Plan) -> None:
        """Of the plan that is carried out: it may be another than the one that was judged."""
        reasons = list(self._reasons(self._book, plan)) if self._book else []
        if self._book and reasons:
            raise self._refused(self._book, plan, reasons)

    def _judged(self, busy: Sequence[Plan], applied: Set[str]) -> dict[StackCluster, PolicyError]:
        """The problems by stack and cluster; raises the one that all have."""
        policy = self._policy(applied)
        if not policy.required:
            return {}
        self._book = book = self._read(policy)
        reasons = {(plan.stack, plan.cluster): list(self._reasons(book, plan)) for plan in busy}
        plans = {(plan.stack, plan.cluster): plan for plan in busy}
        return {pair: self._refused(book, plans[pair], found) for pair, found in reasons.items() if found}

    def _policy(self, applied: Set[str]) -> Policy:
        """The rule that holds. That of what is applied, by any stack, may be left only if that was approved."""
        wanted = Policy.of(self.files.repository.settings)
        before = rules(self._git, lambda: self._remote, applied - {self.files.revision}, self.files.below, wanted)
        for revision, there in before.items():
            if not there.required or there.state == wanted.state:
                continue
            book = self._read(there)
            having = Having(there.state, is_applied=False, since=book.position.get(revision, NEVER))
            if refusal := book.allowed(PAIR, KEY, wanted.state, having).refusal:
                raise PolicyError(f"approvals: {there} → {wanted}: {refusal}", hint=HINT, field="approval")
        return replace(wanted, required=wanted.required or self.required)

    def _read(self, policy: Policy) -> Book:
        git, revision = self._git, self.files.revision
        if git.shallow:
            raise ConfigurationError(
                "approvals are looked for in the history of the branch, and this clone is shallow",
                hint="git fetch --unshallow; in CI, check out with the whole history",
            )
        remote = self._remote
        found = branch.read(git, remote, policy.records, policy.branch)
        self._damaged = found.problems
        tip = found.tip and git.resolve(found.tip)
        history = first_parents(git, tip, self.files.below, most=MOST_COMMITS) if tip else ()
        end = next((number for number, one in enumerate(history) if one.commit == revision), None)
        if end is None:
            raise PolicyError(
                f"{revision[:8]} is not on {policy.branch}{f' of {remote}' if remote else ''}, "
                "and only what was merged there is approved",
                hint="merge it first; a preview alone approves nothing",
            )
        return Book(found.records, history, end, self._states_of)

    def _states_of(self, pair: StackCluster) -> Mapping[Key, str]:
        if pair == PAIR:
            return {KEY: Policy.of(self.files.repository.settings).state}
        if pair not in self._states:
            self._states[pair] = states(self._wanted.get(pair))
        return self._states[pair]

    def _reasons(self, book: Book, plan: Plan) -> Iterator[str]:
        pair = (plan.stack, plan.cluster)
        wanted = {} if plan.leaving else self._states_of(pair)
        entries = plan.inventory.by_key()
        since = book.position.get(plan.inventory.revision, NEVER)
        for step in plan.steps:
            if step.verb in UNTOUCHED:
                continue
            entry = entries.get(step.key)
            having = Having(state_of_entry(entry), bool(entry and entry.uid), since)
            allowed = book.allowed(pair, step.key, wanted.get(step.key, ABSENT), having)
            if allowed.refusal:
                yield f"{step.key}: {allowed.refusal}"
            elif severity_of(step) > allowed.severity:
                yield f"{step.key}: approved was to {allowed.severity.words}, and now it is: {effect_of(step).words}"

    def _refused(self, book: Book, plan: Plan, reasons: Sequence[str]) -> PolicyError:
        title = f"{plan.cluster}: {plan.stack} is not what was approved, and nothing is changed there"
        lines = [title, *reasons[:SHOWN]]
        if len(reasons) > SHOWN:
            lines.append(f"and {len(reasons) - SHOWN} more")
        since = book.position.get(plan.inventory.revision, len(book.history))
        lines += [f"no record leads to commit {one.title}" for one in book.unrecorded(since)[:SHOWN]]
        lines += [f"not counted: {one.message}" for one in self._damaged[:SHOWN]]
        return PolicyError("\n  ".join(lines), hint=HINT)

    @property
    def _remote(self) -> Address | None:
        return chosen(self.files.remotes, self.files.repository.settings.git.remote)

    @property
    def _git(self) -> Git:
        git = self.files.git
        assert git is not None  # noqa: S101 - only commits are applied
        return git


def _held(pair: StackCluster, stack: str) -> PolicyError:
    return PolicyError(f"{pair[1]}: {pair[0]} waits, because {stack} is not what was approved there")
