"""System call filter.

A small assembler for the programs that seccomp runs before each system call: classic BPF, eight bytes a step.

A program here is a list of rules. A rule is for one system call: allowed when each condition on its arguments holds.
There are no jumps further than the next rule, so nothing can be out of reach, and what no rule allows is refused.

Which system calls a worker may make: reading files, memory, time, its own signals, and its answer. All else fails.

A list of what is allowed, so that what nobody thought of, and what kernels learn in the years to come, is refused.
Refusals are errors (EPERM), at the user's line, like any other file or socket that cannot be had. Landlock leaves much
to this layer: it knows files that are opened, but not modes, owners, times, locks and signals.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from fleet.evaluate.sandbox import kernel
from fleet.evaluate.sandbox.kernel import NUMBERS, Machine

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
    return _beginning(architecture) + assemble(rules) + more + _packed([Step(RETURN, ERROR | refused)])


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


def assemble(rules: Iterable[Rule], answers: dict[int, int] | None = None) -> bytes:
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


ARCHITECTURES: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_INT = 0xFFFFFFFF  # the kernel looks at the lower half of an int only

_FREE = """
    read readv pread64 preadv write writev pwrite64 lseek close close_range
    fstat stat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd chdir fchdir
    mmap mprotect munmap mremap madvise brk mincore membarrier
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait sigaltstack restart_syscall pause
    alarm getitimer setitimer
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times
    getpid gettid getppid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp
    getrlimit getrusage sched_yield sched_getaffinity getcpu uname sysinfo umask getrandom
    futex set_robust_list rseq set_tid_address
    poll ppoll select pselect6 pipe pipe2 dup dup2 dup3
    exit exit_group
    """
# With a /tmp of one's own. What may be changed there and nowhere else is Landlock's and the mounts' to say.
_WRITING = """
    mkdir mkdirat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat
    ftruncate fallocate fsync fdatasync pwritev
    """
FREE, WRITING = frozenset(_FREE.split()), frozenset(_WRITING.split())
# Newer calls with a structure that a filter cannot look into: without them the C library takes the older ones.
UNKNOWN = ("clone3", "openat2")

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
_QUESTIONS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIO(N)CLEX


def confine_arguments(machine: Machine, own_pid: int, *, writing: bool) -> bytes:
    """The program for a worker of this process number."""
    abort = Rule(NUMBERS[machine]["tgkill"], (Argument(0, (own_pid,), _INT),))  # also for what is like abort()
    return program(ARCHITECTURES[machine], errno.EPERM, [abort], common(machine, writing=writing))


@cache
def common(machine: Machine, *, writing: bool) -> bytes:
    """What is the same for all: a zygote has it ready before it forks."""
    numbers = NUMBERS[machine]
    rules = [Rule(numbers[name]) for name in sorted(FREE | WRITING if writing else FREE) if name in numbers]

    def when(name: str, *conditions: Argument) -> None:
        if name in numbers:
            rules.append(Rule(numbers[name], conditions))

    for name, flags in (("open", 1), ("openat", 2)):
        when(name, *(() if writing else (Argument(flags, (0,), _CHANGES),)))
    when("fcntl", Argument(1, _DESCRIPTOR_COMMANDS, _INT))  # not F_SETOWN: that sends signals to others
    when("ioctl", Argument(1, _QUESTIONS, _INT))  # not TIOCSTI: that types into a terminal
    when("prlimit64", Argument(0, (0,), _INT), Argument(2, (0,)))  # ask for one's own, set none
    return assemble(rules, {numbers[name]: errno.ENOSYS for name in UNKNOWN})


def restrict(filter_program: bytes) -> None:
    """From here on for all threads of this process; it cannot be taken back."""
    steps = ctypes.create_string_buffer(filter_program, len(filter_program))
    header = struct.pack("@HP", len(filter_program) // 8, ctypes.addressof(steps))
    # The thread that could not be brought along is the result, if there is one.
    if kernel.call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, header):
        raise OSError(errno.EBUSY, "seccomp: a thread could not be brought along")
