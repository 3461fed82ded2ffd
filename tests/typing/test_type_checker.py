"""A strict type checker on users' stacks: silent on right ones, and on wrong ones the error at the very line."""

from __future__ import annotations

import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".mypy_cache" / "stacks"
_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<message>.*)")


@pytest.fixture(scope="module")
def errors() -> dict[str, dict[int, list[str]]]:
    """What mypy says, by file and line; with no configuration but --strict, as a user may have it."""
    files = [*sorted((HERE / "right").glob("*.py")), *sorted((HERE / "wrong").glob("*.py"))]
    report, failure, _ = api.run(
        ["--strict", "--config-file=", f"--cache-dir={CACHE}", "--hide-error-codes", *map(str, files)]
    )
    assert not failure
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in report.splitlines():
        if match := _ERROR.fullmatch(line):
            found[Path(match["file"]).name][int(match["line"])].append(match["message"])
    return found


@pytest.mark.parametrize("file", sorted(one.name for one in (HERE / "right").glob("*.py")))
def test_a_right_stack_passes(errors: dict[str, dict[int, list[str]]], file: str) -> None:
    assert errors.get(file, {}) == {}


def test_a_right_stack_runs_in_a_users_own_test() -> None:
    runpy.run_path(str(HERE / "right" / "orders.py"))["test_orders"]()


def test_a_wrong_stack_fails_at_each_wrong_line_and_nowhere_else(errors: dict[str, dict[int, list[str]]]) -> None:
    text = (HERE / "wrong" / "stack.py").read_text(encoding="utf-8").splitlines()
    expected = {number: line.partition("# E: ")[2] for number, line in enumerate(text, start=1) if "# E: " in line}
    found = errors["stack.py"]
    assert sorted(found) == sorted(expected)
    for line, message in expected.items():
        assert any(message in said for said in found[line]), (line, message, found[line])
