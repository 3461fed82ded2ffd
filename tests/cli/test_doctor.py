"""What `fleet doctor` says of a machine is what the machine does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet.evaluate import Pool


def doctor(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({} if path is None else {"PATH": path})
    command = [sys.executable, "-m", "fleet", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {one["what"]: one for one in json.loads(done.stdout)}


def test_it_says_the_level_that_evaluations_get() -> None:
    done = doctor("--output=json")
    with Pool() as pool:
        given = pool.sandbox_report()

    assert done.returncode == 0, done.stderr
    sandbox = findings(done)["sandbox"]
    assert sandbox["found"] == f"level {given.level}"
    assert all(why in sandbox["note"] for why in given.why_not.values())
    assert findings(done)["cgroup"]["found"] == (given.group or "none")
    assert bool(findings(done)["cgroup"]["note"]) == (not given.group), "never without a reason"


def test_it_is_a_table_for_people() -> None:
    head, *lines = doctor().stdout.splitlines()
    assert head.split() == ["WHAT", "FOUND", "OK", "NOTE"]
    assert [line.split()[0] for line in lines] == ["python", "git", "sandbox", "cgroup"]


@pytest.mark.parametrize(("script", "found"), [(None, "none"), ("echo git version 1.8.3.1", "1.8.3.1")])
def test_what_is_missing_is_told_and_an_error(tmp_path: Path, script: str | None, found: str) -> None:
    if script:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o755)
    done = doctor("--output=json", path=str(tmp_path))

    assert done.returncode == 1
    git = findings(done)["git"]
    assert (git["found"], git["ok"]) == (found, False)
    assert git["note"]
