"""What no single file can know, and so no worker can find: names given twice, stacks that do not exist, circles.

Pure: the answers of all workers in, problems out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from fleet.errors import Source
from fleet.evaluate.answer import Declared, Waiting
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.model.desired import Key, Object
from fleet.model.graph import CycleError, ordered
from fleet.model.secrecy import is_secret


def suggestion(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


def clusters(declared: Iterable[ClusterData]) -> Iterator[Problem]:
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


def stacks(
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
    for one in waiting.values():
        if one.wants not in places:
            place = Source(one.problem.file, one.problem.line)
            hint = suggestion(one.wants, set(places) - {one.stack})
            yield Problem(f"there is no stack {one.wants!r}", hint=hint, source=place, field="output")
    for stack in done.values():
        for need in stack.needs:
            if need not in places:
                hint = suggestion(need, set(places) - {stack.name})
                yield Problem(f"there is no stack {need!r}", hint=hint, source=stack.source, field="depends_on")


def _circle(
    places: Mapping[str, Sequence[Declared]], done: Mapping[str, StackResult], waiting: Mapping[str, Waiting]
) -> Iterator[Problem]:
    needs = {name: list(stack.needs) for name, stack in done.items()}
    needs |= {name: [one.wants] for name, one in waiting.items()}
    try:
        ordered(sorted(needs), needs)
    except CycleError as cycle:
        names = [str(name) for name in cycle.path]
        start = waiting.get(names[0])
        yield Problem(
            f"stacks need each other in a circle: {' → '.join(names)}",
            hint="take one dependency out of it (depends_on or fleet.output)",
            source=Source(start.problem.file, start.problem.line) if start else places[names[0]][0].source,
            field="output" if start else "depends_on",
        )


def _claimed_twice(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An object has one owner: two stacks that both want it would take it from each other for ever."""
    owners: dict[tuple[str, Key], tuple[str, Object]] = {}
    told: set[tuple[str, str, Key]] = set()
    for stack in sorted(done, key=lambda one: one.name):
        for desired in stack.desired:
            for one in desired.objects:
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


def _exported_secrets(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An export is plain: other stacks put it anywhere, and it may be shown. So it holds no value of a Secret."""
    for desired in (one for stack in done for one in stack.desired if one.exports):
        secrets = [one.manifest for one in desired.objects if is_secret(one.key)]
        if not secrets:
            continue
        from fleet.model.hidden import Hidden  # noqa: PLC0415 - only for stacks with both

        names = {desired.stack, desired.cluster}.union(*(one.key for one in desired.objects))
        hidden = Hidden.of(secrets, public=names)
        for name, value in desired.exports.items():
            if any(hidden.clean(text) != text for text in _texts(value)):
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
