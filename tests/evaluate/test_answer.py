"""A worker's answer comes from user code: whatever is in it, the parent reads it as data or as a problem."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.errors import Source
from fleet.evaluate.answer import MOST_NOTES, MOST_PROBLEMS, WorkerAnswer, read_answer, read_document
from fleet.evaluate.decode import MalformedError, decode
from fleet.evaluate.evaluation import Excerpts
from fleet.evaluate.pool import WorkerOutcome
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import Problem
from fleet.objects.desired import Desired, Key, Object
from fleet.repository import Limits

CLUSTER: dict[str, Any] = {"name": "eu-1", "labels": {}, "context": None, "secret": None, "pull": False}
JOB = Job(Task.STACKS, "/repository", ("stacks/a.py",), Limits(), clusters=(CLUSTER,), exports={"known": {}})
DECLARED: dict[str, Any] = {"name": "a", "source": {"file": "stacks/a.py", "line": 1}}
TROUBLE: dict[str, Any] = {"message": "", "hint": None, "field": None, "file": "stacks/a.py", "line": 1}


def result(**changes: Any) -> dict[str, Any]:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}}
    made = Object(manifest, Source("stacks/a.py", 4), depends_on=(Key("", "Namespace", "", "a"),))
    desired = Desired("a", "eu-1", (made,), {"x": [1, None]}, Source("stacks/a.py", 1))
    stack = {
        "name": "a",
        "source": {"file": "stacks/a.py", "line": 1},
        "clusters": ["eu-1"],
        "rollout": {"waves": [["eu-1"]], "soak": "0s", "timeout": "15m"},
        "desired": [orjson.loads(orjson.dumps(desired, default=list))],
        "needs": [],
    }
    return {"declared": [DECLARED], "stacks": [stack | changes]}


def answered(data: Any) -> tuple[WorkerAnswer, tuple[Problem, ...]]:
    return read_answer(JOB, WorkerOutcome(b'{"at":["stacks/a.py",7]}\n' + orjson.dumps(data) + b"\n", b""))


def rolled(**changes: Any) -> dict[str, Any]:
    return result(rollout={"waves": [["eu-1"]], "soak": "0s", "timeout": "15m"} | changes)


def declaring(**changes: Any) -> dict[str, Any]:
    """An answer with something else in its one object; of the manifest's metadata with `metadata`."""
    made = result()
    (one,) = made["stacks"][0]["desired"][0]["objects"]
    one["manifest"]["metadata"] |= changes.pop("metadata", {})
    one["manifest"] |= changes.pop("manifest", {})
    one |= changes
    return made


def desiring(**changes: Any) -> dict[str, Any]:
    made = result()
    made["stacks"][0]["desired"][0] |= changes
    return made


def cluster(**changes: Any) -> dict[str, Any]:
    place = {"file": "stacks/a.py", "line": 1}
    return {"clusters": [CLUSTER | {"source": place} | changes]}


FORGED = {
    "a file's name with more lines": declaring(source={"file": "a.py\n---\nkind: Secret", "line": 1}),
    "a file's name with a line separator": declaring(source={"file": "a\u2028b.py", "line": 1}),
    "a line before the first": declaring(source={"file": "stacks/a.py", "line": -1}),
    "no file": declaring(source={"file": "", "line": 1}),
    "a place of the stack in another file": desiring(source={"file": "stacks/b.py", "line": 1}),
    "a soak that is no time": rolled(soak="soon"),
    "a soak without end": rolled(soak=f"{'9' * 400}w"),
    "a soak of other digits": rolled(soak="\u0661m"),
    "no timeout": rolled(timeout=""),
    "a rollback after no time": rolled(rollback_after="never"),
    "waves of other clusters": rolled(waves=[["eu-1", "us-1"]]),
    "waves without its cluster": rolled(waves=[]),
    "a cluster in two waves": rolled(waves=[["eu-1"], ["eu-1"]]),
    "fewer than none": rolled(max_unavailable=-1),
    "a wave before the first": rolled(approve=[0]),
    "a window that is none": rolled(windows=["always"]),
    "a time zone that is none": rolled(timezone="Mars/Base"),
    "a time zone elsewhere": rolled(timezone="../../etc/passwd"),
    "another word on failure": rolled(on_failure="ignore"),
    "another word on drift": result(drift="maybe"),
    "a need that is no name": result(needs=["../x"]),
    "a name with a tab": declaring(metadata={"name": "a\tb"}),
    "a name with a slash": declaring(metadata={"name": "../../x"}),
    "an object that is no app": declaring(app="Etcd"),
    "an app that says it is none": declaring(manifest={"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd"}),
    "a dependency on itself": declaring(depends_on=[["", "ConfigMap", "a", "c"]]),
    "a dependency on no kind": declaring(depends_on=[["", "", "a", "c"]]),
    "a former name with lines": declaring(aliases=[["", "ConfigMap", "a", "c\nd"]]),
    "a manager with lines": declaring(take_from=["helm\nx"]),
    "an export with another name": desiring(exports={"a b": 1}),
    "a file outside": result() | {"files": ["../x"]},
    "another file outside": result() | {"files": ["/etc/passwd"]},
    "a directory outside": result() | {"directories": ["a/../../x"]},
    "what the other task is asked": result() | {"clusters": cluster()["clusters"]},
    "a problem before the first line": {"problems": [TROUBLE | {"line": -3}]},
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_every_field_of_a_stacks_answer_is_checked(data: Any) -> None:
    answer, (problem,) = answered(data)

    assert answer == WorkerAnswer()
    assert "is no result" in problem.message
    assert "\n" not in problem.message


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"context": "arn:aws:eks:eu-1:1:cluster/a", "labels": {"example.com/env": "prod", "tier": ""}}, True),
        ({"secret": "fleet-system/eu-1"}, True),
        ({"secret": "eu-1"}, False),
        ({"secret": "../../x/y"}, False),
        ({"secret": "a/b", "context": "c"}, False),
        ({"context": "a\nb"}, False),
        ({"labels": {"a b": "c"}}, False),
        ({"labels": {"a": "b c"}}, False),
        ({"source": {"file": "elsewhere.py", "line": 1}}, False),
    ],
)
def test_every_field_of_the_clusters_answer_is_checked(changes: dict[str, Any], fits: bool) -> None:
    job = replace(JOB, task=Task.CLUSTERS)
    answer, problems = read_answer(job, WorkerOutcome(orjson.dumps(cluster(**changes)) + b"\n", b""))

    assert (len(answer.clusters), len(problems)) == ((1, 0) if fits else (0, 1))


