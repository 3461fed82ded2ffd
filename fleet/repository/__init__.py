"""The repository that users write: its settings and which files hold stacks and clusters."""

from fleet.repository.repository import Repository, find_root
from fleet.repository.settings import Approval, Budget, Code, Fleet, GitSettings, Limits, Paths, Settings, Trust

__all__ = [
    "Approval",
    "Budget",
    "Code",
    "Fleet",
    "GitSettings",
    "Limits",
    "Paths",
    "Repository",
    "Settings",
    "Trust",
    "find_root",
]
