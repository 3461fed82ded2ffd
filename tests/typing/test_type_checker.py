"""A strict type checker on users' stacks: silent on right ones, and on wrong ones the error at the very line. And what
editors show that use Jedi.
"""

from __future__ import annotations

import re
import runpy
from collections import defaultdict
from pathlib import Path

import jedi
import pytest
from mypy import api

from fleet.apps import Etcd
from fleet.model.base import field_docs

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


EDITED = """import fleet
from fleet.apps import Etcd
from fleet import Backup

app = Etcd("db", version="3.5",
app.force
fleet.Bac
Backup(
"""


def _edited(line: int) -> tuple[jedi.Script, int, int]:
    """A script as an editor has it, with the cursor at the end of one line and without those behind it."""
    lines = EDITED.splitlines()[:line]
    if line > 5:
        lines[4] += ")"
    script = jedi.Script("\n".join(lines), path=HERE / "edited.py", project=jedi.Project(HERE.parent.parent))
    return script, line, len(lines[-1])


def test_an_editor_with_jedi_shows_what_can_be_said_of_an_app_and_what_its_fields_are_for() -> None:
    script, *end = _edited(5)
    (signature,) = script.get_signatures(*end)
    shown = signature.to_string()
    assert [name for name in Etcd.model_fields if f" {name}: " not in shown.replace("(", " ")] == []
    assert "members: Annotated[int, Field(ge=1, le=7), ODD]=3" in shown
    assert signature.docstring().endswith("An etcd cluster.")
    script, *end = _edited(6)
    (field,) = script.complete(*end)
    assert (field.name, field.docstring()) == ("force_quorum", field_docs(Etcd)["force_quorum"])
    script, *end = _edited(7)
    assert [one.name for one in script.complete(*end)] == ["Backup"]
    script, *end = _edited(8)
    (signature,) = script.get_signatures(*end)
    assert {"to", "schedule", "keep"} <= {one.name for one in signature.params}
