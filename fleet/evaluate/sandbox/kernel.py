"""Raw system calls, and the numbers of those that a sandbox is made with or allows.

The numbers are of the machines that the sandbox is known to work on. A test compares them with the headers of the
kernel where these are installed. `call` and `clone` are for the few calls that Python has no function for; they go
through the C library and raise OSError when a call fails.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any, Literal

Machine = Literal["x86_64", "aarch64"]


def _parse_numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (entry.partition("=") for entry in text.split())}


NUMBERS: dict[Machine, dict[str, int]] = {
    "x86_64": _parse_numbers(
        """
        read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11 brk=12
        rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 ioctl=16 pread64=17 pwrite64=18 readv=19 writev=20
        access=21 pipe=22 select=23 sched_yield=24 mremap=25 mincore=27 madvise=28 dup=32 dup2=33 pause=34
        nanosleep=35 getitimer=36 alarm=37 setitimer=38 getpid=39 clone=56 exit=60 uname=63 fcntl=72 fsync=74
        fdatasync=75 ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83 rmdir=84 link=86
        unlink=87 symlink=88 readlink=89 umask=95 gettimeofday=96 getrlimit=97 getrusage=98 sysinfo=99 times=100
        getuid=102 getgid=104 geteuid=107 getegid=108 getppid=110 getpgrp=111 getgroups=115 getresuid=118
        getresgid=120 capset=126 rt_sigpending=127 rt_sigtimedwait=128 sigaltstack=131 statfs=137 fstatfs=138
        pivot_root=155 prctl=157 mount=165 umount2=166 sethostname=170 gettid=186 time=201 futex=202
        sched_getaffinity=204 getdents64=217 set_tid_address=218 restart_syscall=219 clock_gettime=228
        clock_getres=229 clock_nanosleep=230 exit_group=231 tgkill=234 openat=257 mkdirat=258 newfstatat=262
        unlinkat=263 renameat=264 linkat=265 symlinkat=266 readlinkat=267 faccessat=269 pselect6=270 ppoll=271
        unshare=272 set_robust_list=273 fallocate=285 dup3=292 pipe2=293 preadv=295 pwritev=296 prlimit64=302
        getcpu=309 renameat2=316 seccomp=317 getrandom=318 membarrier=324 statx=332 rseq=334 clone3=435
        close_range=436 openat2=437 faccessat2=439 mount_setattr=442 landlock_create_ruleset=444
        landlock_add_rule=445 landlock_restrict_self=446
        """
    ),
    "aarch64": _parse_numbers(
        """
        getcwd=17 dup=23 dup3=24 fcntl=25 ioctl=29 mkdirat=34 unlinkat=35 symlinkat=36 linkat=37 renameat=38
        umount2=39 mount=40 pivot_root=41 statfs=43 fstatfs=44 ftruncate=46 fallocate=47 faccessat=48 chdir=49
        fchdir=50 openat=56 close=57 pipe2=59 getdents64=61 lseek=62 read=63 write=64 readv=65 writev=66
        pread64=67 pwrite64=68 preadv=69 pwritev=70 pselect6=72 ppoll=73 readlinkat=78 newfstatat=79 fstat=80
        fsync=82 fdatasync=83 capset=91 exit=93 exit_group=94 set_tid_address=96 unshare=97 futex=98
        set_robust_list=99 nanosleep=101 getitimer=102 setitimer=103 clock_gettime=113 clock_getres=114
        clock_nanosleep=115 sched_getaffinity=123 sched_yield=124 restart_syscall=128 tgkill=131 sigaltstack=132
        rt_sigaction=134 rt_sigprocmask=135 rt_sigpending=136 rt_sigtimedwait=137 rt_sigreturn=139 getresuid=148
        getresgid=150 times=153 getgroups=158 uname=160 sethostname=161 getrlimit=163 getrusage=165 umask=166
        prctl=167 getcpu=168 gettimeofday=169 getpid=172 getppid=173 getuid=174 geteuid=175 getgid=176
        getegid=177 gettid=178 sysinfo=179 brk=214 munmap=215 mremap=216 clone=220 mmap=222 mprotect=226 mincore=232
        madvise=233 prlimit64=261 renameat2=276 seccomp=277 getrandom=278 membarrier=283 statx=291 rseq=293
        clone3=435 close_range=436 openat2=437 faccessat2=439 mount_setattr=442 landlock_create_ruleset=444
        landlock_add_rule=445 landlock_restrict_self=446
        """
    ),
}


_syscall = getattr(ctypes.CDLL(None, use_errno=True), "syscall", None)
_syscall_as_python = getattr(ctypes.PyDLL(None, use_errno=True), "syscall", None)  # the interpreter's lock is kept
for _function in (_syscall, _syscall_as_python):
    if _function is not None:
        _function.restype = ctypes.c_long

MACHINE: Machine | None = {"x86_64": "x86_64", "aarch64": "aarch64"}.get(platform.machine())  # type: ignore[assignment]


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call by its name and return its result; raise OSError if it fails."""
    return _call(_syscall, name, *arguments)


def clone(flags: int) -> int:
    """Copy this process and return as fork does; the caller must notify Python itself before and after."""
    return _call(_syscall_as_python, "clone", flags, 0, 0, 0, 0)


def _call(function: Any, name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    if MACHINE is None or function is None:
        raise OSError(f"the system calls of {platform.machine()} are not known")
    result: int = function(ctypes.c_long(NUMBERS[MACHINE][name]), *map(_convert_argument, arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _convert_argument(value: int | bytes | ctypes.Array[ctypes.c_char] | None) -> object:
    """Return an argument for the C library, with integers as wide as a register: it passes them on unchanged."""
    return ctypes.c_long(value) if isinstance(value, int) else value
