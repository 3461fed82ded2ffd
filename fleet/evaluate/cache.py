"""Cache of evaluations by tree id: a commit that was evaluated once is not evaluated again on this machine.

What a stack declares follows from its files alone (it was evaluated twice), so the key of an entry is the tree's id
together with everything else that an evaluation depends on: this Python, fleet's code, the installed packages. An
evaluation that read other files of the machine is not stored.

The result of each file of stacks is a part of its own: a part that stays the same from one commit to the next is copied
as it is. In it, what many objects have in common is written once, and each manifest is a line of its own, which is
decoded when it is asked for. A file has no part if its stacks have a Secret, if it exports values to such stacks, or if
a value of a Secret is in its result: those values must not be in a cache. Such files are evaluated each time. The
directory belongs to the user alone, each entry carries its own hash, and an entry that is not as it should be counts as
missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from fleet import ROOT, cache
from fleet.apps.installed import installed_types
from fleet.apps.registry import installed_directories
from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, Reads, RolloutData, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.normalise import applied_hash
from fleet.objects.redaction import Secrecy, SecretValues, declared_secrecy
from fleet.repository.settings import Settings
from fleet.version import __version__

# The folders that make an evaluation and write it down; the modules beside them count, too.
CODE = ("apps", "evaluate", "kit", "model", "objects", "plan", "render", "repository", "sync")


def environment_fingerprint() -> str:
    """Return a digest of this Python, of fleet's code and of the packages that are installed beside it."""
    python = (sys.version, sys.executable, os.environ.get("PYTHONPATH", ""))
    return hashlib.sha256("\n".join((__version__, *python, *_code(), *_packages())).encode()).hexdigest()


def _code() -> Iterator[str]:
    """Yield the files of fleet that make the result; during development they change while the version does not."""
    yield from sorted(_files(ROOT, below=False))
    for part in CODE:
        yield from sorted(_files(f"{ROOT}/{part}"))


def _files(directory: str, *, below: bool = True) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                about = entry.stat()
                yield f"{entry.path} {about.st_size} {about.st_mtime_ns}"
            elif below and entry.is_dir() and not entry.name.startswith((".", "__")):
                yield from _files(entry.path)


