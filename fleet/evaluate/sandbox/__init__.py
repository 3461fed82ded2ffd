"""The sandbox for untrusted code, made by plain calls to the kernel: it needs no program, no daemon and no root.

    level                              the levels A, B and none, and the layers of each
    probe                              which level this machine gives
    mounts, landlock, seccomp, cgroup  one layer each; kernel: the system calls
    confine                            all of them, in the order they need

docs/security.md says what each layer defends against, with the attacks that the tests make.
"""
