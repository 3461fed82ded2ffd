"""Whether a commit comes from somebody who may say what clusters look like."""

from __future__ import annotations

from pathlib import Path

from fleet.git.signature import signed_by
from fleet.sync.source import Files


def check_signature(files: Files, signers: Path) -> str:
    """Raise PolicyError unless the commit is signed by one of them; before anything of it is evaluated."""
    assert files.git is not None  # noqa: S101 - commits come from git
    return signed_by(files.git, files.git.resolve(files.revision), signers)
