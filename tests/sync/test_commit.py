"""The entry of a run: what the user and fleet.toml say becomes options in one place, whoever starts the run."""

from __future__ import annotations

import re
from pathlib import Path

import fleet

ENTRY = "sync/commit.py"
# The identity of a merge is known only when its base is read, which is after these made their options.
OF_MERGES = {"cli/commands/preview.py", "serve/report/preview_process.py"}


def files_with(pattern: str) -> set[str]:
    """Return the modules of fleet in which a pattern occurs, by their paths."""
    modules = ((path.relative_to(fleet.ROOT).as_posix(), path) for path in Path(fleet.ROOT).rglob("*.py"))
    return {name for name, path in modules if re.search(pattern, path.read_text(encoding="utf-8"))}


def test_options_of_a_run_are_made_in_one_place() -> None:
    assert files_with(r"(?<!class )\bSyncOptions\(") == {ENTRY, *OF_MERGES}
    callers = {"cli/commands/destroy.py", "agent/agent.py", "serve/reconcile.py"}
    assert files_with(r"\brun_options\(") == {ENTRY, *callers}
    assert files_with(r"\b(?:sync_commit|plan_commit)\(") == {
        ENTRY,
        *(f"cli/commands/{command}.py" for command in ("sync", "preview", "diff", "approve")),
    }


def test_one_rollout_decides_for_a_run_the_service_and_the_publisher_of_bundles() -> None:
    callers = {"sync/rollout/order.py", "serve/rollout.py", "bundle/rollout.py"}
    assert files_with(r"(?<!class )\bCommitRollout\(") == callers
