"""Mechanical mutants of the decisions, and which of them the conformance suite catches: `make mutants`.

A mutant is a decision with one thing less: a guard that never holds, one operand of a condition left out, two steps
that follow each other swapped, two guards in the other order. Each is run in a process of its own through all cases of
etcd; one that fails a case, gets stuck or raises is caught. With `--write` the result is kept in docs/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import copy
import datetime
import importlib.abc
import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mutants.md"
DECISIONS = (
    "fleet/kit/decide/*.py",
    "fleet/kit/workload/roll.py",
    "fleet/kit/workload/revive.py",
    "fleet/apps/etcd/engine/*.py",
)
OTHERS = {
    "__init__",
    "engine",
    "protocol",
    "secrets",
    "authorities",
    "observe",
    "adoption",
    "encrypt",
}  # decide nothing
SECONDS = 180


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module, by its number there."""

    file: str
    number: int
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.words}"


def find_mutants(file: str) -> list[Mutant]:
    """Return all mutants of a module."""
    tree = ast.parse((ROOT / file).read_text())
    return [Mutant(file, number, line, words) for number, (line, words, _) in enumerate(_mutations(tree))]


def mutate(file: str, number: int) -> ast.Module:
    """Return the syntax tree of a module with one mutation."""
    tree = ast.parse((ROOT / file).read_text())
    for at, (_, _, change) in enumerate(_mutations(tree)):
        if at == number:
            change()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"{file} has no mutant {number}")


def _mutations(tree: ast.Module) -> Iterator[tuple[int, str, Change]]:
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        for node in ast.walk(function):
            if isinstance(node, ast.If):
                yield node.lineno, f"never: if {ast.unparse(node.test)}", _Replace(node, "test", ast.Constant(False))
            if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.BoolOp):
                yield from _operands(node.test)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp):
                yield from _operands(node.value)
            if isinstance(node, ast.Call) and _name(node) == "step" and len(node.args) > 4:
                yield node.lineno, "the first two writes swapped", _Swap(node.args, 3)
            body = getattr(node, "body", None)
            if isinstance(body, list):
                for at, (first, second) in enumerate(itertools.pairwise(body)):
                    if _is_guard(first) and _is_guard(second):
                        yield first.lineno, f"after the next: {ast.unparse(first).splitlines()[0]}", _Swap(body, at)


class _Replace:
    """Replaces a part of a node."""

    def __init__(self, node: ast.AST, part: str, value: ast.expr) -> None:
        self._node, self._part, self._value = node, part, value

    def __call__(self) -> None:
        setattr(self._node, self._part, copy.deepcopy(self._value))


class _Drop:
    """Drops an operand of a condition."""

    def __init__(self, operation: ast.BoolOp, at: int) -> None:
        self._operation, self._at = operation, at

    def __call__(self) -> None:
        del self._operation.values[self._at]
        if len(self._operation.values) == 1:
            self._operation.values *= 2


class _Swap:
    """Swaps an item of a list with the next one."""

    def __init__(self, items: list[ast.stmt] | list[ast.expr], at: int) -> None:
        self._items, self._at = items, at

    def __call__(self) -> None:
        items, at = self._items, self._at
        items[at], items[at + 1] = items[at + 1], items[at]  # type: ignore[assignment]


Change = _Replace | _Drop | _Swap


def _operands(operation: ast.BoolOp) -> Iterator[tuple[int, str, Change]]:
    for at, value in enumerate(operation.values):
        yield value.lineno, f"without: {ast.unparse(value)}", _Drop(operation, at)


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and bool(node.body) and isinstance(node.body[-1], ast.Return | ast.Continue)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Loader(importlib.abc.Loader, importlib.abc.MetaPathFinder):
    """Loads one module from a mutated tree."""

    def __init__(self, file: str, number: int) -> None:
        self._file, self._number = file, number
        self._module = file.removesuffix(".py").replace("/", ".")

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, ROOT / self._file, loader=self)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(mutate(self._file, self._number), self._file, "exec"), module.__dict__)


def run_cases() -> str:
    """Run all cases; return the first that fails, or "" if all pass."""
    from fleet.testing.conformance import cases
    from tests.conformance.test_etcd import SUBJECT

    for case in cases(SUBJECT):
        try:
            case.run()
        except Exception as problem:
            return f"{case}: {type(problem).__name__}"
    return ""


def judge(mutant: Mutant) -> str:
    """Run a mutant in a process of its own; return what caught it, or "" if it survived."""
    command = [sys.executable, "-m", "tests.conformance.mutants", "--one", mutant.file, str(mutant.number)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "it does not end"
    return done.stdout.strip() or ("" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.mutants", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("FILE", "NUMBER"), help="run one mutant, and print what caught it")
    parser.add_argument("--write", action="store_true", help=f"keep the result in {PAGE.relative_to(ROOT)}")
    parser.add_argument("files", nargs="*", help="modules, by default all decisions")
    options = parser.parse_args()
    if options.one:
        sys.meta_path.insert(0, _Loader(options.one[0], int(options.one[1])))
        print(run_cases())
        return
    files = options.files or [
        str(file.relative_to(ROOT))
        for pattern in DECISIONS
        for file in sorted(ROOT.glob(pattern))
        if file.stem not in OTHERS
    ]
    mutants = [mutant for file in files for mutant in find_mutants(file)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        caught = list(pool.map(judge, mutants))
    survivors = [mutant for mutant, by in zip(mutants, caught, strict=True) if not by]
    share = 1 - len(survivors) / max(1, len(mutants))
    print(f"{len(mutants)} mutants, {share:.1%} caught", *(f"survived: {mutant}" for mutant in survivors), sep="\n")
    if options.write:
        PAGE.write_text(_page(len(mutants), share, survivors))


def _page(count: int, share: float, survivors: Sequence[Mutant]) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [
        "# Mutants of the decisions",
        "",
        "Each decision with one thing less (a guard, an operand, an order), run through the conformance suite of etcd",
        "in memory by `make mutants`.",
        "",
        f"{count} mutants, {share:.1%} caught; {today}.",
        "",
        "| survived | |",
        "|---|---|",
        *(f"| `{mutant.file}:{mutant.line}` | {mutant.words.replace('|', '/')[:150]} |" for mutant in survivors),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
