"""What is on the machine, so that a test can compare before and after."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

PLACES = ("/run", "/var/run", "/var/lib", "/var/log", "/opt", "/etc", "/usr/libexec", "/tmp")


def snapshot() -> dict[str, set[str]]:
    """Everything a lab could leave: processes, mounts, control groups, links, namespaces, rules, files."""
    return {
        "processes": {_described(one) for one in psutil.process_iter() if _is_ours(one)},
        "mounts": {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()},
        "cgroups": {str(path) for path in Path("/sys/fs/cgroup").glob("**/fleet-lab-*")},
        "links": {path.name for path in Path("/sys/class/net").iterdir()},
        "namespaces": _namespaces(),
        "rules": set(_output("iptables-save").splitlines()) | set(_output("nft", "list", "ruleset").splitlines()),
        "routes": set(_output("ip", "route", "show", "table", "all").splitlines()),
        "files": {str(path) for place in PLACES for path in Path(place).glob("*")},
    }


def difference(before: dict[str, set[str]], after: dict[str, set[str]], lab: Path) -> dict[str, set[str]]:
    """What is there now and was not before, by kind; other programs' temporary files are not a lab's."""
    found = {kind: after[kind] - before[kind] for kind in after}
    found["files"] = {path for path in found["files"] if not path.startswith("/tmp/")}
    if lab.exists():
        found["files"].add(str(lab))
    return {kind: things for kind, things in found.items() if things}


NAMES = {"etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kubelet", "kube-proxy", "provisioner"}
NAMES |= {"coredns", "kwok", "containerd", "containerd-shim", "containerd-shim-runc-v2", "pause", "unshare", "runc"}


def _is_ours(one: psutil.Process) -> bool:
    try:
        return one.name() in NAMES and one.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _described(one: psutil.Process) -> str:
    return f"{one.pid} {one.name()}"


def _namespaces() -> set[str]:
    """The network namespaces that any process is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns" / "net").readlink()))
        except OSError:
            continue
    return found


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
