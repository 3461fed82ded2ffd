"""Whether a commit comes from somebody who may say what clusters look like."""

from __future__ import annotations

from pathlib import Path

from fleet.git.repository import Repository as Git
from fleet.git.signature import signed_by


def check_signature(git: Git, revision: str, signers: Path) -> str:
    """Raise PolicyError unless the commit is signed by one of them; before anything of it is evaluated."""
    return signed_by(git, git.resolve(revision), signers)
