"""Which system calls a worker may make: reading files, memory, time, its own signals, and its answer. All else fails.

A list of what is allowed, so that what nobody thought of, and what kernels learn in the years to come, is refused.
Refusals are errors (EPERM), at the user's line, like any other file or socket that cannot be had. Landlock leaves much
to this layer: it knows files that are opened, but not modes, owners, times, locks and signals.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache

from fleet.evaluate.sandbox import kernel
from fleet.evaluate.sandbox.bpf import Argument, Rule, assembled, program
from fleet.evaluate.sandbox.syscalls import NUMBERS, Machine

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


def confined(machine: Machine, own_pid: int, *, writing: bool) -> bytes:
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
    return assembled(rules, {numbers[name]: errno.ENOSYS for name in UNKNOWN})


def restrict(filter_program: bytes) -> None:
    """From here on for all threads of this process; it cannot be taken back."""
    steps = ctypes.create_string_buffer(filter_program, len(filter_program))
    header = struct.pack("@HP", len(filter_program) // 8, ctypes.addressof(steps))
    # The thread that could not be brought along is the result, if there is one.
    if kernel.call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, header):
        raise OSError(errno.EBUSY, "seccomp: a thread could not be brought along")
