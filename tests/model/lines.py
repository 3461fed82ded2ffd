"""Where this test file has a mark: tests of error positions name lines by what is written on them."""

from __future__ import annotations

from pathlib import Path


def line_of(file: str, mark: str) -> int:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, start=1) if line.rstrip().endswith(f"# {mark}")]
    return found
