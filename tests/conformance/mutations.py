"""Mutations of decisions: what is left out or swapped, the code that results, and where it would make a difference.

Mutations change functions alone, so a mutant is put into a process that has everything loaded by giving one function
other code. A *watched* module is the same module with every place of a mutation observed: it notes for each mutation
whether the mutant would have taken another way there. A case in which it never would cannot catch the mutant.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[2]
_WATCH = "_watch_mutation"


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of one function, by its number in the module."""

    file: str
    number: int
    line: int
    function: str  # its qualified name: the outermost one, for what is nested
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.words}"


def find_mutants(file: str) -> list[Mutant]:
    """Return all mutants of a module."""
    return [
        Mutant(file, number, site.line, site.function, site.words)
        for number, site in enumerate(_find_sites(_parse(file)))
    ]


def install(mutant: Mutant) -> None:
    """Give the function of a mutant, in this process, the mutated code."""
    tree = _parse(mutant.file)
    next(itertools.islice(_find_sites(tree), mutant.number, None)).change()
    _replace_code(mutant.file, tree, {mutant.function})


def watch(file: str, differs: Callable[[int], None]) -> None:
    """Have every function of a module call `differs` with the number of each mutation that would make a difference."""
    tree = _parse(file)
    sites = list(_find_sites(tree))
    for number, site in reversed(list(enumerate(sites))):  # inner places before those around them
        site.watch(number)
    vars(import_module(_module(file)))[_WATCH] = _Watch(differs)
    _replace_code(file, tree, {site.function for site in sites})


class _Watch:
    """What a watched module calls: the value passes through as it is."""

    def __init__(self, differs: Callable[[int], None]) -> None:
        self._differs = differs

    def reached(self, number: int, value: Any) -> Any:
        self._differs(number)
        return value

    def holds(self, number: int, value: Any) -> Any:
        """A guard that would never hold: it makes a difference where it holds."""
        if value:
            self._differs(number)
        return value

    def operands(
        self, first: int, value: Callable[[], Any], without: tuple[Callable[[], Any], ...], as_truth: bool
    ) -> Any:
        had = value()
        for number, other in enumerate(without, first):
            try:
                there = other()
                same = bool(there) == bool(had) if as_truth else there == had
            except Exception:
                same = False
            if not same:
                self._differs(number)
        return had

    def both(self, number: int, value: Any, following: Callable[[], Any]) -> Any:
        """Two guards in the other order: it makes a difference where both hold."""
        if value:
            try:
                same = not following()
            except Exception:
                same = False
            if not same:
                self._differs(number)
        return value


@dataclass(slots=True)
class _Site:
    line: int
    function: str
    words: str
    change: Callable[[], None]
    watch: Callable[[int], None]


def _find_sites(tree: ast.Module) -> Iterator[_Site]:
    for name, function in _functions(tree):
        for node in ast.walk(function):
            yield from _sites_of(name, node)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Return the outermost functions of a module, each with its qualified name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{method.name}", method


def _sites_of(function: str, node: ast.AST) -> Iterator[_Site]:
    if isinstance(node, ast.If):
        yield _never(function, node)
    if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.BoolOp):
        yield from _operands(function, node, "test", node.test, as_truth=True)
    if isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp):
        yield from _operands(function, node, "value", node.value, as_truth=False)
    if isinstance(node, ast.Call) and _name(node) == "step" and len(node.args) > 4:
        yield _Site(
            node.lineno,
            function,
            "the first two writes swapped",
            _swap(node.args, 3),
            lambda number: _wrap_call(node, number),
        )
    for body in (getattr(node, part, None) for part in ("body", "orelse")):
        if isinstance(body, list):
            for at, (first, second) in enumerate(itertools.pairwise(body)):
                if isinstance(first, ast.If) and isinstance(second, ast.If) and _is_guard(first) and _is_guard(second):
                    yield _reordered(function, body, at, first, second)


