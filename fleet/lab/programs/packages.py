"""System packages that real nodes and image builds need: installed where the system allows it, else named."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab.progress import BuildProgress

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
_APT_LOCK = threading.Lock()  # apt locks what it reads without waiting


def require_programs(programs: dict[str, str], purpose: str) -> None:
    """Install the Debian packages of programs that the machine does not have."""
    with _APT_LOCK:
        missing = find_missing(programs, purpose)
        if missing:
            with BuildProgress(f"installing {', '.join(missing)}"):
                _apt("update")
                _apt("install", "--yes", "--no-install-recommends", *missing)


def find_missing(programs: dict[str, str], purpose: str) -> list[str]:
    """Return the Debian packages of programs that the machine does not have.

    Raises ResourceError if packages are missing and cannot be installed here.
    """
    missing = sorted({package for program, package in programs.items() if not find_program(program)})
    if missing and not can_install():
        raise ResourceError(
            f"{purpose} need programs that are not installed: {', '.join(missing)}",
            hint="install them with the system's package manager (the names are Debian's), as root",
        )
    return missing


def can_install() -> bool:
    """Return whether packages can be installed here: with apt, as root."""
    return bool(shutil.which("apt-get")) and os.geteuid() == 0


def find_program(program: str) -> str | None:
    """Return the path of a program, None if the machine does not have it."""
    # `bridge` is a CNI plugin here, not iproute2's command of that name.
    if program == "bridge":
        return program if (Path("/usr/lib/cni") / program).exists() else None
    return shutil.which(program, path=SEARCH)


def _apt(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments]
    process = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if process.returncode:
        raise ResourceError(
            f"`{' '.join(command)}` failed:\n{process.stderr.strip()[-800:]}",
            hint="install the packages by hand and try again",
        )
