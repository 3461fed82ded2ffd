"""Storage of bundles: their files, byte for byte, and their git branches.

One bundle has one form: keys in order, two spaces, no field that has its default. So an unchanged stack is an unchanged
file. A user who can push to the branch can write anything, so all that is read is checked before any of it is used;
what a bundle may do in the cluster is then a matter of the agent's rights.

There is one branch per cluster, each commit on the one before, never by force. A writer has read the commit that it
follows. If another writer was faster, nothing is written: what a cluster may have was worked out from what it had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import orjson

from fleet.bundle.model import SCHEMA, Bundle, BundleIndex, BundlePart, StackFile, add_hashes, content_digest
from fleet.errors import ConfigurationError, ResourceError, Source
from fleet.evaluate.answer import read_document
from fleet.evaluate.decode import MalformedError, decode
from fleet.evaluate.schema import check_name, check_object
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, Published, fetch_tips, publish
from fleet.git.refs import Address, branch_ref
from fleet.git.repository import GitRepository
from fleet.git.status_records import clean
from fleet.repository.values import InvalidError, check_account, check_fleet_name, check_ref
from fleet.times import parse_window

INDEX = "fleet.json"
MOST_BYTES = 32 * 1024 * 1024  # of one file
MOST_STACKS = 10_000
MOST_LETTERS = 1_000  # of one text
_JSON_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_CONTENT = re.compile(r"[0-9a-f]{32}")
T = TypeVar("T")


def stack_path(stack: str) -> str:
    return f"stacks/{stack}.json"


def encode_bundle(bundle: Bundle) -> dict[str, bytes]:
    """Return the files of a bundle by path."""
    return {
        INDEX: _encode_file(bundle.index),
        **{stack_path(stack): _encode_file(file) for stack, file in bundle.stacks.items()},
    }


def _encode_file(file: BundleIndex | StackFile) -> bytes:
    return orjson.dumps(_plain_value(file), option=_JSON_OPTIONS)


def _plain_value(value: Any) -> Any:
    """Leave out fields that have their default, and those that can be worked out from the rest."""
    if is_dataclass(value):
        stored = [
            dataclass_field for dataclass_field in fields(value) if dataclass_field.init and dataclass_field.compare
        ]
        return {
            dataclass_field.name: _plain_value(getattr(value, dataclass_field.name))
            for dataclass_field in stored
            if not _is_default(dataclass_field, value)
        }
    return [_plain_value(item) for item in value] if isinstance(value, tuple) else value


def _is_default(dataclass_field: Any, owner: Any) -> bool:
    value = getattr(owner, dataclass_field.name)
    if dataclass_field.default is not MISSING:
        return bool(value == dataclass_field.default)
    return bool(dataclass_field.default_factory is not MISSING and value == dataclass_field.default_factory())


def read_index(content: bytes, where: str, cluster: str) -> BundleIndex:
    """Read `fleet.json` for the cluster that asks; `where` is its name in errors. Raises ConfigurationError."""
    return _read_file(BundleIndex, content, f"{where}:{INDEX}", lambda index: _check_index(index, cluster))


def read_stack(content: bytes, where: str, stack: str) -> StackFile:
    """Read one stack's file, with the hashes of its objects."""
    return add_hashes(
        _read_file(StackFile, content, f"{where}:{stack_path(stack)}", lambda file: _check_stack(file, stack))
    )


def check_bundle(bundle: Bundle, files: Iterable[str], where: str) -> Bundle:
    """Check what no single file can: that all are there and no other, and that they fit each other."""
    try:
        listed_paths = {stack_path(stack) for stack in bundle.stacks}
        for changed_path in sorted(listed_paths ^ {file for file in files if file.startswith("stacks/")}):
            raise MalformedError(f"{changed_path} is {'not there' if changed_path in listed_paths else 'in no list'}")
        for part in bundle.index.stacks:
            file = bundle.stacks[part.stack]
            if missing := [needed for needed in file.needs if needed not in bundle.stacks]:
                raise MalformedError(f"stacks.{part.stack}.needs: {missing[0]}, which is not in the set")
            if content_digest(file, bundle.index.cluster) != part.content:
                raise MalformedError(f"stacks.{part.stack}.content: not that of {stack_path(part.stack)}")
    except MalformedError as error:
        raise _refusal_error(error, f"{where}:{INDEX}") from None
    return bundle


def _read_file(kind: type[T], content: bytes, where: str, check: Callable[[T], None]) -> T:
    try:
        if len(content) > MOST_BYTES:
            raise MalformedError(f"more than {MOST_BYTES} bytes")
        data = read_document(content, _JSON_OPTIONS)
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if schema != SCHEMA:
            raise MalformedError(f"schema: {str(schema)[:60]!r}, and this reads {SCHEMA!r}")
        value = decode(kind, data)
        check(value)
    except (MalformedError, orjson.JSONDecodeError) as error:
        raise _refusal_error(error, where) from None
    return value


def _refusal_error(error: ValueError, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"is no part of a rendered set: {error}",
        hint="only `fleet render --push` and `fleet serve` write such a branch; nothing of it is applied",
        source=Source(where),
    )


