"""Two evaluations of one stack that should be equal: the first object and field in which they are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fleet.errors import Source
from fleet.evaluate.answer import Answer
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.model.desired import Desired, Object
from fleet.model.secrecy import REDACTED, declared_secrecy

_HINT = "the result must follow from the files alone: no random numbers, no clock, no order of sets or listings"
_LONGEST = 60
_OF_A_STACK = ("source", "clusters", "rollout", "drift", "needs")
_NOT_OPTIONS = frozenset({"manifest", "source", "hash", "_key"})


def clusters(first: Sequence[ClusterData], second: Answer, problems: Sequence[Problem]) -> Iterator[Problem]:
    """What a second reading of the clusters brought to light."""
    yield from map(_only_then, problems)
    if problems or tuple(first) == second.clusters:
        return
    others = {one.name: one for one in second.clusters}
    for one in first:
        other = others.get(one.name)
        if other is None:
            yield Problem(f"cluster {one.name} is there in one of two evaluations only", hint=_HINT, source=one.source)
            return
        if one != other:
            field, before, after = next(_differences(asdict(one), asdict(other), ""))
            yield _problem(f"cluster {one.name}", one.source, field, before, after)
            return
    yield Problem("clusters differ between two evaluations", hint=_HINT, source=second.clusters[0].source)


def stacks(first: Sequence[StackResult], second: Answer, problems: Sequence[Problem]) -> Iterator[Problem]:
    """What a second evaluation of a file brought to light."""
    yield from map(_only_then, problems)
    if problems:
        return
    ours, others = {one.name: one for one in first}, {one.name: one for one in second.stacks}
    for name in [*ours, *(name for name in others if name not in ours)]:
        one, other = ours.get(name), others.get(name)
        if one is None or other is None:
            there = one or other
            assert there is not None  # noqa: S101 - the name is of one of the two
            yield Problem("the stack is there in one of two evaluations only", hint=_HINT, source=there.source)
        elif differing := difference(one, other):
            yield differing


def _only_then(problem: Problem) -> Problem:
    return Problem(
        f"in the second of two evaluations only: {problem.message}",
        hint=problem.hint or _HINT,
        source=problem.source,
        field=problem.field,
        output=problem.output,
    )


def difference(first: StackResult, second: StackResult) -> Problem | None:
    """None when they are equal; else what differs, at the line of the object that does."""
    if _same(first, second):
        return None
    if first.clusters == second.clusters:
        for one, other in zip(first.desired, second.desired, strict=True):
            if not _same(one, other):
                return _in_cluster(one, other, first.source)
    field = next(name for name in _OF_A_STACK if not _same(getattr(first, name), getattr(second, name)))
    return _problem("the stack", first.source, field, getattr(first, field), getattr(second, field))


def _same(one: Any, other: Any) -> bool:
    """As they would be sent: for Python 1 is True and 1.0, and for a cluster it is not."""
    return _sent(one) == _sent(other)


def _sent(value: Any) -> bytes:
    return orjson.dumps(value, default=list, option=orjson.OPT_SORT_KEYS)


def _in_cluster(first: Desired, second: Desired, source: Source) -> Problem:
    ours = {one.key: one for one in first.objects}
    others = {one.key: one for one in second.objects}
    where = f"in cluster {first.cluster}"
    for key in [*ours, *others]:
        one, other = ours.get(key), others.get(key)
        if one is None or other is None:
            there = one or other
            assert there is not None  # noqa: S101 - the key is of one of the two
            return Problem(f"{key} {where} is made in one of two evaluations only", hint=_HINT, source=there.source)
        if not _same(one, other):
            field, before, after = next(_differences(_plain(one), _plain(other), ""))
            if declared_secrecy(each.manifest for each in first.objects).of(key):
                before, after = REDACTED, REDACTED
            return _problem(f"{key} {where}", one.source, field, before, after)
    if list(ours) != list(others):
        return _problem(f"the order of objects {where}", source, "", [*map(str, ours)], [*map(str, others)])
    for field, before, after in _differences(first.exports, second.exports, ""):
        return _problem(f"an export {where}", source, field, before, after)
    return _problem("the place of the stack", source, "", first.source.line, second.source.line)


def _plain(one: Object) -> dict[str, Any]:
    options = {name: getattr(one, name) for name in one.__slots__ if name not in _NOT_OPTIONS}
    return {**one.manifest, **{name: value for name, value in options.items() if value}, "line": one.source.line}


def _differences(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            inner = f"{path}.{name}" if path else str(name)
            if name not in one or name not in other:
                yield inner, one.get(name, "nothing"), other.get(name, "nothing")
            else:
                yield from _differences(one[name], other[name], inner)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{index}]")
    elif one != other or type(one) is not type(other):
        yield path, one, other


def _problem(what: str, source: Source, field: str, before: Any, after: Any) -> Problem:
    message = f"{what} differs between two evaluations: {_shown(before)}, then {_shown(after)}"
    return Problem(message, hint=_HINT, source=source, field=field or None)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
