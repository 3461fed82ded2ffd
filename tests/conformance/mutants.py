"""Mechanical mutants of the decisions, and which of them the conformance suite catches: `make mutants`.

A mutant is a decision with one thing less: a guard that never holds, one operand of a condition left out, two steps
that follow each other swapped, two guards in the other order (`tests.conformance.mutations`). Before anything is
judged, every case is run once with all places of mutations watched: a case in which a mutant would have gone the same
way everywhere cannot catch it, so it is not run again. Each mutant is then judged in a forked process, by those cases
that it makes a difference in, the cheapest first, until one fails. With `--write` the result is in docs/mutants.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import gc
import json
import os
import pickle
import platform
import queue
import re
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from fleet.testing.conformance.watching import forget_installed, installed
from tests.conformance.mutations import ROOT, Mutant, find_mutants, install, watch
from tests.conformance.subjects import SUBJECTS, list_cases
from tests.conformance.survivors import explain

PAGE = ROOT / "docs" / "mutants.md"
SAMPLED = Path(__file__).with_name("sample.json")
SAMPLE = 25  # mutants that `make test` judges again
COMMAND = "make mutants"
CASE, TEST = "case", "test"  # what caught a mutant
INTRODUCTION = """\
# Mutants of the decisions

Each decision with one thing less: a guard that never holds, one operand of a condition left out, two writes swapped,
two guards in the other order. `make mutants` runs each in a process of its own, through the
[conformance suite](how-to/app-types.md#how-a-type-is-tested) in memory ({cases} cases of {types} types). What passes
that is run through the tests of decisions with drawn data ({tests} tests; no process, no cluster), as a share of its
own. Only what a mutant makes a difference in is run: before, all is run once with every place of a mutation watched.
Cases that take more than {most:.0f} s of CPU together are not run to the end for one mutant.

Measured {date} by `{command}`, {cores} cores ({machine}) shared with other work, Python {python}: {minutes} min of CPU.
"""
DATA_TESTS = (
    "tests/kit/test_adopted_app.py",
    "tests/kit/test_adoption.py",
    "tests/kit/test_adoption_killed.py",
    "tests/kit/test_app_engine.py",
    "tests/kit/test_keeper.py",
    "tests/kit/test_plain.py",
    "tests/operator/etcd/test_act.py",
    "tests/operator/etcd/test_adoption.py",
    "tests/operator/etcd/test_decide.py",
    "tests/operator/etcd/test_decide_adopted.py",
    "tests/operator/etcd/test_decide_roll.py",
    "tests/operator/etcd/test_encrypt.py",
    "tests/operator/etcd/test_revive.py",
    "tests/operator/etcd/test_settling.py",
    "tests/operator/etcd/test_versions.py",
)
DECISIONS = (
    "fleet/kit/decide/*.py",
    "fleet/kit/adoption/*.py",
    "fleet/kit/workload/roll.py",
    "fleet/kit/workload/revive.py",
    "fleet/apps/etcd/engine/*.py",
)
ACT_OR_READ = {  # what talks to members, makes keys or reads what others set up: it decides nothing about members
    "fleet/apps/etcd/engine/act.py",
    "fleet/apps/etcd/engine/engine.py",
    "fleet/apps/etcd/engine/half.py",
    "fleet/apps/etcd/engine/observe.py",
    "fleet/apps/etcd/engine/protocol.py",
    "fleet/apps/etcd/engine/secrets.py",
    "fleet/kit/adoption/candidate.py",
    "fleet/kit/adoption/declared.py",
    "fleet/kit/adoption/describe.py",
    "fleet/kit/adoption/discovery.py",
    "fleet/kit/adoption/layout.py",
    "fleet/kit/adoption/managers.py",
    "fleet/kit/adoption/rules.py",
    "fleet/kit/adoption/surroundings.py",
    "fleet/kit/adoption/unmanaged.py",
    "fleet/kit/adoption/workload.py",
}
SLOWER = 10  # times as long as it takes undisturbed, and a case does not end
INSTALLING = "installing"
MOST_SECONDS = 10.0  # of CPU that cases are given to notice a mutant, as they take without it
LEAST_SECONDS = 5.0  # of CPU that any case is given


@dataclass(slots=True)
class Ran:
    """A case or a test, with what it costs without a mutant, and which mutants make a difference in it."""

    name: str
    run: Callable[[], None]
    change: str = ""  # cases of one change share how it goes undisturbed
    is_test: bool = False
    seconds: float = 0.0
    differs: set[tuple[str, int]] = field(default_factory=set)


def list_files() -> list[str]:
    """Return the modules that decide."""
    found = (str(file.relative_to(ROOT)) for pattern in DECISIONS for file in sorted(ROOT.glob(pattern)))
    return [file for file in found if file not in ACT_OR_READ and not file.endswith("__init__.py")]


def all_cases() -> list[Ran]:
    """Return the cases of the conformance suite, of every subject; the first installs all that they begin with."""
    installing = Ran(INSTALLING, _install_all)
    return [installing, *(Ran(f"{subject} {case}", case.run, case.change) for subject, case in list_cases())]


def _install_all() -> None:
    forget_installed()
    for subject in SUBJECTS.values():
        for change in subject.changes:
            installed(subject, change)


class DataTests:
    """The part of a pytest session that has tests of data at hand, and runs what it is told to in place of them."""

    def __init__(self, work: Callable[[list[Ran]], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._work(
            [
                Ran(item.nodeid, partial(_run_item, item), is_test=True)
                for item in session.items
                if "conform" not in item.name
            ]
        )
        return True


def _run_item(item: pytest.Item) -> None:
    reports = runtestprotocol(item, log=False)
    if failed := [report for report in reports if report.failed]:
        raise AssertionError(failed[0].longreprtext[-300:])


def look(files: Sequence[str], cases: Sequence[Ran], workers: int) -> None:
    """Note of every case what it costs, and which mutants make a difference in it, in processes of their own."""
    groups = {group: number for number, group in enumerate(sorted({_group(case) for case in cases}))}
    shares = [[case for case in cases if groups[_group(case)] % workers == worker] for worker in range(workers)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        looks = pool.map(lambda share: fork(partial(_look, files, share)), shares)
        for share, noted in zip(shares, looks, strict=True):
            for case, (seconds, differs) in zip(share, noted, strict=True):
                case.seconds, case.differs = seconds, differs


def _look(files: Sequence[str], cases: Sequence[Ran]) -> list[tuple[float, set[tuple[str, int]]]]:
    noted: list[tuple[float, set[tuple[str, int]]]] = []
    current: list[set[tuple[str, int]]] = [set()]
    for file in files:
        watch(file, lambda number, file=file: current[0].add((file, number)))  # type: ignore[misc]
    for case in cases:
        current[0], started = set(), time.process_time()
        case.run()
        noted.append((time.process_time() - started, current[0]))
    return noted


def judge(mutant: Mutant, cases: Sequence[Ran]) -> str:
    """Run a mutant in a process of its own, through all cases that it makes a difference in, then through such tests.

    Return what caught it, "" if it survived.
    """
    met = _meet(mutant, cases)
    costs: dict[str, float] = defaultdict(float)
    for case in met:
        costs[_group(case)] += case.seconds
    met.sort(key=lambda case: (case.is_test, costs[_group(case)], _group(case), case.seconds))
    return str(fork(lambda: _try(mutant, met))) if met else ""


def _group(case: Ran) -> str:
    return f"{case.name.partition(' C')[0]} {case.change}" if case.change else case.name


def _try(mutant: Mutant, cases: Sequence[Ran]) -> str:
    install(mutant)
    signal.signal(signal.SIGVTALRM, _end)
    if any(case.name == INSTALLING for case in cases):
        forget_installed()
    spent = 0.0
    for case in cases:
        spent += 0 if case.is_test else case.seconds
        if spent > MOST_SECONDS and not case.is_test:
            continue
        signal.setitimer(signal.ITIMER_VIRTUAL, max(LEAST_SECONDS, case.seconds * SLOWER))
        try:
            case.run()
        except Exception as problem:  # whatever it is, it is noticed
            return f"{TEST if case.is_test else CASE} {case.name}: {type(problem).__name__}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _end(number: int, frame: FrameType | None) -> None:
    raise AssertionError("it does not end")


def fork(work: Callable[[], Any]) -> Any:
    """Do something in a copy of this process; return what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(work(), out)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        data = said.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"a forked process ended with {status}")
    return pickle.loads(data)


