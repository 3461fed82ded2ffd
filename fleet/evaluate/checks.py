"""Cross-file checks; determinism.

What no single file can know, and so no worker can find: names given twice, stacks that do not exist, circles.

Pure: the answers of all workers in, problems out. The code of others decides how much there is to find, so what is told
of it is bounded: so many problems, and a suggestion for the first few names.

Two evaluations of one stack that should be equal: the first object and field in which they are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, islice
from typing import Any

import orjson

from fleet.errors import Source
from fleet.evaluate.answer import Answer, Declared, Waiting
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.graph import CycleError, sort_by_dependencies
from fleet.objects.redaction import REDACTED, declared_secrecy, is_secret
from fleet.suggestion import list_words, suggestion

MOST_PROBLEMS = 1_000  # that are told of one evaluation
MOST_SUGGESTIONS = 10  # names are compared for
MOST_IN_CIRCLE = 20  # stacks of a circle that are named


def check_clusters(declared: Iterable[ClusterData]) -> Iterator[Problem]:
    first: dict[str, ClusterData] = {}
    for one in declared:
        before = first.setdefault(one.name, one)
        if before is not one:
            yield Problem(
                f"cluster {one.name!r} is defined twice",
                hint=f"the first is at {before.source}; remove one or give it another name",
                source=one.source,
                field="name",
            )


def check_stacks(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    return islice(_stacks(places, done, waiting), MOST_PROBLEMS)


def _stacks(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    yield from _declared_twice(places)
    yield from _not_there(places, done, waiting)
    yield from _circle(places, done, waiting)
    yield from _claimed_twice(done.values())
    yield from _exported_secrets(done.values())


def _declared_twice(places: Mapping[str, Sequence[Declared]]) -> Iterator[Problem]:
    for name, declared in places.items():
        first, *others = sorted(declared, key=lambda one: (one.source.file, one.source.line))
        for other in others:
            yield Problem(
                f"there are two stacks {name!r}",
                hint=f"the other is at {first.source}; rename the function or give it name=…",
                source=other.source,
                field="name",
            )


def _not_there(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    unknown = [
        (one.wants, one.stack, Source(one.problem.file, one.problem.line), "output")
        for one in waiting.values()
        if one.wants not in places
    ]
    unknown += [
        (need, stack.name, stack.source, "depends_on")
        for stack in done.values()
        for need in stack.needs
        if need not in places
    ]
    for number, (name, asking, source, field) in enumerate(unknown):
        hint = None
        if number < MOST_SUGGESTIONS:
            hint = suggestion(name, places.keys() - {asking}) or "there are none"
        yield Problem(f"there is no stack {name!r}", hint=hint, source=source, field=field)


def _circle(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    needs = {name: list(stack.needs) for name, stack in done.items()}
    needs |= {name: [one.wants] for name, one in waiting.items()}
    try:
        sort_by_dependencies(sorted(needs), needs)
    except CycleError as cycle:
        names = [str(name) for name in cycle.path]
        start = waiting.get(names[0])
        yield Problem(
            f"stacks need each other in a circle: {list_words(names, MOST_IN_CIRCLE, ' → ')}",
            hint="take one dependency out of it (depends_on or fleet.output)",
            source=Source(start.problem.file, start.problem.line) if start else places[names[0]][0].source,
            field="output" if start else "depends_on",
        )


def _claimed_twice(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An object has one owner: two stacks that both want it would take it from each other for ever."""
    owners: dict[tuple[str, Key], tuple[str, Object]] = {}
    apps: dict[tuple[str, str, str], tuple[str, Object]] = {}  # by cluster, namespace and name: of whatever kind
    told: set[tuple[str, str, Key]] = set()
    done = sorted(done, key=lambda one: one.name)
    if _has_each_once(done):
        return
    for stack in done:
        for desired in stack.desired:
            for one in desired.objects:
                if one.app:
                    named = (desired.cluster, one.key.namespace, one.key.name)
                    owner, first = apps.setdefault(named, (stack.name, one))
                    if first.key != one.key and (owner, stack.name, one.key) not in told:
                        told.add((owner, stack.name, one.key))
                        yield Problem(
                            f"{one.key} has the name of {first.key} in cluster {desired.cluster}, which is of stack "
                            f"{owner!r}, and so would their Services and Secrets",
                            hint=f"the other is at {first.source}; give one of them another name or namespace",
                            source=one.source,
                            field="name",
                        )
                owner, first = owners.setdefault((desired.cluster, one.key), (stack.name, one))
                if owner != stack.name and (owner, stack.name, one.key) not in told:
                    told.add((owner, stack.name, one.key))
                    remedy = "give one of the stacks another namespace" if one.key.kind == "Namespace" else "rename one"
                    yield Problem(
                        f"{one.key} in cluster {desired.cluster} is wanted by two stacks, {owner!r} and {stack.name!r}",
                        hint=f"the other is at {first.source}; {remedy}, or leave it to one of the two",
                        source=one.source,
                        field="name",
                    )


def _has_each_once(stacks: Iterable[StackResult]) -> bool:
    """Tell whether no object and no name of an app is wanted twice in a cluster: nearly always so, and quickly seen."""
    by_cluster: dict[str, list[Object]] = {}
    for stack in stacks:
        for desired in stack.desired:
            by_cluster.setdefault(desired.cluster, []).extend(desired.objects)
    for objects in by_cluster.values():
        names = [(one.key.namespace, one.key.name) for one in objects if one.app]
        if len({one.key for one in objects}) < len(objects) or len(set(names)) < len(names):
            return False
    return True


def _exported_secrets(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An export is plain: other stacks put it anywhere, and it may be shown. So it holds no value of a Secret."""
    for desired in (one for stack in done for one in stack.desired if one.exports):
        secrets = [one.manifest for one in desired.objects if is_secret(one.key)]
        if not secrets:
            continue
        from fleet.objects.redaction import SecretValues  # noqa: PLC0415 - only for stacks with both

        names = {desired.stack, desired.cluster}.union(*(one.key for one in desired.objects))
        hidden = SecretValues.of(secrets, public=names)
        # All at once: what the search of one text may take is bounded, and there may be any number of them.
        texts = ["\0".join(_texts(value)) for value in desired.exports.values()]
        begin = hidden.find("\0".join(texts))
        if begin < 0:
            continue
        ends = accumulate(len(text) + 1 for text in texts)
        name = next(name for name, end in zip(desired.exports, ends, strict=True) if begin < end)
        yield Problem(
            "is, or has in it, a value of a Secret",
            hint="export where it is, not what it is: a name for fleet.SecretRef",
            source=desired.source,
            field=f"export({name!r})",
        )
        return


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield str(key)
            yield from _texts(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _texts(below)


_HINT = "the result must follow from the files alone: no random numbers, no clock, no order of sets or listings"
_LONGEST = 60
_OF_A_STACK = ("source", "clusters", "rollout", "drift", "needs")
_NOT_OPTIONS = frozenset({"manifest", "source", "hash", "_key"})


def compare_clusters(first: Sequence[ClusterData], second: Answer, problems: Sequence[Problem]) -> Iterator[Problem]:
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


def compare_stacks(first: Sequence[StackResult], second: Answer, problems: Sequence[Problem]) -> Iterator[Problem]:
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
