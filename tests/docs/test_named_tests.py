"""Tests that pages name: each file, function and case exists, and each row of the tables of findings names one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.document import ROOT, pages

TESTS = sorted((ROOT / "tests").rglob("*.py"))
SECURITY, ROBUSTNESS = ROOT / "docs" / "security.md", ROOT / "docs" / "robustness.md"
FINDINGS = [  # tables whose second column is the test
    (SECURITY, "## Attacks that succeeded, and their fixes", 20),
    (ROBUSTNESS, "## Promises that did not hold", 30),
]
SHORTENED = {  # in the last column of the table of security.md
    "E": "tests/evaluate/test_further_attacks.py",
    "S": "tests/serve/scenarios/test_further_attacks.py",
}
OPERATOR = "tests/operator/scenarios/test_further_attacks.py"  # of tests without a file in robustness.md
_REFERENCE = re.compile(r"`(?P<file>(?:tests/)?[\w/]*\btest_\w+\.py)(?:::(?P<test>\w+))?`(?: \(`(?P<case>[^`]+)`\))?")


@cache
def functions(file: Path) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    definitions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in definitions if node.name.startswith("test_"))


@cache
def texts(file: Path) -> frozenset[str]:
    """Return the texts in quotes of a file and of the helpers that it imports, of which names of cases are some."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    own = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    helpers = [ROOT / f"{module.replace('.', '/')}.py" for module in modules if module.startswith("tests.")]
    return frozenset(own).union(*(texts(helper) for helper in helpers if helper.is_file()))


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the first table below a heading."""
    section = page.read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def named_files(name: str) -> list[Path]:
    """Return the files that a name may mean: a path from the root, or the end of one."""
    return [file for file in TESTS if f"/{file.relative_to(ROOT).as_posix()}".endswith(f"/{name}")]


def find_missing(text: str) -> list[str]:
    """Return the references in a text to files, tests and cases that do not exist."""
    missing = []
    for reference in _REFERENCE.finditer(text):
        test, case = reference["test"], reference["case"]
        files = [file for file in named_files(reference["file"]) if not test or test in functions(file)]
        if case and not (ROOT / case).is_file():
            files = [file for file in files if case in texts(file)]
        missing += [] if files else [reference[0]]
    return missing


@pytest.mark.parametrize("page", [SECURITY, ROBUSTNESS], ids=["security", "robustness"])
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert find_missing(page.read_text(encoding="utf-8")) == []


def test_every_path_of_a_test_exists() -> None:
    """A user's own tests lie in `tests/` itself; ours in folders of it."""
    for page in pages():
        paths = re.findall(r"\btests/[a-z_]+/[\w/.]*\w", page.read_text(encoding="utf-8"))
        assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == [], page


@pytest.mark.parametrize(("page", "heading", "least"), FINDINGS, ids=["security", "robustness"])
def test_every_finding_names_its_tests(page: Path, heading: str, least: int) -> None:
    findings = rows(page, heading)
    assert len(findings) >= least
    for cells in findings:
        references = list(_REFERENCE.finditer(cells[1]))
        assert references and all(reference["test"] for reference in references), cells[0]
        assert all(reference["file"].startswith("tests/") for reference in references), cells[0]


def test_every_further_attack_names_its_test() -> None:
    attacks = rows(SECURITY, "## Further attacks")
    assert len(attacks) > 20
    for cells in attacks:
        letter, _, named = cells[-1].partition(": ")
        file = ROOT / SHORTENED[letter]
        shortened = re.findall(r"`([^`]+)`", named)
        assert shortened, cells[1]
        for name in shortened:
            assert [text for text in functions(file) | texts(file) if name in text], f"{cells[1]}: {name}"
    attacks = rows(ROBUSTNESS, "## Further attacks on the operator")
    assert len(attacks) > 15
    for cells in attacks:
        names = re.findall(r"`(test_\w+)`", cells[-1])
        assert names or _REFERENCE.search(cells[-1]), cells[1]
        assert set(names) <= functions(ROOT / OPERATOR), cells[1]


@pytest.mark.parametrize(
    "text",
    [
        "`tests/docs/test_nothing.py`",
        "`tests/docs/test_pages.py::test_no_such_thing`",
        "`test_pages.py::test_no_such_thing`",
        "`tests/docs/test_pages.py::test_links_lead_somewhere` (`no such case`)",
    ],
)
def test_a_name_of_nothing_is_noticed(text: str) -> None:
    assert find_missing(text) == [text]