def test_an_answer_is_read_into_the_same_data() -> None:
    answer, problems = answered(result())

    assert problems == ()
    (desired,) = answer.stacks[0].desired
    assert desired.objects[0].key == Key("", "ConfigMap", "a", "c")
    assert desired.objects[0].depends_on == (Key("", "Namespace", "", "a"),)
    assert desired.exports == {"x": [1, None]}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"surprise": 1},
        {"stacks": {}},
        {"problems": [{"message": 1, "hint": None, "field": None, "file": "x", "line": 1}]},
        {"clusters": [{"name": "../../etc", "labels": {}}]},
        result(name="../../etc"),
        result() | {"declared": []},
        result() | {"declared": [{"name": "a", "source": {"file": "stacks/b.py", "line": 1}}]},
        {"declared": [], "waiting": [{"stack": "a", "wants": "b", "problem": TROUBLE}]},
        {"declared": [DECLARED], "waiting": [{"stack": "a", "wants": "known", "problem": TROUBLE}]},
        result(name="b"),
        result(name="A b\n"),
        result(source={"file": "stacks/b.py", "line": 1}),
        result(source={"file": "stacks/a.py", "line": "1"}),
        result(source={"file": "stacks/a.py", "line": True}),
        result(clusters=["us-1"]),
        result(clusters=[]),
        result(desired=[]),
        result(desired=[{"stack": "other", "cluster": "eu-1", "objects": [], "exports": {}}]),
        result(desired=[{"stack": "a", "cluster": "eu-1", "objects": [{"manifest": {}, "source": {"file": ""}}]}]),
        result(
            desired=[
                {
                    "stack": "a",
                    "cluster": "eu-1",
                    "objects": [
                        {"manifest": {"apiVersion": "v1", "kind": "X", "metadata": {"name": 3}}, "source": {"file": ""}}
                    ],
                }
            ]
        ),
    ],
)
def test_an_answer_of_another_form_is_a_problem(data: Any) -> None:
    answer, (problem,) = answered(data)

    assert answer == WorkerAnswer()
    assert "is no result" in problem.message
    assert problem.source == Source("stacks/a.py", 7)


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, files=("stacks/b.py",)),
        replace(JOB, only=("b",)),
        replace(JOB, clusters=(CLUSTER | {"name": "us-1"},)),
    ],
    ids=["file", "stack", "cluster"],
)
def test_an_answer_is_believed_for_what_was_asked_and_for_nothing_else(other: Job) -> None:
    text = WorkerOutcome(orjson.dumps(result()) + b"\n", b"")
    assert read_answer(JOB, text)[0].stacks
    answer, (problem,) = read_answer(other, text)
    assert answer == WorkerAnswer()
    assert "is no result" in problem.message


@pytest.mark.parametrize("stream", [b"", b"garbage", b"{}\n{}\n", b'{"at":["stacks/a.py",7]}', b"[" * 100_000, b"\xff"])
def test_bytes_that_are_no_answer_are_a_problem(stream: bytes) -> None:
    answer, (problem,) = read_answer(JOB, WorkerOutcome(stream, b""))
    assert answer == WorkerAnswer()
    assert problem.source == Source("stacks/a.py", 1)


