"""A small assembler for the programs that seccomp runs before each system call: classic BPF, eight bytes a step.

A program here is a list of rules. A rule is for one system call: allowed when each condition on its arguments holds.
There are no jumps further than the next rule, so nothing can be out of reach, and what no rule allows is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# What the program looks at: struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6];}
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

LOAD, AND, RETURN = 0x20, 0x54, 0x06  # BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_RET|K
EQUAL, NOT_LESS = 0x15, 0x35  # BPF_JMP|JEQ|K, BPF_JMP|JGE|K

ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_STEP = struct.Struct("=HBBI")


@dataclass(frozen=True, slots=True)
class Step:
    code: int
    value: int
    then: int = 0  # steps to leap over when a comparison holds
    otherwise: int = 0

    def packed(self) -> bytes:
        return _STEP.pack(self.code, self.then, self.otherwise, self.value)


@dataclass(frozen=True, slots=True)
class Argument:
    """Holds when the argument, its bits outside of `mask` ignored, is one of `values`."""

    index: int
    values: tuple[int, ...]
    mask: int = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Rule:
    number: int
    conditions: tuple[Argument, ...] = ()


def program(architecture: int, refused: int, rules: Iterable[Rule], more: bytes = b"") -> bytes:
    """The whole: another architecture kills, rules allow (`more`: assembled before), all else is `refused`."""
    return _beginning(architecture) + assembled(rules) + more + _packed([Step(RETURN, ERROR | refused)])


def _beginning(architecture: int) -> bytes:
    steps = [
        Step(LOAD, ARCHITECTURE),
        Step(EQUAL, architecture, then=1),
        Step(RETURN, KILL),
        Step(LOAD, NUMBER),
    ]
    if architecture == 0xC000003E:  # x32: the same architecture with other numbers, and a history of holes
        steps += [Step(NOT_LESS, 0x40000000, otherwise=1), Step(RETURN, KILL)]
    return _packed(steps)


def assembled(rules: Iterable[Rule], answers: dict[int, int] | None = None) -> bytes:
    """Some rules, and calls that get an error of their own; such pieces can be put behind each other."""
    steps: list[Step] = []
    for number, error in (answers or {}).items():
        steps += [Step(EQUAL, number, otherwise=1), Step(RETURN, ERROR | error)]
    for rule in rules:
        steps += _rule(rule)
    return _packed(steps)


def _packed(steps: Iterable[Step]) -> bytes:
    return b"".join(step.packed() for step in steps)


def _rule(rule: Rule) -> list[Step]:
    body = [step for condition in rule.conditions for step in _condition(condition)]
    body.append(Step(RETURN, ALLOW))
    if rule.conditions:
        body.append(Step(LOAD, NUMBER))  # where a condition did not hold; the next rule looks at the number again
    inner = _resolved(body)
    return [Step(EQUAL, rule.number, otherwise=len(inner)), *inner]


_FAIL = 255  # in the place of a distance: to the end of the rule


def _condition(condition: Argument) -> list[Step]:
    """Both halves of the argument: a comparison sees 32 bits, and the other half must not be free for the taking."""
    mask_low, mask_high = condition.mask & 0xFFFFFFFF, condition.mask >> 32
    low, high = ARGUMENTS + 8 * condition.index, ARGUMENTS + 8 * condition.index + 4  # little endian
    (upper,) = {value >> 32 for value in condition.values}
    steps = [Step(LOAD, high), Step(AND, mask_high), Step(EQUAL, upper, otherwise=_FAIL)]
    steps += [Step(LOAD, low), Step(AND, mask_low)]
    values = [value & 0xFFFFFFFF for value in condition.values]
    for place, value in enumerate(values):
        left = len(values) - place - 1
        steps.append(Step(EQUAL, value, then=left, otherwise=0 if left else _FAIL))
    return steps


def _resolved(body: Sequence[Step]) -> list[Step]:
    """Distances for those that lead to the last step, which loads the number again."""
    last = len(body) - 1
    return [
        Step(step.code, step.value, step.then, last - place - 1) if step.otherwise == _FAIL else step
        for place, step in enumerate(body)
    ]
