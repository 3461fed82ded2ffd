"""Copies of fleet's own code, to be edited: tests of what one edit is enough for run them in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_fleet(directory: Path) -> Path:
    """Copy the package into a directory, without what Python compiled, and return it."""
    return Path(
        shutil.copytree(ROOT / "fleet", directory / "fleet", ignore=shutil.ignore_patterns("__pycache__", "lab"))
    )


def insert_before(file: Path, line: str, text: str) -> None:
    """Insert lines before the only place where a file has this line."""
    content = file.read_text(encoding="utf-8")
    assert content.count(line) == 1, f"{file.name} has {content.count(line)} times {line!r}"
    file.write_text(content.replace(line, text + line), encoding="utf-8")


def run_code(directory: Path, code: str) -> str:
    """Run Python code with the copy in a directory in place of fleet; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{directory}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=directory, check=False, capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
