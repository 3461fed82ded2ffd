"""Bundle files and their git branch.

The files of a rendered set, byte for byte, and their reading. Pure.

One set has one form: keys in order, two spaces, no field that says what is usual. So an unchanged stack is an unchanged
file. Who can push to the branch can write anything, so all that is read is checked before any of it is used; what a set
may do in the cluster is then a matter of the agent's rights.

Rendered sets out of git and into it: one branch per cluster, each commit on the one before, never by force.

Whoever writes has read the commit that it follows. If somebody else was faster, nothing is written: what a cluster may
have was worked out from what it had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import orjson

from fleet.bundle.model import SCHEMA, Index, Part, RenderedSet, StackFile, content_of, with_hashes
from fleet.errors import ConfigurationError, ResourceError, Source
from fleet.evaluate.answer import document
from fleet.evaluate.decode import MalformedError, decode
from fleet.evaluate.schema import check_name, check_object
from fleet.git import refs as names
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, Published, fetched, publish
from fleet.git.refs import Address
from fleet.git.repository import Repository
from fleet.git.status_records import clean
from fleet.repository.settings import InvalidError, check_account, check_fleet_name, check_ref
from fleet.times import parse_window

INDEX = "fleet.json"
MOST_BYTES = 32 * 1024 * 1024  # of one file
MOST_STACKS = 10_000
LETTERS = 1_000  # of one text
_FORM = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_CONTENT = re.compile(r"[0-9a-f]{32}")
T = TypeVar("T")


def path(stack: str) -> str:
    return f"stacks/{stack}.json"


def encode(found: RenderedSet) -> dict[str, bytes]:
    """By path."""
    return {
        INDEX: _encoded(found.index),
        **{path(stack): _encoded(one) for stack, one in found.stacks.items()},
    }


def _encoded(one: Index | StackFile) -> bytes:
    return orjson.dumps(_plain(one), option=_FORM)


def _plain(value: Any) -> Any:
    """Without what is as it usually is, and without what can be worked out from the rest."""
    if is_dataclass(value):
        given = [one for one in fields(value) if one.init and one.compare]
        return {one.name: _plain(getattr(value, one.name)) for one in given if not _is_usual(one, value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _is_usual(one: Any, owner: Any) -> bool:
    value = getattr(owner, one.name)
    if one.default is not MISSING:
        return bool(value == one.default)
    return bool(one.default_factory is not MISSING and value == one.default_factory())


def read_index(content: bytes, where: str, cluster: str) -> Index:
    """`fleet.json` for the cluster that asks; `where` is what it is called in errors."""
    return _read(Index, content, f"{where}:{INDEX}", lambda index: _check_index(index, cluster))


def read_stack(content: bytes, where: str, stack: str) -> StackFile:
    """One stack's file, with the hashes of its objects."""
    return with_hashes(_read(StackFile, content, f"{where}:{path(stack)}", lambda file: _check_stack(file, stack)))


def check_set(found: RenderedSet, files: Iterable[str], where: str) -> RenderedSet:
    """What no file can know: that they are all there and no other, and that they fit each other."""
    try:
        named = {path(one) for one in found.stacks}
        for odd in sorted(named ^ {one for one in files if one.startswith("stacks/")}):
            raise MalformedError(f"{odd} is {'not there' if odd in named else 'in no list'}")
        for part in found.index.stacks:
            file = found.stacks[part.stack]
            if missing := [one for one in file.needs if one not in found.stacks]:
                raise MalformedError(f"stacks.{part.stack}.needs: {missing[0]}, which is not in the set")
            if content_of(file, found.index.cluster) != part.content:
                raise MalformedError(f"stacks.{part.stack}.content: not that of {path(part.stack)}")
    except MalformedError as error:
        raise _refused(error, f"{where}:{INDEX}") from None
    return found


def _read(kind: type[T], content: bytes, where: str, check: Callable[[T], None]) -> T:
    try:
        if len(content) > MOST_BYTES:
            raise MalformedError(f"more than {MOST_BYTES} bytes")
        data = document(content, _FORM)
        said = data.get("schema") if isinstance(data, Mapping) else None
        if said != SCHEMA:
            raise MalformedError(f"schema: {str(said)[:60]!r}, and this reads {SCHEMA!r}")
        found = decode(kind, data)
        check(found)
    except (MalformedError, orjson.JSONDecodeError) as error:
        raise _refused(error, where) from None
    return found


def _refused(error: ValueError, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"is no part of a rendered set: {error}",
        hint="only `fleet render --push` and `fleet serve` write such a branch; nothing of it is applied",
        source=Source(where),
    )


def _check_index(index: Index, cluster: str) -> None:
    check_name(index.cluster)
    if index.cluster != cluster:
        raise MalformedError(f"cluster: the set is for {index.cluster!r}, and this is {cluster!r}")
    _check("revision", _matches(_ID, index.revision))
    for part in index.stacks:
        check_name(part.stack)
        _check("stacks.revision", _matches(_ID, part.revision))
        _check("stacks.content", _matches(_CONTENT, part.content))
    for named in (*index.waiting, *index.elsewhere):
        check_name(named)
    names = [*(part.stack for part in index.stacks), *index.elsewhere]
    _check("stacks", len(set(names)) == len(names) and not set(index.waiting).intersection(index.elsewhere))
    _check("stacks", len(names) + len(index.waiting) <= MOST_STACKS)
    _check("budget", index.budget.deletions >= 0 and 0.0 <= index.budget.share <= 1.0)
    texts = {"subject": index.subject, **{f"waiting.{stack}": text for stack, text in index.waiting.items()}}
    if index.trouble is not None:
        _check("trouble.revision", _matches(_ID, index.trouble.revision))
        texts["trouble.message"] = index.trouble.message
    for field, text in texts.items():
        _check(field, len(text) <= LETTERS)
    _check("labels", len(index.labels) <= 100)
    _takes("fleet", check_fleet_name, index.fleet)
    _takes("status_branch", check_ref, index.status_branch)
    if index.account:
        _takes("account", check_account, index.account)


