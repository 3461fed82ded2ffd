"""Evaluations by tree id.

Everything besides its files that an evaluation may depend on, as one short text: it is part of a memory's name.

What a tree of files means, remembered: a commit that was evaluated once is not evaluated again on this machine.

What a stack wants follows from its files alone (it was evaluated twice), so the tree's id is the
key, together with everything else that has a say: this Python, fleet's code, the packages that are installed. An
evaluation that looked at other files of the machine is not kept, nor one with a Secret in it: its values have no
business in a cache. The directory is the user's alone, each file carries its own hash, and whatever is not as it should
be counts as not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from fleet import ROOT, cache
from fleet.errors import Source
from fleet.evaluate.result import ClusterData, Evaluation, Reads, RolloutData, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.normalise import applied_hash
from fleet.objects.redaction import declared_secrecy, is_secret
from fleet.repository.settings import Settings
from fleet.version import __version__

# The folders that make an evaluation and write it down; the modules beside them count, too.
CODE = ("apps", "evaluate", "model", "objects", "plan", "render", "repository", "sync")


def surroundings() -> str:
    """Of this Python, fleet, and what is installed beside it."""
    python = (sys.version, sys.executable, os.environ.get("PYTHONPATH", ""))
    return hashlib.sha256("\n".join((__version__, *python, *_code(), *_packages())).encode()).hexdigest()


def _code() -> Iterator[str]:
    """The part of fleet that makes the result; its files change without its version while somebody works on it."""
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
    """What is installed, each with its version: stacks may import it."""
    for directory in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            yield from sorted(one.path for one in entries if one.name.endswith((".dist-info", ".egg-info")))


MOST_FILES = 64
MOST_BYTES = 256 * 1024 * 1024  # of all together, and so of one
_FLAGS = ("app", "protect", "retain_on_delete", "adopt")


class Remembered(NamedTuple):
    settings: Settings
    evaluation: Evaluation


def recall(tree: str) -> Remembered | None:
    """The settings and the evaluation of a tree, by its id."""
    key = _key(tree)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        path = cache.cache_directory("evaluations") / key
        content = _read(path)
        digest, _, body = content.partition(b"\n")
        if digest.decode() != hashlib.sha256(body).hexdigest():
            return None
        data = orjson.loads(body)
        if data["key"] != key:
            return None
        found = Remembered(Settings.of(data["settings"]), _evaluation(data))
        os.utime(path)  # what is used stays
        return found
    return None


def remember(tree: str, settings: Settings, evaluation: Evaluation) -> None:
    """Keep it if it may be kept; a cache that cannot be written is none."""
    if evaluation.problems or evaluation.foreign or _has_secrets(evaluation):
        return
    key = _key(tree)
    body = orjson.dumps({"key": key, "settings": settings, **_data(evaluation)}, default=list)
    if len(body) > MOST_BYTES:
        return
    with contextlib.suppress(OSError):
        directory = cache.cache_directory("evaluations")
        draft = directory / f".{key}.{os.urandom(6).hex()}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            draft.replace(directory / key)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        _forget_oldest(directory)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or found.st_size > MOST_BYTES + 100:
            raise PermissionError(f"{path} is not ours")
        return file.read()


def _forget_oldest(directory: Path) -> None:
    known = sorted(((one.stat(), one) for one in directory.iterdir()), key=lambda each: -each[0].st_mtime)
    total = 0
    for number, (about, path) in enumerate(known):
        total += about.st_size
        if number >= MOST_FILES or total > MOST_BYTES:
            path.unlink(missing_ok=True)


def _key(tree: str) -> str:
    return hashlib.sha256(f"{tree} {surroundings()}".encode()).hexdigest()


def _objects(evaluation: Evaluation) -> Iterator[Object]:
    return (one for stack in evaluation.stacks for desired in stack.desired for one in desired.objects)


def _has_secrets(evaluation: Evaluation) -> bool:
    """Also in fields that a definition of the same files marks."""
    definitions = (one.manifest for one in _objects(evaluation) if one.key.kind == "CustomResourceDefinition")
    known = declared_secrecy(definitions)
    return any(is_secret(one.key) or known.of(one.key) for one in _objects(evaluation))


def _data(evaluation: Evaluation) -> dict[str, Any]:
    stacks = [
        {
            "name": stack.name,
            "source": stack.source,
            "rollout": stack.rollout,
            "needs": stack.needs,
            "drift": stack.drift,
            "desired": [
                [one.cluster, one.source, one.exports, [_object_data(each) for each in one.objects]]
                for one in stack.desired
            ],
        }
        for stack in evaluation.stacks
    ]
    return {"clusters": evaluation.clusters, "stacks": stacks, "reads": evaluation.reads}


def _object_data(one: Object) -> list[Any]:
    options: dict[str, Any] = {name: value for name in _FLAGS if (value := getattr(one, name))}
    for name in ("depends_on", "aliases", "ignore_changes", "take_from"):
        if value := getattr(one, name):
            options[name] = value
    return [one.manifest, one.source.file, one.source.line, one.hash_with(applied_hash), options]


def _evaluation(data: dict[str, Any]) -> Evaluation:
    clusters = tuple(ClusterData(**{**one, "source": Source(**one["source"])}) for one in data["clusters"])
    reads = tuple(Reads(one["file"], tuple(one["files"]), tuple(one["directories"])) for one in data["reads"])
    return Evaluation(clusters, tuple(map(_stack, data["stacks"])), reads=reads)


def _stack(data: dict[str, Any]) -> StackResult:
    rollout = data["rollout"]
    desired = tuple(
        Desired(data["name"], cluster, tuple(map(_object, objects)), exports, Source(**source))
        for cluster, source, exports, objects in data["desired"]
    )
    return StackResult(
        name=data["name"],
        source=Source(**data["source"]),
        clusters=tuple(one.cluster for one in desired),
        rollout=RolloutData(
            **{**rollout, "waves": tuple(map(tuple, rollout["waves"]))}
            | {name: tuple(rollout[name]) for name in ("approve", "windows")}
        ),
        desired=desired,
        needs=tuple(data["needs"]),
        drift=data["drift"],
    )


def _object(data: list[Any]) -> Object:
    manifest, file, line, digest, options = data
    if options:
        for name in ("depends_on", "aliases"):
            if name in options:
                options[name] = tuple(Key(*key) for key in options[name])
        for name in ("ignore_changes", "take_from"):
            if name in options:
                options[name] = tuple(options[name])
    return Object(manifest, Source(file, line), hash=digest, **options)
