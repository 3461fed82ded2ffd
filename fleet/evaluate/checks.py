"""Checks across files, and the comparison of two evaluations that must be equal. Pure: answers in, problems out.

Across files: what no single file can know, and so no worker can find. These are names given twice, stacks that do not
exist, circles of stacks, objects that two stacks declare, and exports that hold a value of a Secret. User code decides
how many there are, so the report is bounded: a number of problems, and suggestions for the first few names.

Of two evaluations: the first object and field in which they differ, because a result must follow from the files alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, islice
from typing import Any

import orjson

from fleet.errors import Source
from fleet.evaluate.answer import Declared, Waiting, WorkerAnswer
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.graph import CycleError, sort_by_dependencies
from fleet.objects.redaction import REDACTED, declared_secrecy, is_secret
from fleet.suggestion import list_words, suggestion

MOST_PROBLEMS = 1_000  # problems that are reported of one evaluation
MOST_SUGGESTIONS = 10  # unknown names that similar ones are looked up for
MOST_IN_CIRCLE = 20  # stacks of a circle that are named


def check_clusters(declared: Iterable[ClusterData]) -> Iterator[Problem]:
    """Yield a problem for each cluster whose name another one already has."""
    first: dict[str, ClusterData] = {}
    for cluster in declared:
        before = first.setdefault(cluster.name, cluster)
        if before is not cluster:
            yield Problem(
                f"cluster {cluster.name!r} is defined twice",
                hint=f"the first is at {before.source}; remove one or give it another name",
                source=cluster.source,
                field="name",
            )


def check_stacks(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    """Yield what is wrong between stacks, at most MOST_PROBLEMS problems."""
    return islice(_find_stack_problems(places, done, waiting), MOST_PROBLEMS)


def _find_stack_problems(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    yield from _find_duplicate_stacks(places)
    yield from _find_unknown_stacks(places, done, waiting)
    yield from _find_circle(places, done, waiting)
    yield from _find_contested_objects(done.values())
    yield from _find_exported_secrets(done.values())


def _find_duplicate_stacks(places: Mapping[str, Sequence[Declared]]) -> Iterator[Problem]:
    """Yield a problem for each stack whose name another one already has."""
    for name, declared in places.items():
        first, *duplicates = sorted(declared, key=lambda stack: (stack.source.file, stack.source.line))
        for duplicate in duplicates:
            yield Problem(
                f"there are two stacks {name!r}",
                hint=f"the other is at {first.source}; rename the function or give it name=…",
                source=duplicate.source,
                field="name",
            )


def _find_unknown_stacks(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    """Yield a problem for each use of a stack that does not exist."""
    unknown = [
        (stack.wants, stack.stack, Source(stack.problem.file, stack.problem.line), "output")
        for stack in waiting.values()
        if stack.wants not in places
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


def _find_circle(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    """Yield a problem for a circle of stacks that need each other, if there is one."""
    needs = {name: list(stack.needs) for name, stack in done.items()}
    needs |= {name: [stack.wants] for name, stack in waiting.items()}
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


def _find_contested_objects(done: Iterable[StackResult]) -> Iterator[Problem]:
    """Yield a problem for each object that two stacks declare: they would take it from each other for ever."""
    owners: dict[tuple[str, Key], tuple[str, Object]] = {}
    apps: dict[tuple[str, str, str], tuple[str, Object]] = {}  # by cluster, namespace and name, of any kind
    reported: set[tuple[str, str, Key]] = set()
    done = sorted(done, key=lambda stack: stack.name)
    if _has_each_once(done):
        return
    for stack in done:
        for desired in stack.desired:
            for item in desired.objects:
                if item.app:
                    app_name = (desired.cluster, item.key.namespace, item.key.name)
                    owner, first = apps.setdefault(app_name, (stack.name, item))
                    if first.key != item.key and (owner, stack.name, item.key) not in reported:
                        reported.add((owner, stack.name, item.key))
                        yield Problem(
                            f"{item.key} has the name of {first.key} in cluster {desired.cluster}, which is of stack "
                            f"{owner!r}, and so would their Services and Secrets",
                            hint=f"the other is at {first.source}; give one of them another name or namespace",
                            source=item.source,
                            field="name",
                        )
                owner, first = owners.setdefault((desired.cluster, item.key), (stack.name, item))
                if owner != stack.name and (owner, stack.name, item.key) not in reported:
                    reported.add((owner, stack.name, item.key))
                    is_namespace = item.key.kind == "Namespace"
                    remedy = "give one of the stacks another namespace" if is_namespace else "rename one"
                    yield Problem(
                        f"{item.key} in cluster {desired.cluster} is wanted by two stacks, "
                        f"{owner!r} and {stack.name!r}",
                        hint=f"the other is at {first.source}; {remedy}, or leave it to one of the two",
                        source=item.source,
                        field="name",
                    )


def _has_each_once(stacks: Iterable[StackResult]) -> bool:
    """Return whether no object and no name of an app is declared twice in a cluster; the usual case, checked fast."""
    by_cluster: dict[str, list[Object]] = {}
    for stack in stacks:
        for desired in stack.desired:
            by_cluster.setdefault(desired.cluster, []).extend(desired.objects)
    for objects in by_cluster.values():
        names = [(item.key.namespace, item.key.name) for item in objects if item.app]
        if len({item.key for item in objects}) < len(objects) or len(set(names)) < len(names):
            return False
    return True


def _find_exported_secrets(done: Iterable[StackResult]) -> Iterator[Problem]:
    """Yield a problem for the first export that holds a value of a Secret.

    Exports are plain: other stacks may put them anywhere, and they may be shown.
    """
    for desired in (desired for stack in done for desired in stack.desired if desired.exports):
        secrets = [item.manifest for item in desired.objects if is_secret(item.key)]
        if not secrets:
            continue
        from fleet.objects.redaction import SecretValues  # noqa: PLC0415 - only for stacks with both

        names = {desired.stack, desired.cluster}.union(*(item.key for item in desired.objects))
        secret_values = SecretValues.of(secrets, public=names)
        # All texts in one search: the cost of a search is bounded, and the number of exports is not.
        texts = ["\0".join(_walk_texts(value)) for value in desired.exports.values()]
        begin = secret_values.find("\0".join(texts))
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


def _walk_texts(value: object) -> Iterator[str]:
    """Yield every key and every text of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield str(key)
            yield from _walk_texts(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _walk_texts(below)


_HINT = "the result must follow from the files alone: no random numbers, no clock, no order of sets or listings"
_LONGEST = 60
_OF_A_STACK = ("source", "clusters", "rollout", "drift", "needs")
_NOT_OPTIONS = frozenset({"manifest", "source", "hash"})


def compare_clusters(
    first: Sequence[ClusterData], second: WorkerAnswer, problems: Sequence[Problem]
) -> Iterator[Problem]:
    """Yield the first difference between two evaluations of the clusters, and the problems of the second only."""
    yield from map(_mark_second_only, problems)
    if problems or tuple(first) == second.clusters:
        return
    by_name = {cluster.name: cluster for cluster in second.clusters}
    for cluster in first:
        other = by_name.get(cluster.name)
        if other is None:
            message = f"cluster {cluster.name} is there in one of two evaluations only"
            yield Problem(message, hint=_HINT, source=cluster.source)
            return
        if cluster != other:
            field, before, after = next(_find_differences(asdict(cluster), asdict(other), ""))
            yield _describe_difference(f"cluster {cluster.name}", cluster.source, field, before, after)
            return
    yield Problem("clusters differ between two evaluations", hint=_HINT, source=second.clusters[0].source)


def compare_stacks(
    first: Sequence[StackResult], second: WorkerAnswer, problems: Sequence[Problem]
) -> Iterator[Problem]:
    """Yield the differences between two evaluations of a file, and the problems of the second only."""
    yield from map(_mark_second_only, problems)
    if problems:
        return
    before, after = {stack.name: stack for stack in first}, {stack.name: stack for stack in second.stacks}
    for name in [*before, *(name for name in after if name not in before)]:
        earlier, later = before.get(name), after.get(name)
        if earlier is None or later is None:
            stack = earlier or later
            assert stack is not None  # noqa: S101 - the name is of one of the two
            yield Problem("the stack is there in one of two evaluations only", hint=_HINT, source=stack.source)
        elif problem := difference(earlier, later):
            yield problem


def _mark_second_only(problem: Problem) -> Problem:
    """Return the problem with the remark that only the second evaluation had it."""
    return Problem(
        f"in the second of two evaluations only: {problem.message}",
        hint=problem.hint or _HINT,
        source=problem.source,
        field=problem.field,
        output=problem.output,
    )


def difference(first: StackResult, second: StackResult) -> Problem | None:
    """Return a problem at the line of the object in which two evaluations differ; None if they are equal."""
    if _is_same(first, second):
        return None
    if first.clusters == second.clusters:
        for before, after in zip(first.desired, second.desired, strict=True):
            if not _is_same(before, after):
                return _compare_desired(before, after, first.source)
    field = next(name for name in _OF_A_STACK if not _is_same(getattr(first, name), getattr(second, name)))
    return _describe_difference("the stack", first.source, field, getattr(first, field), getattr(second, field))


def _is_same(first: Any, second: Any) -> bool:
    """Return whether both are the same JSON: for Python 1 equals True and 1.0, and for a cluster it does not."""
    return _encode(first) == _encode(second)


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=list, option=orjson.OPT_SORT_KEYS)