FORGERIES = {
    "a number that is none": '{"a":NaN}',
    "a number without end": '{"a":Infinity}',
    "an integer that does not fit": '{"a":123456789012345678901234567890}',
    "a key given twice": '{"a":1,"a":2}',
    "half a character": '{"a":"\\ud800"}',
    "nesting without end": "[" * 200 + "]" * 200,
    "another way to write it": '{"a": 1}',
}


@pytest.mark.parametrize("inside", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_answer_of_the_right_shape_is_a_problem(inside: str) -> None:
    text = orjson.dumps(result()).decode().replace('"kind":', f'"data":{inside},"kind":') + "\n"

    answer, (problem,) = read_answer(JOB, WorkerOutcome(text.encode(), b""))

    assert answer == WorkerAnswer()
    assert "is no result" in problem.message
    assert decode(WorkerAnswer, json.loads(text)).stacks, "nothing else is wrong with it"


def test_an_answer_may_be_nested_as_deep_as_manifests_are() -> None:
    text = orjson.dumps(result()).decode().replace('"kind":', f'"spec":{"[" * 80 + "]" * 80},"kind":') + "\n"
    assert read_answer(JOB, WorkerOutcome(text.encode(), b""))[1] == ()


@pytest.mark.parametrize("note", ['["/etc/passwd",1]', "5", "[]", "null", '["stacks/a.py"]', '["stacks/a.py","7"]'])
def test_a_note_cannot_name_another_file_nor_be_another_thing(note: str) -> None:
    _, (problem,) = read_answer(JOB, WorkerOutcome(f'{{"at":{note}}}\n'.encode(), b""))
    assert problem.source == Source("stacks/a.py", 1)


def test_notes_are_read_to_a_number_of_them_and_each_once() -> None:
    note = b'{"at":["stacks/a.py",7]}\n'
    text = orjson.dumps(result()) + b"\n"
    assert read_answer(JOB, WorkerOutcome(note * MOST_NOTES + text, b""))[0].stacks
    answer, (problem,) = read_answer(JOB, WorkerOutcome(note * (MOST_NOTES + 1) + text, b""))
    assert answer == WorkerAnswer()
    assert "is no result" in problem.message


def test_values_are_counted_before_they_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.evaluate.answer.MOST_VALUES", 1_000)
    few, many = (b'{"clusters":[' + b"[]," * count + b"[]]}\n" for count in (490, 500))
    answer, (problem,) = read_answer(JOB, WorkerOutcome(many, b""))
    assert answer == WorkerAnswer()
    assert "data of more than 1000 values" in problem.message
    assert len(read_document(few)["clusters"]) == 491, "which is read otherwise, and takes many times its size"


def test_what_is_shown_of_problems_is_bounded_as_they_are() -> None:
    long = TROUBLE | {"message": "x" * 10_000, "hint": "y" * 10_000}
    answer, problems = answered({"problems": [long, *[TROUBLE] * MOST_PROBLEMS]})
    assert len(answer.problems) == MOST_PROBLEMS + 1
    assert len(problems) == MOST_PROBLEMS
    assert len(problems[0].message) == len(str(problems[0].hint)) == 4_000


def test_a_problem_cannot_show_a_line_of_a_file_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("password = 1\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "root/own.py").write_text("x = 1\n")

    def shown(file: str) -> str:
        return Excerpts(tmp_path / "root").add(Problem("", source=Source(file, 1))).excerpt

    assert shown("own.py") == "x = 1"
    for outside in ("../secret.py", "link.py", str(tmp_path / "secret.py")):
        assert shown(outside) == ""
        assert (tmp_path / "root" / outside).read_text() == "password = 1\n", "who reads it finds it"


@pytest.mark.parametrize("name", ["x" * 300 + ".py", "a\0.py", "d/" * 3000 + "a.py", "loop.py", "directory.py"])
def test_a_name_that_no_file_has_shows_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "directory.py").mkdir()
    assert Excerpts(tmp_path).add(Problem("", source=Source(name, 1))).excerpt == ""


@pytest.mark.parametrize("line", ["9" * 5000, "\u0669" * 5000, "99999999999"])
def test_a_forged_line_of_a_traceback_is_none(line: str) -> None:
    text = f'Timeout\n  File "/repository/stacks/a.py", line {line} in f\n'
    _, (problem,) = read_answer(JOB, WorkerOutcome(text.encode(), b""))
    assert problem.source == Source("stacks/a.py", 1)


def test_decoding_is_strict_about_every_type() -> None:
    @dataclass(frozen=True)
    class Thing:
        name: str
        count: int = 0
        parts: tuple[str, ...] = ()
        note: str | None = None

    assert decode(Thing, {"name": "x", "parts": ["a"], "note": None}) == Thing("x", 0, ("a",), None)
    for wrong in ({}, {"name": 1}, {"name": "x", "count": "1"}, {"name": "x", "parts": [1]}, {"name": "x", "more": 1}):
        with pytest.raises(MalformedError, match="Thing"):
            decode(Thing, wrong)
