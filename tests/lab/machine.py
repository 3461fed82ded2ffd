"""What is on the machine, so that a test can compare before and after.

Other labs may come and go meanwhile, and evaluations in namespaces of their own. What carries the mark, the identity or
the path of another lab is taken as theirs; a process of the kinds that labs start, without a mark, counts as left
behind.
"""

from __future__ import annotations

import glob
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.lab import files
from fleet.lab.cluster import cgroups, volumes
from fleet.lab.programs import process
from fleet.lab.spec import directory_identity

PLACES = ("/run", "/var/run", "/var/lib", "/var/log", "/opt", "/etc", "/usr/libexec", "/tmp")
NAMES = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}
NAMES |= {"provisioner", "coredns", "containerd", "containerd-shim-runc-v2", "pause", "unshare", "runc"}
NAMES |= {"gitea", "versitygw"}
KERNEL = {"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"}
KERNEL |= {"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}
TEST_MOUNT = "fleet-test"  # the source of what tests mount for themselves
PASSING = 5.0  # so long may a thing of nobody be there: another lab's, caught between its beginning and its mark


@dataclass(frozen=True, slots=True)
class Machine:
    """Things by kind, and the directories of the labs that run."""

    things: dict[str, set[str]]
    labs: set[Path]


def snapshot() -> Machine:
    """Everything a lab could leave: processes, mounts, groups, links, devices, namespaces, rules, files, settings."""
    things = {
        "processes": {described for one in psutil.process_iter() if (described := _described(one))},
        "mounts": _mounts(),
        "cgroups": {
            str(path) for path in cgroups.list_groups(Path("/sys/fs/cgroup")) if path.name.startswith("fleet-lab-")
        },
        "links": {path.name for path in Path("/sys/class/net").iterdir()},
        "devices": _devices(),
        "namespaces": _namespaces(),
        "rules": set(_output("iptables-save").splitlines()) | set(_output("nft", "list", "ruleset").splitlines()),
        "routes": set(_output("ip", "route", "show", "table", "all").splitlines()),
        "files": {str(path) for place in PLACES for path in Path(place).glob("*")},
        "kernel": {f"{name} {path.read_text()}" for name in KERNEL if (path := Path("/proc/sys") / name).exists()},
    }
    return Machine(things, {Path(lab) for one in psutil.process_iter() if (lab := mark(one))})


def left_behind(before: Machine, lab: Path) -> dict[str, set[str]]:
    """What a lab has left, by kind: at once what says it is of it; what says nothing, if it is there after a while."""
    end = time.monotonic() + PASSING
    while found := difference(before, snapshot(), lab):
        if time.monotonic() > end or any(_is_of(lab, one) for things in found.values() for one in things):
            return found
        time.sleep(0.5)
    return {}


def difference(before: Machine, after: Machine, lab: Path) -> dict[str, set[str]]:
    """What is there now and was not before, by kind; other labs and other programs' temporary files are not counted."""
    others = (before.labs | after.labs) - {lab}
    news = {kind: after.things[kind] - before.things[kind] for kind in after.things}
    found = {
        kind: {one for one in _not_of(others, things) if not _names_another(lab, one)} for kind, things in news.items()
    }
    found["files"] = {path for path in found["files"] if not path.startswith("/tmp/")}
    if lab.exists():
        found["files"].add(str(lab))
    return {kind: things for kind, things in found.items() if things}


def _not_of(labs: Iterable[Path], things: set[str]) -> set[str]:
    return {thing for thing in things if not any(_is_of(lab, thing) for lab in labs)}


def _names_another(lab: Path, thing: str) -> bool:
    """Whether it has the identity or the path of a lab that is not this one: that has no process yet, or no more."""
    if any("labs" in Path(word).parts[:-1] for word in thing.split()):
        return not _is_of(lab, thing)
    named = set(re.findall(r"\b(?:fl|fleet-lab-)([0-9a-f]{6})\b", thing))
    return bool(named) and directory_identity(lab) not in named


def _is_of(lab: Path, thing: str) -> bool:
    identity = directory_identity(lab)
    below = any(Path(word).is_relative_to(lab) for word in thing.split())
    return below or f"fl{identity}-" in thing or f"fleet-lab-{identity}" in thing


def mark(one: psutil.Process) -> str:
    """The directory of the lab that a process says it is of; "" for one that says nothing."""
    try:
        return one.environ().get(process.MARK, "") if one.status() != psutil.STATUS_ZOMBIE else ""
    except (psutil.Error, OSError):
        return ""


def _described(one: psutil.Process) -> str:
    """A process that a lab could have started, with the lab that it is of; "" for any other."""
    try:
        ours = one.name() in NAMES and one.status() != psutil.STATUS_ZOMBIE
        lab = lab_of(one) if ours else ""
        if not lab and not one.cmdline():
            return ""  # its memory is gone, and its mark with it: another lab's that ends at this moment
        return f"{one.pid} {one.name()} {lab}".strip() if ours else ""
    except psutil.Error:
        return ""


def _mounts() -> set[str]:
    """Where something is mounted, but for what another test has mounted for itself."""
    lines = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {fields.split()[4] for fields, _, kind in lines if kind.split()[1] != TEST_MOUNT}


def _devices() -> set[str]:
    """The loop devices, each with its file; those that show none are a lab's that made them, by its link to them."""
    found = set()
    for path in volumes.BLOCKS.glob("loop*"):
        file = volumes.backing_file(path.name)
        if not file and int(path.name.removeprefix("loop")) >= 4096:
            file = _link_to(path.name)  # whoever makes or removes one has a link to it before and after
        elif not file:
            continue
        if path.exists():
            found.add(f"{path.name} {file or ''}".strip())
    return found


def _link_to(device: str) -> Path | None:
    marks = {lab for one in psutil.process_iter() if (lab := mark(one))}
    places = {files.labs_directory(), *(Path(one).parent for one in marks), *Path("/tmp").glob("fl*/labs")}
    labs = [Path(lab) for place in places for lab in glob.glob(f"{place}/*")]  # noqa: PTH207 - they come and go
    return next((links[device] for lab in labs if device in (links := volumes.read_device_links(lab))), None)


def _namespaces() -> set[str]:
    """The network namespaces beside ours that a process of a lab is in, or one that a lab could have started."""
    found: dict[str, str] = {}
    own = str(Path("/proc/self/ns/net").readlink())
    for one in psutil.process_iter():
        try:
            namespace = str(Path(f"/proc/{one.pid}/ns/net").readlink())
        except OSError:
            continue
        if namespace != own and (lab_of(one) or _described(one)):
            found[namespace] = found.get(namespace, "") or lab_of(one)
    return {f"{namespace} {lab}".strip() for namespace, lab in found.items()}


def lab_of(one: psutil.Process) -> str:
    """The lab that a process says it is of, or whose control group it is in, or that the one which started it is of.

    Gitea calls itself as a hook of git, with an environment of git's own.
    """
    try:
        groups = Path(f"/proc/{one.pid}/cgroup").read_text().split()
        group = next((group for group in groups if "fleet-lab-" in group), "")
        return mark(one) or group or next((lab for parent in one.parents() if (lab := mark(parent))), "")
    except (psutil.Error, OSError):
        return mark(one)


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
