"""The system packages that real nodes and image builds need: installed where the system allows it, else named."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab.progress import Progress

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/cni"
NODES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "mount": "mount",
    "mkfs.xfs": "xfsprogs",
}
IMAGES = {"mmdebstrap": "mmdebstrap"}
_ONE_AT_A_TIME = threading.Lock()  # apt locks what it reads without waiting


def require(programs: dict[str, str], purpose: str) -> None:
    """Make sure that the programs are there; install the Debian packages of those that are not."""
    with _ONE_AT_A_TIME:
        missing = find_missing(programs, purpose)
        if missing:
            with Progress(f"installing {', '.join(missing)}"):
                _apt("update")
                _apt("install", "--yes", "--no-install-recommends", *missing)


def find_missing(programs: dict[str, str], purpose: str) -> list[str]:
    """Return the Debian packages of the programs that are not there; raise if they cannot be installed here."""
    missing = sorted({package for program, package in programs.items() if not find(program)})
    if missing and not can_install():
        raise ResourceError(
            f"{purpose} need programs that are not installed: {', '.join(missing)}",
            hint="install them with the system's package manager (the names are Debian's), as root",
        )
    return missing


def can_install() -> bool:
    return bool(shutil.which("apt-get")) and os.geteuid() == 0


def find(program: str) -> str | None:
    # `bridge` is a CNI plugin here, not iproute2's command of that name.
    if program == "bridge":
        return program if (Path("/usr/lib/cni") / program).exists() else None
    return shutil.which(program, path=SEARCH)


def _apt(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise ResourceError(
            f"`{' '.join(command)}` failed:\n{done.stderr.strip()[-800:]}",
            hint="install the packages by hand and try again",
        )
