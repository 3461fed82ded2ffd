"""`fleet explain --replay`: a file of anybody, decided again without any cluster. What a running operator answers is
in tests/operator/scenarios/test_explain.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.cli import run
from fleet.kit.operate.record import pack_record
from tests.kit.test_record import record_of
from tests.operator.etcd.observations import Drawing


def test_a_record_is_decided_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps(record_of(Drawing().silence("db-2").seen())))
    assert run(["explain", "--replay", str(file)]) == 0
    text = capsys.readouterr().out
    assert "degraded, MembersUnwell: the same decision" in text
    assert "waits for  db-2: no answer in 2 s" in text
    assert "diagnosis  health: members that are not well" in text


def test_a_decision_that_differs_is_said_also_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of(Drawing().silence("db-2").seen())
    record["decisions"][0]["reason"] = "MemberReplaced"
    file = tmp_path / "registry.json.gz"
    file.write_bytes(pack_record(record))
    assert run(["explain", "--replay", str(file), "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (decision,) = data["decisions"]
    assert decision["differs"] and decision["differences"] == ["reason: MemberReplaced → MembersUnwell"]
    assert "observation" not in decision["recorded"] and decision["replayed"]["reason"] == "MembersUnwell"


def test_what_a_record_says_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of(Drawing().seen())
    record["decisions"][0] |= {"message": "\x1b[2J\nall is well", "observation": None}
    record["app"]["name"] = "db\x1b[31m"
    file = tmp_path / "registry.json"
    file.write_text(json.dumps(record))
    assert run(["explain", "--replay", str(file)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "not replayed: what was observed is not in the record" in text


@pytest.mark.parametrize(
    ("content", "reason", "code"),
    [
        ("{}", "it is no record of decisions", 2),
        ('{"kind": "fleet explanation", "format": 2, "release": "9.1"}', "format 2, and this release reads 1", 2),
        ("not JSON", "it is no JSON", 2),
    ],
)
def test_a_file_that_is_no_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, reason: str, code: int
) -> None:
    file = tmp_path / "registry.json"
    file.write_text(content)
    assert run(["explain", "--replay", str(file)]) == code
    text = capsys.readouterr().err
    assert reason in text and str(file) in text and "Traceback" not in text


@pytest.mark.parametrize("arguments", [[], ["db", "--replay", "FILE"], ["--replay", "FILE", "--record", "x.json"]])
def test_an_app_or_a_file_is_named(tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "registry.json"
    file.write_text("{}")
    assert run(["explain", *(str(file) if word == "FILE" else word for word in arguments)]) == 2
    assert "APP" in capsys.readouterr().err
