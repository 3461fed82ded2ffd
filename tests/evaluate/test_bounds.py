"""What the parent does with what others wrote is bounded: values, suggestions, excerpts, bytes and time in sum."""

from __future__ import annotations

import math
import random
import string
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from fleet.errors import Source
from fleet.evaluate import Limits, answer, checks, evaluate, evaluation
from fleet.evaluate.answer import Declared, ProblemData, Waiting
from fleet.evaluate.evaluation import Excerpts
from fleet.evaluate.pool import Pool, WorkerOutcome
from fleet.evaluate.protocol import Job
from fleet.evaluate.result import Problem
from fleet.objects.redaction import REDACTED, SecretValues
from fleet.suggestion import LONGEST_COMPARED, MOST_NAMED, closest, list_words, suggestion
from tests.evaluate.test_evaluation import names, repository, stack

LETTERS = string.ascii_lowercase


def words(count: int, length: int, seed: str) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices(LETTERS, k=length)) for _ in range(count)]


def computed(run: Callable[[], object]) -> float:
    """Return the least CPU time of three runs."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        run()
        took.append(time.process_time() - begun)
    return min(took)


def test_searching_takes_as_much_longer_as_there_is_more_and_not_the_square_of_it() -> None:
    """With one pattern of all values it is 64 times as long; of 20,000 values in 2 MB, minutes."""

    def search(times: int) -> float:
        hidden = SecretValues(words(500 * times, 12, "values"))
        text = " ".join(words(2_000 * times, 11, "text"))
        return computed(lambda: hidden.redact(text))

    search(1)
    assert search(8) < 24 * search(1)


def test_values_that_all_begin_alike_let_a_text_be_left_out_and_not_be_searched_for_ever() -> None:
    alike = ["password-" + word for word in words(60_000, 8, "alike")]
    hidden = SecretValues([*alike, "short-one"])
    text = "password-".join(["no secret "] * 50)
    assert hidden.redact(text) == REDACTED
    assert hidden.find(text) == 0
    assert hidden.redact(f"here: {alike[0]}.") == f"here: {REDACTED}."
    assert hidden.redact("nothing of it") == "nothing of it"


def test_of_values_at_one_place_the_longest_is_taken_out_and_quotes_stay() -> None:
    hidden = SecretValues(["secret", "secretive", "secretive-word", "ab", "true", "xsecretive"])
    assert hidden.redact("a secretive-words, secretive! secret") == f"a {REDACTED}s, {REDACTED}! {REDACTED}"
    assert (
        hidden.redact('ab "ab" (true) `true` true, "abc"') == f'ab "{REDACTED}" ({REDACTED}) `{REDACTED}` true, "abc"'
    )
    assert hidden.redact("xsecretive xsecret") == f"{REDACTED} x{REDACTED}"
    assert hidden.find("see: 'ab'") == 6
    assert hidden.find("see: ab") == -1


def test_a_suggestion_compares_few_and_short_words_and_names_few() -> None:
    many = words(5_000, 10, "known")
    assert suggestion(many[-1][:-1], []) is None
    assert closest("x" * (LONGEST_COMPARED + 1), ["x" * (LONGEST_COMPARED + 1)]) is None
    assert (suggestion("?", many) or "").endswith(f"… and {5_000 - MOST_NAMED} more")
    assert suggestion("ordrs", ["billing", "orders"]) == "did you mean 'orders'?"
    assert list_words(["a", "b", "c"], 2, " → ") == "a → b → … and 1 more"


def test_thousands_of_unknown_names_are_few_problems_with_fewer_suggestions() -> None:
    names = words(3_000, 30, "stacks")
    places = {name: [Declared(name, Source("stacks/a.py", 1))] for name in names}
    waiting = {name: Waiting(name, f"{name}x", ProblemData("", None, None, "stacks/a.py", 1)) for name in names}
    found = list(checks.check_stacks(places, {}, waiting))
    assert len(found) == checks.MOST_PROBLEMS
    assert sum(one.hint is not None for one in found) == checks.MOST_SUGGESTIONS


def test_a_file_is_read_once_for_all_problems_in_it_and_not_more_than_so_much_of_all(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    excerpts = Excerpts(tmp_path)
    assert excerpts.add(Problem("", source=Source("a.py", 1))).excerpt == "one"
    (tmp_path / "a.py").write_text("other\nother\n")
    assert excerpts.add(Problem("", source=Source("a.py", 2))).excerpt == "two"
    for number in range(6):
        (tmp_path / f"large-{number}.py").write_text("x\n" * (2 << 20))
    shown = [excerpts.add(Problem("", source=Source(f"large-{number}.py", 1))).excerpt for number in range(6)]
    assert shown == ["x"] * 4 + [""] * 2, "16 MiB and no more"


def test_what_all_files_answer_together_is_bounded_as_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is within its limits. The parent holds what all of them said at once."""
    exporting = 'fleet.export("x", [[]] * 3000)', 'fleet.export("y", "y" * 30_000)'
    files = {f"stacks/s{number}.py": stack(f"s{number}", *exporting) for number in range(6)}
    place = repository(tmp_path, files)
    assert evaluate(place).check()
    said = "all files together answered more than"
    assert said in evaluate(place, limits=Limits(result=80_000)).problems[0].message
    monkeypatch.setattr(answer, "MOST_VALUES", 10_000)
    found = evaluate(place)
    assert said in found.problems[0].message
    assert not found.stacks


