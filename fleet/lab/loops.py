"""The loop devices behind a lab's volumes: found by the file that they show, and released.

A device outlives whoever made it, so it is found from the lab's directory alone: the provisioner links to a device
before it makes it, and removes the link after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import time
from pathlib import Path

CLEAR, REMOVE = 0x4C01, 0x4C81  # LOOP_CLR_FD, LOOP_CTL_REMOVE
BLOCKS = Path("/sys/block")


def devices(directory: Path) -> list[Path]:
    """Those that show a file below a directory, and those that were made for one and show none yet."""
    below = directory.resolve()
    found = {entry.name for entry in BLOCKS.glob("loop*") if (shown := file_of(entry.name)) and below in shown.parents}
    for name in links(directory):
        if (BLOCKS / name).exists() and file_of(name) is None:
            found.add(name)
    return sorted(Path("/dev") / name for name in found)


def links(directory: Path) -> dict[str, Path]:
    """The links of a lab's provisioner by the devices that they name; it may remove some meanwhile."""
    found = {}
    for link in glob.glob(f"{glob.escape(str(directory))}/*/volumes/*/*/device"):  # noqa: PTH207 - pathlib's would fail
        with contextlib.suppress(OSError):
            found[Path(link).readlink().name] = Path(link)
    return found


def file_of(name: str) -> Path | None:
    """The file that a device shows, also if it is deleted meanwhile; None if it shows none."""
    try:
        shown = (BLOCKS / name / "loop" / "backing_file").read_text().strip()
    except OSError:
        return None
    return Path(shown.removesuffix(" (deleted)"))


def release(device: Path) -> None:
    """Take its file from a device and remove it; one that is still open somewhere stays until it is closed there."""
    with contextlib.suppress(OSError):
        _ask(device, CLEAR)
    try:
        _ask(Path("/dev/loop-control"), REMOVE, int(device.name.removeprefix("loop")))
    except OSError:
        time.sleep(0.05)
    else:
        device.unlink(missing_ok=True)  # where /dev is not the kernel's, nobody else does


def _ask(device: Path, request: int, argument: int = 0) -> None:
    handle = os.open(device, os.O_RDWR)
    try:
        fcntl.ioctl(handle, request, argument)
    finally:
        os.close(handle)