def _check_stack(file: StackFile, stack: str) -> None:
    if file.stack != stack:
        raise MalformedError(f"stack: {file.stack[:80]!r}, and not {stack!r}")
    _check("drift", file.drift in ("repair", "report"))
    for one in file.objects:
        check_object(one)
    keys = [one.key for one in file.objects]
    _check("objects (one twice)", len(set(keys)) == len(keys))
    for window in file.windows:
        _takes("windows", parse_window, window)
    _takes("timezone", ZoneInfo, file.timezone)


def _check(field: str, holds: bool) -> None:
    if not holds:
        raise MalformedError(f"{field}: not as it should be")


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None


def _takes(field: str, reader: Callable[[Any], object], value: Any) -> None:
    try:
        reader(value)
    except InvalidError as takes:
        raise MalformedError(f"{field}: {value!r}; it {takes}") from None
    except (ValueError, KeyError, OSError, TypeError, AttributeError):
        raise MalformedError(f"{field}: {str(value)[:80]!r} is none") from None


TRAILER = "Source: "


def branch_of(prefix: str, cluster: str) -> str:
    return f"{prefix}/{cluster}"


def read_set(tip: Snapshot, cluster: str, before: RenderedSet | None = None) -> RenderedSet:
    """The set at a commit. What `before` has of it already is not read again."""
    files = tip.files()
    if INDEX not in files:
        raise ConfigurationError(f"{tip.ref} has no {INDEX}", hint="is it a branch that `fleet render --push` writes?")
    index = read_index(tip.read(INDEX), tip.ref, cluster)
    ids = {one.stack: files.get(path(one.stack), "") for one in index.stacks}
    known = {(stack, before.blobs[stack]): one for stack, one in before.stacks.items()} if before else {}
    stacks = {
        stack: known.get((stack, blob)) or read_stack(tip.read(path(stack)), tip.ref, stack)
        for stack, blob in ids.items()
        if blob
    }
    if missing := [stack for stack in ids if stack not in stacks]:
        raise ConfigurationError(f"{tip.ref} has no {path(missing[0])}, which its {INDEX} names")
    return check_set(RenderedSet(index, stacks, tip.commit, ids), files, tip.ref)


def read_sets(
    repository: Repository, remote: Address | None, prefix: str, clusters: Iterable[str]
) -> dict[str, RenderedSet]:
    """By cluster, those that were ever rendered."""
    refs = {names.branch(branch_of(prefix, cluster)): cluster for cluster in clusters}
    if not refs:
        return {}
    with fetched(repository, remote, list(refs)) as tips:
        return {refs[ref]: read_set(tip, refs[ref]) for ref, tip in tips.items() if tip is not None}


def write_sets(
    repository: Repository,
    remote: Address | None,
    prefix: str,
    sets: Collection[RenderedSet],
    before: Mapping[str, RenderedSet],
) -> Published:
    """All of them in one push; a set that is what its branch has makes no commit."""
    edits = [_edit(prefix, one, before.get(one.index.cluster)) for one in sets]
    return publish(repository, remote, edits)


def _edit(prefix: str, one: RenderedSet, before: RenderedSet | None) -> Edit:
    cluster, index = one.index.cluster, one.index

    def decide(tip: Snapshot | None) -> Changes:
        if (tip.commit if tip else "") != (before.commit if before else ""):
            raise ResourceError(
                f"{branch_of(prefix, cluster)} was written by somebody else meanwhile; nothing was pushed",
                hint="run it again: it starts from what is there now",
            )
        files, old = encode(one), encode(before) if before else {}
        changed: dict[str, bytes | None] = {name: text for name, text in files.items() if old.get(name) != text}
        return {**changed, **dict.fromkeys(old.keys() - files.keys())}

    words = f"{cluster}: {index.revision[:8]} {clean(index.subject, 80)}".strip()
    return Edit(names.branch(branch_of(prefix, cluster)), f"{words}\n\n{TRAILER}{index.revision}\n", decide)


def sources(repository: Repository, commit: str) -> frozenset[str]:
    """The commits that were rendered on the way to this one, by the messages of its branch."""
    listed = repository.git.run(
        "read what was rendered", "log", "--first-parent", "--no-notes", "--format=%B", "--end-of-options", commit
    )
    lines = (line.strip() for line in listed.text.splitlines())
    return frozenset(line.removeprefix(TRAILER) for line in lines if line.startswith(TRAILER))


def given_at(repository: Repository, commit: str, part: Part) -> float | None:
    """When a stack of the set at this commit got the objects that it has there, by the branch's own history."""
    found = repository.git.run(
        "read what was rendered",
        "log", "--first-parent", "--no-notes", "--max-count=1", "--format=%ct", f"-S{part.content}",
        "--end-of-options", commit, "--", INDEX,
    )  # fmt: skip
    return float(found.text) if found.text.strip() else None