def _never(function: str, node: ast.If) -> _Site:
    def change() -> None:
        node.test = ast.Constant(False)

    def watch(number: int) -> None:
        node.test = _call("holds", ast.Constant(number), node.test)

    return _Site(node.lineno, function, f"never: if {ast.unparse(node.test)}", change, watch)


def _operands(function: str, node: Any, part: str, operation: ast.BoolOp, *, as_truth: bool) -> Iterator[_Site]:
    count = len(operation.values)
    original = copy.deepcopy(operation)
    watched = [False]

    def watch(number: int, at: int) -> None:
        if not _can_run_twice(original):
            setattr(node, part, _call("reached", ast.Constant(number), getattr(node, part)))
        elif not watched[0]:
            watched[0] = True
            first = ast.Constant(number - at)
            others = ast.Tuple([_delay(_dropped(original, each)) for each in range(count)], ast.Load())
            call = _call("operands", first, _delay(original), others, ast.Constant(as_truth))
            setattr(node, part, call)

    for at, value in enumerate(operation.values):

        def change(at: int = at) -> None:
            setattr(node, part, _dropped(original, at))

        yield _Site(
            value.lineno,
            function,
            f"without: {ast.unparse(value)}",
            change,
            lambda number, at=at: watch(number, at),  # type: ignore[misc]
        )


def _reordered(function: str, body: list[ast.stmt], at: int, first: ast.If, second: ast.If) -> _Site:
    tests = copy.deepcopy((first.test, second.test))

    def watch(number: int) -> None:
        if all(map(_can_run_twice, tests)):
            first.test = _call("both", ast.Constant(number), first.test, _delay(tests[1]))
        else:
            first.test = _call("reached", ast.Constant(number), first.test)

    words = f"after the next: {ast.unparse(first).splitlines()[0]}"
    return _Site(first.lineno, function, words, _swap(body, at), watch)


def _wrap_call(node: ast.Call, number: int) -> None:
    """Note that the call is reached: its first argument passes through."""
    node.args[0] = _call("reached", ast.Constant(number), node.args[0])


def _swap(items: list[Any], at: int) -> Callable[[], None]:
    def change() -> None:
        items[at], items[at + 1] = items[at + 1], items[at]

    return change


def _dropped(operation: ast.BoolOp, at: int) -> ast.expr:
    left = [copy.deepcopy(value) for number, value in enumerate(operation.values) if number != at]
    return left[0] if len(left) == 1 else ast.BoolOp(copy.deepcopy(operation.op), left)


def _can_run_twice(expression: ast.expr) -> bool:
    """Tell whether an expression may stand in a function of its own and be asked again: it binds and awaits nothing."""
    for node in ast.walk(expression):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield):
            return False
        if isinstance(node, ast.Call) and _name(node) == "super":
            return False
    return True


def _delay(expression: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, copy.deepcopy(expression))


def _call(method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(_WATCH, ast.Load()), method, ast.Load()), list(arguments), [])


def _is_guard(node: ast.If) -> bool:
    return not node.orelse and isinstance(node.body[-1], ast.Return | ast.Continue)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text()


def _parse(file: str) -> ast.Module:
    return ast.parse(_text(file))


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _replace_code(file: str, tree: ast.Module, functions: set[str]) -> None:
    compiled = compile(ast.fix_missing_locations(tree), str(ROOT / file), "exec", dont_inherit=True)
    module = import_module(_module(file))
    for name in functions:
        code = compiled
        for part in name.split("."):
            code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == part)
        _function(module, name).__code__ = code


def _function(module: Any, name: str) -> FunctionType:
    owner, _, method = name.rpartition(".")
    found = vars(getattr(module, owner))[method] if owner else vars(module)[name]
    for wrapper in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, wrapper, None) or found
    assert isinstance(found, FunctionType), f"{name} is no plain function"
    return found