def _compare_desired(first: Desired, second: Desired, source: Source) -> Problem:
    """Return the problem for the first difference between two evaluations of a stack in a cluster."""
    before_by_key = {item.key: item for item in first.objects}
    after_by_key = {item.key: item for item in second.objects}
    where = f"in cluster {first.cluster}"
    for key in [*before_by_key, *after_by_key]:
        earlier, later = before_by_key.get(key), after_by_key.get(key)
        if earlier is None or later is None:
            item = earlier or later
            assert item is not None  # noqa: S101 - the key is of one of the two
            return Problem(f"{key} {where} is made in one of two evaluations only", hint=_HINT, source=item.source)
        if not _is_same(earlier, later):
            field, before, after = next(_find_differences(_flatten_object(earlier), _flatten_object(later), ""))
            if declared_secrecy(item.manifest for item in first.objects).of(key):
                before, after = REDACTED, REDACTED
            return _describe_difference(f"{key} {where}", earlier.source, field, before, after)
    if list(before_by_key) != list(after_by_key):
        orders = [*map(str, before_by_key)], [*map(str, after_by_key)]
        return _describe_difference(f"the order of objects {where}", source, "", *orders)
    for field, before, after in _find_differences(first.exports, second.exports, ""):
        return _describe_difference(f"an export {where}", source, field, before, after)
    return _describe_difference("the place of the stack", source, "", first.source.line, second.source.line)


def _flatten_object(item: Object) -> dict[str, Any]:
    """Return the manifest of an object together with its options and its line."""
    options = {name: getattr(item, name) for name in item.__slots__ if name[0] != "_" and name not in _NOT_OPTIONS}
    return {**item.manifest, **{name: value for name, value in options.items() if value}, "line": item.source.line}


def _find_differences(first: Any, second: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each field that differs, and both values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for name in [*first, *(name for name in second if name not in first)]:
            inner = f"{path}.{name}" if path else str(name)
            if name not in first or name not in second:
                yield inner, first.get(name, "nothing"), second.get(name, "nothing")
            else:
                yield from _find_differences(first[name], second[name], inner)
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for index, (left, right) in enumerate(zip(first, second, strict=True)):
            yield from _find_differences(left, right, f"{path}[{index}]")
    elif first != second or type(first) is not type(second):
        yield path, first, second


def _describe_difference(what: str, source: Source, field: str, before: Any, after: Any) -> Problem:
    message = f"{what} differs between two evaluations: {_shorten_value(before)}, then {_shorten_value(after)}"
    return Problem(message, hint=_HINT, source=source, field=field or None)


def _shorten_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
