"""What one git operation may use. A repository is input from others: no size in it is trusted."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of time and size; the defaults fit a large configuration repository."""

    seconds: float = 60  # of one local command
    memory_bytes: int = 2048 * MIB  # of address space, for the same
    transfer_seconds: float = 600  # of one fetch or push
    transfer_bytes: int = 2048 * MIB  # of one pack that is received
    transfer_memory_bytes: int = 4096 * MIB  # of each process of a fetch or push
    output_bytes: int = 256 * MIB  # of one command's output
    files: int = 100_000  # of one tree
    merged_files: int = 500_000  # of one that is merged: the fleet may be a small part of it
    depth: int = 100  # of directories
    path_bytes: int = 1024
    file_bytes: int = 32 * MIB
    tree_bytes: int = 1024 * MIB  # of all files of one tree


USUAL = Limits()
