"""The form of a worker's answer, whole: what each field may be, and that it speaks of nothing but what was asked.

User code writes the answer, so every field of it may be forged. `decode` has checked the types; here are lengths,
characters, enumerations and what has to agree. All stages after this one rely on it, and ask no more. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from fleet.apps.registry import packages
from fleet.errors import Source
from fleet.evaluate.decode import MalformedError
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import ClusterData, RolloutData, StackResult
from fleet.names import GROUP
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.shape import find_shape_error
from fleet.text import printable
from fleet.times import DURATION_GRAMMAR as DURATION
from fleet.times import LONGEST_DURATION
from fleet.times import WINDOW_GRAMMAR as WINDOW

LAST_LINE = 10_000_000  # of a file
MOST_NUMBER = 1_000_000  # of clusters and waves
LONGEST_PATH = 4_096
LONGEST_TEXT = 1_024  # of what is a name to somebody: a context, a path of fields, a field manager
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")  # they become names of files, objects and branches
_LABEL = re.compile(r"([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OBJECT = re.compile(r"[^\s/%]{1,253}")  # kinds of Kubernetes differ; none takes these
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_GROUP = re.compile(r"[a-z0-9.-]{0,253}")
_NAMESPACE = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")
_SECRET = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}")
_EXPORT = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]{0,252}")


def check_clusters(clusters: Iterable[ClusterData], files: Collection[str]) -> None:
    """Raise MalformedError where what the files of clusters declare is not as `fleet.Cluster` makes it."""
    for cluster in clusters:
        check_name(cluster.name)
        _check_source("cluster", cluster.source, files)
        for name, value in cluster.labels.items():
            _check("cluster.labels", len(name) <= 317 and _fits(_LABEL, name) and (not value or _fits(_LABEL, value)))
        ways = [way for way in (cluster.context, cluster.secret, cluster.pull) if way]
        _check("cluster: reached in one way", len(ways) <= 1)
        _check_text("cluster.context", cluster.context or "")
        _check("cluster.secret", cluster.secret is None or _fits(_SECRET, cluster.secret))


def check_stacks(stacks: Iterable[StackResult], job: Job, asked: Collection[str]) -> None:
    """Raise MalformedError where a stack was not asked for, or is not as `@fleet.stack` and `render` make it."""
    known = {cluster["name"] for cluster in job.clusters}
    for stack in stacks:
        check_name(stack.name)
        if stack.name not in asked or stack.source.file not in job.files:
            raise MalformedError(f"stack {stack.name} was not asked for")
        _check_source("stack", stack.source, job.files)
        if not known.issuperset(stack.clusters) or tuple(one.cluster for one in stack.desired) != stack.clusters:
            raise MalformedError(f"stack {stack.name} is for clusters it is not placed on")
        _check("stack.clusters (one twice)", len(set(stack.clusters)) == len(stack.clusters))
        _check("stack.drift", stack.drift in ("repair", "report"))
        for need in stack.needs:
            check_name(need)
        _check_rollout(stack.rollout, stack.clusters)
        for desired in stack.desired:
            _check_desired(desired, stack.name, job.files)


def check_paths(paths: Iterable[str], what: str) -> None:
    """Raise MalformedError where one is not of the repository: they are compared, remembered and taken back."""
    for path in paths:
        _check(what, _is_path(path) and not path.startswith("/") and ".." not in path.split("/"))


def check_source(field: str, source: Source) -> None:
    """Raise MalformedError where it is no place in a file: it is printed beside what it is about."""
    _check(f"{field}.source", _is_path(source.file) and 0 <= source.line <= LAST_LINE)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise MalformedError(f"{name[:80]!r} as a name")
    return name


def check_object(one: Object) -> None:
    """Raise MalformedError where an object lacks what the stages after this one look at without asking."""
    if one.hash:
        raise MalformedError("a hash, which is not the stack's to say")
    manifest = one.manifest
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedError("an object without metadata")
    named = (manifest.get("apiVersion"), manifest.get("kind"), metadata.get("name"), metadata.get("namespace", ""))
    if not all(isinstance(part, str) for part in named) or not all(named[:3]):
        raise MalformedError("an object without apiVersion, kind or name")
    if found := find_shape_error(manifest):
        raise MalformedError(f"{one.key}: {found.field} {found.message}")
    for key in (one.key, *one.depends_on, *one.aliases):
        check_key(key)
    for text in (*one.take_from, *one.ignore_changes):
        _check_text(f"{one.key}: options", text)
    check_source(str(one.key), one.source)


def _check_desired(desired: Desired, stack: str, files: Collection[str]) -> None:
    if desired.stack != stack:
        raise MalformedError(f"stack {stack} answers for {desired.stack[:80]}")
    _check_source("desired", desired.source, files)
    order: dict[Key, int] = {}
    for number, one in enumerate(desired.objects):
        check_object(one)
        is_app = one.key.group == GROUP and one.key.kind.lower() in packages()
        _check(f"{one.key}: app", one.app == (one.key.kind if is_app else ""))
        _check(f"{one.key} (there twice)", order.setdefault(one.key, number) == number)
    for number, one in enumerate(desired.objects):
        _check(f"{one.key}: depends_on", all(order.get(key, -1) < number for key in one.depends_on))
    for name in desired.exports:
        _check("exports", _fits(_EXPORT, name))


def _check_rollout(rollout: RolloutData, clusters: Collection[str]) -> None:
    named = [name for wave in rollout.waves for name in wave]
    _check("rollout.waves", sorted(named) == sorted(clusters))
    for field in ("soak", "timeout", "rollback_after"):
        text = getattr(rollout, field)
        _check(f"rollout.{field}", 0 < len(text) <= LONGEST_DURATION and text.isascii() and _fits(DURATION, text))
    _check("rollout.max_unavailable", 0 <= rollout.max_unavailable <= MOST_NUMBER)
    _check("rollout.approve", all(1 <= wave <= MOST_NUMBER for wave in rollout.approve))
    _check("rollout.windows", all(text.isascii() and _fits(WINDOW, text) for text in rollout.windows))
    _check("rollout.on_failure", rollout.on_failure in ("stop", "rollback"))
    _check("rollout.rest", bool(rollout.waves) or not rollout.rest)
    try:
        ZoneInfo(rollout.timezone)
    except (ValueError, KeyError, OSError):
        raise MalformedError("rollout.timezone: not as it should be") from None


def check_key(key: Key) -> None:
    fits = _fits(_GROUP, key.group) and _fits(_KIND, key.kind) and _fits(_NAMESPACE, key.namespace)
    _check("a key", fits and _fits(_OBJECT, key.name) and printable(key.name) == key.name)


def _check_source(field: str, source: Source, files: Collection[str]) -> None:
    check_source(field, source)
    _check(f"{field}.source.file", source.file in files)


def _check_text(field: str, text: str) -> None:
    _check(field, len(text) <= LONGEST_TEXT and _is_one_line(text))


def _is_path(text: str) -> bool:
    return 0 < len(text) <= LONGEST_PATH and _is_one_line(text)


def _is_one_line(text: str) -> bool:
    return printable(text) == text and "\n" not in text and "\t" not in text


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None


def _check(field: str, holds: bool) -> None:
    if not holds:
        raise MalformedError(f"{field}: not as it should be")


def check_parts(job: Job, filled: Mapping[str, Any]) -> None:
    """Raise MalformedError where one task answers what only the other is asked."""
    others = ("declared", "stacks", "waiting") if job.task is Task.CLUSTERS else ("clusters",)
    for name in others:
        _check(f"{name}, which was not asked for", not filled[name])