def test_what_is_not_begun_in_the_time_of_all_files_is_not_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository(tmp_path, {"stacks/a.py": stack("a")})
    assert evaluate(place).check()
    monkeypatch.setattr(evaluation, "LONGEST", 0)
    assert "all files together took longer" in evaluate(place).problems[0].message


class ListeningPool(Pool):
    """A pool that writes down which jobs it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Job] = []

    def run(self, jobs: Sequence[Job], deadline: float = math.inf) -> list[WorkerOutcome]:
        self.jobs += jobs
        return super().run(jobs, deadline)

    def exports_of(self, file: str) -> list[set[str]]:
        """Return the stacks whose exports a file was given, each time that it was evaluated."""
        return [set(job.exports) for job in self.jobs if job.files == (file,)]


def test_a_file_is_given_the_exports_that_it_waits_for_and_not_those_of_all(tmp_path: Path) -> None:
    count = 40
    files = {f"stacks/s{n}.py": stack(f"s{n}", 'fleet.export("x", "x" * 10_000)') for n in range(count)}
    files |= {f"stacks/r{n}.py": stack(f"r{n}", f'fleet.output("s{n}", "x")') for n in range(count)}
    with ListeningPool() as pool:
        result = evaluate(repository(tmp_path, files), pool=pool)
        assert len(names(result)) == 2 * count
        for number in range(count):
            assert pool.exports_of(f"stacks/r{number}.py") == [set(), {f"s{number}"}]
        sent = sum(len(orjson.dumps(job.exports)) for job in pool.jobs)
    assert sent < 2 * count * 2 * 11_000, "two clusters; with those of all it is 40 times as much"


def test_a_file_that_reads_many_exports_is_not_evaluated_for_each_of_them(tmp_path: Path) -> None:
    count = 40
    files = {f"stacks/s{n}.py": stack(f"s{n}", 'fleet.export("x", "1")') for n in range(count)}
    reads = [f'fleet.output("s{n}", "x")' for n in range(count)]
    with ListeningPool() as pool:
        result = evaluate(repository(tmp_path, {**files, "stacks/all.py": stack("everything", *reads)}), pool=pool)
        assert len(names(result)) == count + 1
        assert [len(given) for given in pool.exports_of("stacks/all.py")] == [0, 1, 4, 16, 40]