def judge_all(mutants: Sequence[Mutant], cases: Sequence[Ran], workers: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with what caught it, in the order in which they are judged."""
    shares = [mutants[at::workers] for at in range(workers)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        done: queue.Queue[tuple[Mutant, str]] = queue.Queue()

        def work(share: Sequence[Mutant]) -> None:
            for mutant in share:
                done.put((mutant, judge(mutant, cases)))

        running = [pool.submit(work, share) for share in shares]
        for _ in mutants:
            while True:
                try:
                    yield done.get(timeout=1.0)
                    break
                except queue.Empty:
                    for task in running:
                        if task.done():
                            task.result()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.mutants", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the result in {PAGE.relative_to(ROOT)}")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--look", action="store_true", help="only list mutants that make a difference nowhere")
    parser.add_argument("files", nargs="*", help="modules, by default all that decide")
    options = parser.parse_args()
    work = partial(_judge_files, options.files or list_files(), options)
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *DATA_TESTS]
    sys.exit(pytest.main(arguments, plugins=[DataTests(work)]))


def _judge_files(files: Sequence[str], options: argparse.Namespace, tests: list[Ran]) -> None:
    started = time.process_time(), os.times()
    mutants, cases = [mutant for file in files for mutant in find_mutants(file)], [*all_cases(), *tests]
    _install_all()
    gc.freeze()  # forked processes share what is there
    look(files, cases, options.workers)
    costs = [sum(case.seconds for case in cases if case.is_test is kind) for kind in (False, True)]
    print(f"{len(mutants)} mutants; {costs[0]:.0f} s of CPU in cases, {costs[1]:.0f} s in tests of data", flush=True)
    if options.look:
        unmet = [mutant for mutant in mutants if not _meet(mutant, cases)]
        print(*unmet, f"{len(unmet)} mutants make a difference nowhere", sep="\n")
        return
    verdicts: dict[Mutant, str] = {}
    for mutant, by in judge_all(mutants, cases, options.workers):
        verdicts[mutant] = by
        print(f"{by or f'SURVIVED ({len(_meet(mutant, cases))} cases and tests)'}: {mutant}", flush=True)
    now = os.times()
    cpu = sum(now[:4]) - sum(started[1][:4])
    for share in shares_of(verdicts):
        print(share)
    if options.write:
        write_page(verdicts, cases, cpu)


def _meet(mutant: Mutant, cases: Sequence[Ran]) -> list[Ran]:
    """Return the cases in which a mutant makes a difference; if that is while an app is installed, all that install."""
    met = [case for case in cases if (mutant.file, mutant.number) in case.differs]
    if met and met[0].name == INSTALLING:
        met += [case for case in cases if not case.change and not case.is_test and case not in met]
    return met


def shares_of(verdicts: Mapping[Mutant, str]) -> list[str]:
    count, by_cases = max(1, len(verdicts)), sum(by.startswith(CASE) for by in verdicts.values())
    by_tests = sum(by.startswith(TEST) for by in verdicts.values())
    return [
        f"{len(verdicts)} mutants",
        f"{by_cases} ({by_cases / count:.1%}) caught by the conformance suite",
        f"{by_tests} more by tests of data: {(by_cases + by_tests) / count:.1%} in all",
    ]


def write_page(verdicts: Mapping[Mutant, str], cases: Sequence[Ran], cpu: float) -> None:
    """Write docs/mutants.md, and the sample that `make test` judges again."""
    PAGE.write_text(render_page(verdicts, cases, cpu))
    caught = [(mutant, by) for mutant, by in sorted(verdicts.items()) if by.startswith(CASE)]
    chosen = caught[:: max(1, len(caught) // SAMPLE)]
    entries = [
        {
            "file": mutant.file,
            "function": mutant.function,
            "words": mutant.words,
            "case": by.split(" ", 1)[1].rpartition(":")[0],
        }
        for mutant, by in chosen
    ]
    SAMPLED.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n")


def render_page(verdicts: Mapping[Mutant, str], cases: Sequence[Ran], cpu: float) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    survivors = sorted(mutant for mutant, by in verdicts.items() if not by)
    conformance = [case for case in cases if not case.is_test and case.name != INSTALLING]
    python = ".".join(map(str, sys.version_info[:3]))
    intro = INTRODUCTION.format(
        cases=len(conformance),
        types=len(SUBJECTS),
        tests=sum(case.is_test for case in cases),
        date=today,
        command=COMMAND,
        cores=os.cpu_count(),
        machine=platform.machine(),
        python=python,
        minutes=f"{cpu / 60:.0f}",
        most=MOST_SECONDS,
    )
    lines = [
        *intro.splitlines(),
        "",
        "| | mutants | by the conformance suite | with the tests of data | survived |",
        "|---|---|---|---|---|",
        *(_row(file, verdicts) for file in dict.fromkeys(mutant.file for mutant in verdicts)),
        _row("all", verdicts),
        "",
        "## What caught them first",
        "",
        "| | mutants |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(_catchers(verdicts).items(), key=lambda entry: -entry[1])),
        "",
        "## What one engine costs",
        "",
        "All cases of a subject, in CPU:",
        "",
        "| subject | cases | s of CPU |",
        "|---|---|---|",
        *(_cost(name, conformance) for name in SUBJECTS),
        _cost("tests of data", [case for case in cases if case.is_test]),
        "",
        f"## The {len(survivors)} that survived",
        "",
        "| where | what is left out | why nothing notices |",
        "|---|---|---|",
        *(f"| `{mutant.file}` {mutant.function} | {_cell(mutant.words)} | {explain(mutant)} |" for mutant in survivors),
    ]
    return "\n".join(lines) + "\n"


def _row(file: str, verdicts: Mapping[Mutant, str]) -> str:
    own = [by for mutant, by in verdicts.items() if file in ("all", mutant.file)]
    by_cases, caught = sum(by.startswith(CASE) for by in own), sum(map(bool, own))
    shown = "**all**" if file == "all" else f"`{file}`"
    return f"| {shown} | {len(own)} | {by_cases / len(own):.1%} | {caught / len(own):.1%} | {len(own) - caught} |"


def _catchers(verdicts: Mapping[Mutant, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for by in verdicts.values():
        if by.startswith(CASE):
            found[next(word for word in by.split() if re.fullmatch(r"C\d+", word))] += 1
        elif by:
            found["tests of data"] += 1
    return found


def _cost(name: str, cases: Sequence[Ran]) -> str:
    own = [case.seconds for case in cases if case.is_test or case.name.startswith(f"{name} C")]
    return f"| {name} | {len(own)} | {sum(own):.1f} |"


def _cell(words: str) -> str:
    return f"`{words[:150]}`".replace("|", "\\|")


if __name__ == "__main__":
    main()
