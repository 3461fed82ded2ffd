"""A plan for people at a terminal: the tree stack → cluster → object, and one line that sums it up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.plan.forest import Branch, by_stack, short, summary
from fleet.plan.step import Change, Step, Verb

SIGNS = {
    Verb.CREATE: ("+", 32),
    Verb.UPDATE: ("~", 33),
    Verb.ADOPT: ("»", 36),
    Verb.DELETE: ("-", 31),
    Verb.FORGET: ("«", 35),
    Verb.CONFLICT: ("!", 31),
    Verb.RECORD: ("≡", 33),
    Verb.UNCHANGED: ("=", 2),
}
BOLD, DIM, RED, YELLOW = 1, 2, 31, 33
MOST_CHANGES = 12
MOST_STEPS = 200  # of one stack in one cluster; all are in the JSON


def tree(branches: Iterable[Branch], *, colour: bool = False, unchanged: bool = False) -> str:
    branches = list(branches)
    lines: list[str] = []
    for stack, its in by_stack(branches).items():
        lines.append(paint(stack, BOLD, colour))
        for position, branch in enumerate(its):
            lines += _branch(branch, last=position == len(its) - 1, colour=colour, unchanged=unchanged)
    if lines:
        lines.append("")
    lines.append(paint(summary(branches), BOLD, colour))
    return "\n".join(lines)


def paint(text: str, code: int, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


def _branch(branch: Branch, *, last: bool, colour: bool, unchanged: bool) -> list[str]:
    corner, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    steps = branch.steps(unchanged=unchanged)
    if branch.problem:
        first, *more = branch.problem.splitlines()
        said = [f"{corner}{branch.cluster}  {paint(f'failed: {first}', RED, colour)}", *(below + line for line in more)]
    else:
        taken = paint(f"  taken over from {branch.taken_from}", YELLOW, colour) if branch.taken_from else ""
        said = [f"{corner}{branch.cluster}{taken}" + ("" if steps or taken else paint("  no changes", DIM, colour))]
    hidden, steps = len(steps) - MOST_STEPS, steps[:MOST_STEPS]
    width = max((len(str(step.key)) for step in steps), default=0)
    for position, step in enumerate(steps):
        end = position == len(steps) - 1 and hidden <= 0
        said.append(below + ("└─ " if end else "├─ ") + _line(step, width, colour))
        margin = below + ("   " if end else "│  ") + "             "
        said += [margin + text for text in _details(step, colour)]
    return [*said, below + "└─ " + paint(f"… and {hidden} more", DIM, colour)] if hidden > 0 else said


def _line(step: Step, width: int, colour: bool) -> str:
    sign, code = SIGNS[step.verb]
    verb = paint(f"{sign} {step.verb:<9}", code, colour)
    where = paint(str(step.source), DIM, colour) if step.source.file and step.verb is not Verb.UNCHANGED else ""
    return f"{verb}  {step.key!s:<{width}}  {where}".rstrip()


def _details(step: Step, colour: bool) -> list[str]:
    lines = [paint(step.reason, SIGNS[step.verb][1], colour)] if step.reason else []
    lines += [paint(meaning, BOLD, colour) for meaning in step.meanings]
    lines += [change_line(change) for change in step.changes[:MOST_CHANGES]]
    hidden = len(step.changes) - MOST_CHANGES
    return [*lines, paint(f"… and {hidden} more fields", DIM, colour)] if hidden > 0 else lines


def change_line(change: Change) -> str:
    if change.after is None:
        return f"{change.path}: {short(change.before)} removed"
    if change.before is None:
        return f"{change.path}: {short(change.after)} added"
    return f"{change.path}: {short(change.before)} → {short(change.after)}"


def notices(branches: Sequence[Branch]) -> list[str]:
    """One line per conflict, for errors and logs."""
    return [
        f"{branch.stack} on {branch.cluster}: {step.key} {step.reason}"
        for branch in branches
        for step in (branch.plan.conflicts if branch.plan else ())
    ]