def _packages() -> Iterator[str]:
    """Yield the installed packages, each with its version: stacks may import them."""
    for directory in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            yield from sorted(entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info")))
    yield from _app_types()


def _app_types() -> Iterator[str]:
    """Yield the installed app types with their versions and files: one that is being written keeps its version."""
    yield from (f"{installed.module} {installed.origin}" for installed in installed_types())
    for path in installed_directories():
        yield from sorted(_files(str(path))) if path.is_dir() else (f"{path} {path.stat().st_mtime_ns}",)


MOST_FILES = 64
MOST_BYTES = 256 * 1024 * 1024  # of all together, and so of one
PART_END = b"\0"  # no JSON has it
_OPTIONS = ("app", "protect", "retain_on_delete", "adopt", "depends_on", "aliases", "take_from", "ignore_changes")
# What objects have in common that one line of a stack declares in a loop: all but name, hash and manifest.
_traits_of = operator.attrgetter(
    "key.group", "version", "key.kind", "key.namespace", "source.file", "source.line", *_OPTIONS
)


@dataclass(frozen=True, slots=True)
class CachedEvaluation:
    settings: Settings
    evaluation: Evaluation  # without the stacks of files that are `unknown`
    unknown: tuple[str, ...] = ()  # files of stacks that are to be evaluated anew
    parts: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # each file's stacks as they are written


def is_known(tree: str) -> bool:
    """Return whether the cache has an evaluation of a tree."""
    with contextlib.suppress(OSError):
        return (cache.cache_directory("evaluations") / _key(tree)).is_file()
    return False


def load_evaluation(tree: str, besides: Collection[str] = (), *, whole: bool = False) -> CachedEvaluation | None:
    """Return the settings and the evaluation of a tree, by its id, without the files that the caller does not need.

    `whole`: only if all files were kept.
    """
    key = _key(tree)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        path = cache.cache_directory("evaluations") / key
        content = _read(path)
        first, *texts = content.split(PART_END)
        digest, _, first = first.partition(b"\n")
        if digest.decode() != hashlib.sha256(memoryview(content)[len(digest) + 1 :]).hexdigest():
            return None
        index = orjson.loads(first)
        if index["key"] != key or (whole and index["unknown"]):
            return None
        parts = {file: text for file, text in zip(index["files"], texts, strict=True) if file not in besides}
        evaluation = _evaluation(index, [stack for text in parts.values() for stack in _read_part(text)])
        unknown = (*index["unknown"], *(file for file in index["files"] if file not in parts))
        cached = CachedEvaluation(Settings.of(index["settings"]), evaluation, unknown, parts)
        os.utime(path)  # what is used stays
        return cached
    return None


def store_evaluation(
    tree: str, settings: Settings, evaluation: Evaluation, before: CachedEvaluation | None = None
) -> None:
    """Store what may be stored; an error while writing is ignored. `before` is what the evaluation went on from."""
    if evaluation.problems or evaluation.foreign:
        return
    parts, unknown = _parts(evaluation, before)
    if unknown and not parts:
        return
    key = _key(tree)
    index = {
        "key": key,
        "settings": settings,
        "clusters": evaluation.clusters,
        "reads": evaluation.reads,
        "order": [stack.name for stack in evaluation.stacks],
        "files": list(parts),
        "unknown": sorted(unknown),
    }
    body = PART_END.join((orjson.dumps(index, default=list), *parts.values()))
    if len(body) > MOST_BYTES:
        return
    with contextlib.suppress(OSError):
        directory = cache.cache_directory("evaluations")
        draft = directory / f".{key}.{os.urandom(6).hex()}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines((hashlib.sha256(body).hexdigest().encode(), b"\n", body))
            draft.replace(directory / key)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        _forget_oldest(directory)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or status.st_size > MOST_BYTES + 100:
            raise PermissionError(f"{path} is not ours")
        return file.read()


def _forget_oldest(directory: Path) -> None:
    newest_first = sorted(((path.stat(), path) for path in directory.iterdir()), key=lambda entry: -entry[0].st_mtime)
    total = 0
    for number, (about, path) in enumerate(newest_first):
        total += about.st_size
        if number >= MOST_FILES or total > MOST_BYTES:
            path.unlink(missing_ok=True)


def _key(tree: str) -> str:
    return hashlib.sha256(f"{tree} {environment_fingerprint()}".encode()).hexdigest()


def _parts(evaluation: Evaluation, before: CachedEvaluation | None) -> tuple[dict[str, bytes], set[str]]:
    """Return the result of each file of stacks as text, and the files of which nothing may be stored."""
    stacks = _by_file(evaluation)
    before_by_file = _by_file(before.evaluation) if before else {}
    same = {
        file
        for file, file_stacks in stacks.items()
        if len(before_by_file.get(file, ())) == len(file_stacks)
        and all(map(operator.is_, before_by_file[file], file_stacks))
    }
    secrecy = _declared_fields(evaluation)
    secret = {
        file
        for file, file_stacks in stacks.items()
        if (file not in same or secrecy.fields) and any(secrecy.of(item.key) for item in _objects(file_stacks))
    }
    unknown = _with_related(secret, evaluation)
    parts: dict[str, bytes] = {}
    secret_values = _secret_values([stack for file in secret for stack in stacks[file]], secrecy)
    for file in sorted(stacks.keys() - unknown):
        text = before.parts[file] if before and file in same else _write_part(stacks[file])
        if secret_values and secret_values.is_in_data(text):
            unknown.add(file)
        else:
            parts[file] = text
    return parts, unknown


def _with_related(files: set[str], evaluation: Evaluation) -> set[str]:
    """Return these files, those whose exports they read (their values may be made from them), and their readers."""
    file_of = {stack.name: stack.source.file for stack in evaluation.stacks}
    reads = [
        (stack.source.file, file_of[name]) for stack in evaluation.stacks for name in stack.needs if name in file_of
    ]
    return _expand(files, reads) | _expand(files, [(source, reader) for reader, source in reads])


def _expand(files: set[str], edges: Collection[tuple[str, str]]) -> set[str]:
    """Return these files and all that edges lead to from them."""
    reached = set(files)
    while more := {end for begin, end in edges if begin in reached} - reached:
        reached |= more
    return reached


def _secret_values(stacks: Collection[StackResult], secrecy: Secrecy) -> SecretValues:
    """Return the secret values of these stacks, except those that are public names."""
    keys = [item.key for item in _objects(stacks)]
    public = {stack.name for stack in stacks}.union(*keys, *(stack.clusters for stack in stacks))
    return SecretValues.of((item.manifest for item in _objects(stacks)), secrecy, public=public)


def _by_file(evaluation: Evaluation) -> dict[str, list[StackResult]]:
    files: dict[str, list[StackResult]] = {}
    for stack in evaluation.stacks:
        files.setdefault(stack.source.file, []).append(stack)
    return files


def _objects(stacks: Collection[StackResult]) -> Iterator[Object]:
    return (item for stack in stacks for desired in stack.desired for item in desired.objects)


def _declared_fields(evaluation: Evaluation) -> Secrecy:
    """Return the fields that a definition of the same files marks as secret."""
    definitions = (item for item in _objects(evaluation.stacks) if item.key.kind == "CustomResourceDefinition")
    return declared_secrecy(item.manifest for item in definitions)


def _write_part(stacks: Collection[StackResult]) -> bytes:
    """Return the lines of a part: one for the stacks, then one for each manifest, in their order."""
    first_line = [
        {
            "name": stack.name,
            "source": stack.source,
            "rollout": stack.rollout,
            "needs": stack.needs,
            "drift": stack.drift,
            "desired": [
                [desired.cluster, desired.source, desired.exports, *_describe_objects(desired.objects)]
                for desired in stack.desired
            ],
        }
        for stack in stacks
    ]
    manifests = (orjson.dumps(item.manifest) for item in _objects(stacks))
    return b"\n".join((orjson.dumps(first_line, default=list), *manifests))


def _describe_objects(objects: Collection[Object]) -> tuple[list[Any], list[Any]]:
    """Return all traits that these objects have, and of each object the number of its traits, its name and hash."""
    numbers: dict[Any, int] = {}
    names = [
        [numbers.setdefault(_traits_of(item), len(numbers)), item.key.name, item.hash_with(applied_hash)]
        for item in objects
    ]
    return list(numbers), names


def _read_part(text: bytes) -> Iterator[StackResult]:
    """Yield the stacks of a part."""
    first_line, *manifests = text.split(b"\n")
    stacks = orjson.loads(first_line)
    lines = iter(manifests)
    for stack in stacks:
        yield _stack(stack, lines)


def _evaluation(index: dict[str, Any], stacks: Iterable[StackResult]) -> Evaluation:
    clusters = tuple(ClusterData(**{**entry, "source": Source(**entry["source"])}) for entry in index["clusters"])
    reads = tuple(Reads(entry["file"], tuple(entry["files"]), tuple(entry["directories"])) for entry in index["reads"])
    by_name = {stack.name: stack for stack in stacks}
    return Evaluation(clusters, tuple(by_name[name] for name in index["order"] if name in by_name), reads=reads)


def _stack(data: dict[str, Any], manifests: Iterator[bytes]) -> StackResult:
    rollout = data["rollout"]
    desired = tuple(
        Desired(data["name"], cluster, tuple(_read_objects(traits, names, manifests)), exports, Source(**source))
        for cluster, source, exports, traits, names in data["desired"]
    )
    return StackResult(
        name=data["name"],
        source=Source(**data["source"]),
        clusters=tuple(target.cluster for target in desired),
        rollout=RolloutData(
            **{**rollout, "waves": tuple(map(tuple, rollout["waves"]))}
            | {name: tuple(rollout[name]) for name in ("approve", "windows")}
        ),
        desired=desired,
        needs=tuple(data["needs"]),
        drift=data["drift"],
    )


def _read_objects(all_traits: list[Any], names: list[Any], manifests: Iterator[bytes]) -> Iterator[Object]:
    """Yield the objects with these names; their manifests come next among the lines."""
    read_traits = [_read_traits(data) for data in all_traits]
    for (number, name, digest), text in zip(names, islice(manifests, len(names)), strict=True):
        group, version, kind, namespace, source, options = read_traits[number]
        key = Key._make((group, kind, namespace, name))  # quicker than to call the class
        yield Object.from_json(text, key, version, source, digest=digest, options=options)


def _read_traits(data: list[Any]) -> tuple[str, str, str, str, Source, dict[str, Any]]:
    group, version, kind, namespace, file, line, *values = data
    options = dict(zip(_OPTIONS, values, strict=True))
    options |= {name: tuple(Key(*key) for key in options[name]) for name in ("depends_on", "aliases")}
    options |= {name: tuple(options[name]) for name in ("take_from", "ignore_changes")}
    return group, version, kind, namespace, Source(file, line), options