def _check_index(index: BundleIndex, cluster: str) -> None:
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
        _check(field, len(text) <= MOST_LETTERS)
    _check("labels", len(index.labels) <= 100)
    _check_readable("fleet", check_fleet_name, index.fleet)
    _check_readable("status_branch", check_ref, index.status_branch)
    if index.account:
        _check_readable("account", check_account, index.account)


def _check_stack(file: StackFile, stack: str) -> None:
    if file.stack != stack:
        raise MalformedError(f"stack: {file.stack[:80]!r}, and not {stack!r}")
    _check("drift", file.drift in ("repair", "report"))
    for obj in file.objects:
        check_object(obj)
    keys = [obj.key for obj in file.objects]
    _check("objects (one twice)", len(set(keys)) == len(keys))
    for window in file.windows:
        _check_readable("windows", parse_window, window)
    _check_readable("timezone", ZoneInfo, file.timezone)


def _check(field: str, holds: bool) -> None:
    if not holds:
        raise MalformedError(f"{field}: not as it should be")


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None


def _check_readable(field: str, reader: Callable[[Any], object], value: Any) -> None:
    try:
        reader(value)
    except InvalidError as error:
        raise MalformedError(f"{field}: {value!r}; it {error}") from None
    except (ValueError, KeyError, OSError, TypeError, AttributeError):
        raise MalformedError(f"{field}: {str(value)[:80]!r} is none") from None


TRAILER = "Source: "


def bundle_branch(prefix: str, cluster: str) -> str:
    return f"{prefix}/{cluster}"


def read_bundle(tip: Snapshot, cluster: str, before: Bundle | None = None) -> Bundle:
    """Read the bundle at a commit. What `before` has of it already is not read again."""
    files = tip.files()
    if INDEX not in files:
        raise ConfigurationError(f"{tip.ref} has no {INDEX}", hint="is it a branch that `fleet render --push` writes?")
    index = read_index(tip.read(INDEX), tip.ref, cluster)
    ids = {part.stack: files.get(stack_path(part.stack), "") for part in index.stacks}
    known_files = {(stack, before.blobs[stack]): file for stack, file in before.stacks.items()} if before else {}
    stacks = {
        stack: known_files.get((stack, blob)) or read_stack(tip.read(stack_path(stack)), tip.ref, stack)
        for stack, blob in ids.items()
        if blob
    }
    if missing := [stack for stack in ids if stack not in stacks]:
        raise ConfigurationError(f"{tip.ref} has no {stack_path(missing[0])}, which its {INDEX} names")
    return check_bundle(Bundle(index, stacks, tip.commit, ids), files, tip.ref)


def read_bundles(
    repository: GitRepository, remote: Address | None, prefix: str, clusters: Iterable[str]
) -> dict[str, Bundle]:
    """Read the bundles of these clusters, by cluster; clusters that never had one are left out."""
    refs = {branch_ref(bundle_branch(prefix, cluster)): cluster for cluster in clusters}
    if not refs:
        return {}
    with fetch_tips(repository, remote, list(refs)) as tips:
        return {refs[ref]: read_bundle(tip, refs[ref]) for ref, tip in tips.items() if tip is not None}


def write_bundles(
    repository: GitRepository,
    remote: Address | None,
    prefix: str,
    bundles: Collection[Bundle],
    before: Mapping[str, Bundle],
) -> Published:
    """Write all bundles in one push; a bundle that is what its branch has makes no commit."""
    edits = [_make_edit(prefix, bundle, before.get(bundle.index.cluster)) for bundle in bundles]
    return publish(repository, remote, edits)


def _make_edit(prefix: str, bundle: Bundle, before: Bundle | None) -> Edit:
    cluster, index = bundle.index.cluster, bundle.index

    def decide(tip: Snapshot | None) -> Changes:
        if (tip.commit if tip else "") != (before.commit if before else ""):
            raise ResourceError(
                f"{bundle_branch(prefix, cluster)} was written by somebody else meanwhile; nothing was pushed",
                hint="run it again: it starts from what is there now",
            )
        files, old = encode_bundle(bundle), encode_bundle(before) if before else {}
        changed: dict[str, bytes | None] = {name: text for name, text in files.items() if old.get(name) != text}
        return {**changed, **dict.fromkeys(old.keys() - files.keys())}

    title = f"{cluster}: {index.revision[:8]} {clean(index.subject, 80)}".strip()
    return Edit(branch_ref(bundle_branch(prefix, cluster)), f"{title}\n\n{TRAILER}{index.revision}\n", decide)


def rendered_revisions(repository: GitRepository, commit: str) -> frozenset[str]:
    """Return the commits that were rendered on the way to this one, by the messages of its branch."""
    listing = repository.git.run(
        "read what was rendered", "log", "--first-parent", "--no-notes", "--format=%B", "--end-of-options", commit
    )
    lines = (line.strip() for line in listing.text.splitlines())
    return frozenset(line.removeprefix(TRAILER) for line in lines if line.startswith(TRAILER))


def delivery_time(repository: GitRepository, commit: str, part: BundlePart) -> float | None:
    """Return when a stack of the bundle at this commit got its objects, by the branch's own history."""
    listing = repository.git.run(
        "read what was rendered",
        "log", "--first-parent", "--no-notes", "--max-count=1", "--format=%ct", f"-S{part.content}",
        "--end-of-options", commit, "--", INDEX,
    )  # fmt: skip
    return float(listing.text) if listing.text.strip() else None
