"""The filter of system calls: which ones a worker may make, and an assembler for the program that the kernel runs.

A worker may read files, use memory and time, handle its own signals and write its answer; all other calls fail. The
list names what is allowed, so that calls which its author did not think of, and calls of future kernels, are refused.
A refusal is an error (EPERM) at the user's line, like any other file or socket that cannot be opened. Landlock leaves
much to this layer: it checks the files that are opened, but not modes, owners, times, locks and signals.

The kernel runs the program before each system call: classic BPF, eight bytes a step. A program here is a list of rules.
A rule is for one system call and allows it when each condition on its arguments holds. No jump goes further than the
next rule, so every rule is reached, and a call that no rule allows is refused.
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

# The input of the program: struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6];}
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

LOAD, AND, RETURN = 0x20, 0x54, 0x06  # BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_RET|K
EQUAL, NOT_LESS = 0x15, 0x35  # BPF_JMP|JEQ|K, BPF_JMP|JGE|K

ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_STEP = struct.Struct("=HBBI")


@dataclass(frozen=True, slots=True)
class FilterInstruction:
    """One instruction of the program."""

    code: int
    value: int
    then: int = 0  # steps to skip when a comparison holds
    otherwise: int = 0  # steps to skip when it does not hold

    def pack(self) -> bytes:
        """Return the instruction as the kernel reads it."""
        return _STEP.pack(self.code, self.then, self.otherwise, self.value)


@dataclass(frozen=True, slots=True)
class Argument:
    """A condition that holds when an argument, its bits outside of `mask` ignored, is one of `values`."""

    index: int
    values: tuple[int, ...]
    mask: int = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SyscallRule:
    """A system call that is allowed when all conditions hold."""

    number: int
    conditions: tuple[Argument, ...] = ()


def program(architecture: int, refused: int, rules: Iterable[SyscallRule], more: bytes = b"") -> bytes:
    """Return a whole program: another architecture kills, rules allow, and all other calls fail with `refused`.

    `more` are rules that were assembled before.
    """
    return (
        _assemble_beginning(architecture)
        + assemble(rules)
        + more
        + _pack_steps([FilterInstruction(RETURN, ERROR | refused)])
    )


def _assemble_beginning(architecture: int) -> bytes:
    """Return the steps that kill calls of another architecture and load the number of the call."""
    steps = [
        FilterInstruction(LOAD, ARCHITECTURE),
        FilterInstruction(EQUAL, architecture, then=1),
        FilterInstruction(RETURN, KILL),
        FilterInstruction(LOAD, NUMBER),
    ]
    if architecture == 0xC000003E:  # x32: the same architecture with other numbers, and a history of vulnerabilities
        steps += [FilterInstruction(NOT_LESS, 0x40000000, otherwise=1), FilterInstruction(RETURN, KILL)]
    return _pack_steps(steps)


def assemble(rules: Iterable[SyscallRule], answers: dict[int, int] | None = None) -> bytes:
    """Return a piece of a program: rules, and `answers`, calls with their own errors. Pieces can be concatenated."""
    steps: list[FilterInstruction] = []
    for number, error in (answers or {}).items():
        steps += [FilterInstruction(EQUAL, number, otherwise=1), FilterInstruction(RETURN, ERROR | error)]
    for rule in rules:
        steps += _assemble_rule(rule)
    return _pack_steps(steps)


def _pack_steps(steps: Iterable[FilterInstruction]) -> bytes:
    return b"".join(step.pack() for step in steps)


def _assemble_rule(rule: SyscallRule) -> list[FilterInstruction]:
    """Return the steps of a rule, which end with the number of the call loaded again."""
    body = [step for condition in rule.conditions for step in _assemble_condition(condition)]
    body.append(FilterInstruction(RETURN, ALLOW))
    if rule.conditions:
        body.append(
            FilterInstruction(LOAD, NUMBER)
        )  # where a condition did not hold; the next rule compares the number again
    inner = _resolve_jumps(body)
    return [FilterInstruction(EQUAL, rule.number, otherwise=len(inner)), *inner]


_FAIL = 255  # in the place of a distance: a jump to the end of the rule


def _assemble_condition(condition: Argument) -> list[FilterInstruction]:
    """Return the steps that compare both halves of an argument: each comparison sees only 32 bits of it."""
    mask_low, mask_high = condition.mask & 0xFFFFFFFF, condition.mask >> 32
    low, high = ARGUMENTS + 8 * condition.index, ARGUMENTS + 8 * condition.index + 4  # little endian
    (upper,) = {value >> 32 for value in condition.values}
    steps = [
        FilterInstruction(LOAD, high),
        FilterInstruction(AND, mask_high),
        FilterInstruction(EQUAL, upper, otherwise=_FAIL),
    ]
    steps += [FilterInstruction(LOAD, low), FilterInstruction(AND, mask_low)]
    values = [value & 0xFFFFFFFF for value in condition.values]
    for place, value in enumerate(values):
        left = len(values) - place - 1
        steps.append(FilterInstruction(EQUAL, value, then=left, otherwise=0 if left else _FAIL))
    return steps


def _resolve_jumps(body: Sequence[FilterInstruction]) -> list[FilterInstruction]:
    """Return the steps with distances for those that jump to the last step, which loads the number again."""
    last = len(body) - 1
    return [
        FilterInstruction(step.code, step.value, step.then, last - place - 1) if step.otherwise == _FAIL else step
        for place, step in enumerate(body)
    ]


ARCHITECTURES: dict[Machine, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_INT = 0xFFFFFFFF  # the kernel uses the lower half of an int only

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
# With a private /tmp. Landlock and the mounts decide that these calls change files there and nowhere else.
_WRITING = """
    mkdir mkdirat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat
    ftruncate fallocate fsync fdatasync pwritev
    """
FREE, WRITING = frozenset(_FREE.split()), frozenset(_WRITING.split())
# Newer calls with a structure that a filter cannot read: without them the C library uses the older ones.
UNKNOWN = ("clone3", "openat2")

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
_QUESTIONS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIO(N)CLEX


def confine_arguments(machine: Machine, own_pid: int, *, writing: bool) -> bytes:
    """Return the program for a worker with this process number."""
    abort = SyscallRule(NUMBERS[machine]["tgkill"], (Argument(0, (own_pid,), _INT),))  # for abort() and similar
    return program(ARCHITECTURES[machine], errno.EPERM, [abort], common(machine, writing=writing))


@cache
def common(machine: Machine, *, writing: bool) -> bytes:
    """Return the rules that are the same for all workers; a zygote assembles them before it forks."""
    numbers = NUMBERS[machine]
    rules = [SyscallRule(numbers[name]) for name in sorted(FREE | WRITING if writing else FREE) if name in numbers]

    def allow(name: str, *conditions: Argument) -> None:
        if name in numbers:
            rules.append(SyscallRule(numbers[name], conditions))

    for name, flags in (("open", 1), ("openat", 2)):
        allow(name, *(() if writing else (Argument(flags, (0,), _CHANGES),)))
    allow("fcntl", Argument(1, _DESCRIPTOR_COMMANDS, _INT))  # not F_SETOWN: that sends signals to other processes
    allow("ioctl", Argument(1, _QUESTIONS, _INT))  # not TIOCSTI: that types into a terminal
    allow("prlimit64", Argument(0, (0,), _INT), Argument(2, (0,)))  # read its own limits, set none
    return assemble(rules, {numbers[name]: errno.ENOSYS for name in UNKNOWN})


def restrict(filter_program: bytes) -> None:
    """Impose a program on all threads of this process for good; raise OSError if that fails."""
    steps = ctypes.create_string_buffer(filter_program, len(filter_program))
    header = struct.pack("@HP", len(filter_program) // 8, ctypes.addressof(steps))
    # The result is the thread that could not be brought along, or 0.
    if kernel.call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, header):
        raise OSError(errno.EBUSY, "seccomp: a thread could not be brought along")
