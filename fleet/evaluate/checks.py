"""What no single file can know, and so no worker can find: names given twice, stacks that do not exist, circles.

Pure: the answers of all workers in, problems out. The code of others decides how much there is to find, so what is told
of it is bounded: so many problems, and a suggestion for the first few names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice

from fleet.errors import Source
from fleet.evaluate.answer import Declared, Waiting
from fleet.evaluate.result import ClusterData, Problem, StackResult
from fleet.model.desired import Key, Object
from fleet.model.graph import CycleError, ordered
from fleet.model.secrecy import is_secret
from fleet.suggestion import listed, suggestion

MOST_PROBLEMS = 1_000  # that are told of one evaluation
MOST_SUGGESTIONS = 10  # names are compared for
MOST_IN_CIRCLE = 20  # stacks of a circle that are named


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
        ordered(sorted(needs), needs)
    except CycleError as cycle:
        names = [str(name) for name in cycle.path]
        start = waiting.get(names[0])
        yield Problem(
            f"stacks need each other in a circle: {listed(names, MOST_IN_CIRCLE, ' → ')}",
            hint="take one dependency out of it (depends_on or fleet.output)",
            source=Source(start.problem.file, start.problem.line) if start else places[names[0]][0].source,
            field="output" if start else "depends_on",
        )


def _claimed_twice(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An object has one owner: two stacks that both want it would take it from each other for ever."""
    owners: dict[tuple[str, Key], tuple[str, Object]] = {}
    apps: dict[tuple[str, str, str], tuple[str, Object]] = {}  # by cluster, namespace and name: of whatever kind
    told: set[tuple[str, str, Key]] = set()
    for stack in sorted(done, key=lambda one: one.name):
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


def _exported_secrets(done: Iterable[StackResult]) -> Iterator[Problem]:
    """An export is plain: other stacks put it anywhere, and it may be shown. So it holds no value of a Secret."""
    for desired in (one for stack in done for one in stack.desired if one.exports):
        secrets = [one.manifest for one in desired.objects if is_secret(one.key)]
        if not secrets:
            continue
        from fleet.model.hidden import Hidden  # noqa: PLC0415 - only for stacks with both

        names = {desired.stack, desired.cluster}.union(*(one.key for one in desired.objects))
        hidden = Hidden.of(secrets, public=names)
        # All at once: what the search of one text may take is bounded, and there may be any number of them.
        texts = ["\0".join(_texts(value)) for value in desired.exports.values()]
        begin = hidden.first("\0".join(texts))
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
