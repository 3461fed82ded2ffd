"""What a run took is summed up by folder, file and test."""

from __future__ import annotations

from tests.durations import MOST, PAGE, by, file_of, folder_of, page, read_slowest


def took(setup: float, call: float, cpu: float) -> dict[str, float]:
    return {"setup": setup, "call": call, "teardown": 0.5, "cpu": cpu}


TESTS = {
    "tests/sync/test_a.py::test_one": took(10, 2, 3),
    "tests/sync/test_a.py::test_two[x::y|z]": took(0, 1, 1),
    "tests/kube/runtime/test_b.py::test_three": took(0, 30, 20),
}


def test_what_a_run_took_is_summed_up_with_the_costliest_first() -> None:
    folders = [(one.name, one.tests, one.setup, one.wall, one.cpu) for one in by(TESTS, folder_of)]
    assert folders == [("tests/kube/runtime", 1, 0.5, 30.5, 20), ("tests/sync", 2, 11, 14, 4)]
    assert [one.name for one in by(TESTS, file_of)] == ["tests/kube/runtime/test_b.py", "tests/sync/test_a.py"]


def test_the_page_says_how_long_the_run_was_and_what_was_slow() -> None:
    text = page({"elapsed": 120.0, "tests": TESTS})
    assert "3 tests in 2.0 min, 0.4 min of CPU" in text
    assert "| tests/sync/test_a.py | 2 | 14 s | 11 s | 4 s |" in text
    assert "test_two" not in text, "its name would break the table"


def test_the_slowest_files_of_a_page_are_read_back_and_nothing_else_of_it() -> None:
    text = page({"elapsed": 120.0, "tests": TESTS})
    assert read_slowest(text) == {"tests/kube/runtime/test_b.py": 30, "tests/sync/test_a.py": 14}
    assert len(read_slowest(PAGE.read_text(encoding="utf-8"))) == MOST
