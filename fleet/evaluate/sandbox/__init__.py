"""A sandbox for code that nobody trusts, in plain calls to the kernel: no program, no daemon, no root needed.

    level                              the ladder: what A, B and none consist of
    probe                              which of them this machine gives
    mounts, landlock, seccomp, cgroup  one layer each; kernel: the system calls
    confine                            all of them, in the order they need

docs/security.md says against what each layer stands, with the attacks that the tests make.
"""
