"""The complete form of a worker's answer: what each field may be, and that it names only what the job asked for.

User code writes the answer, so every field of it may be forged. `decode` has checked the types; this module checks
lengths, characters, enumerations and what has to agree. All later stages rely on it and do not check again. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from fleet.apps.registry import is_announced, is_app
from fleet.errors import Source
from fleet.evaluate.decode import MalformedError
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.result import ClusterData, RolloutData, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.shape import find_shape_error
from fleet.text import printable
from fleet.times import DURATION_GRAMMAR as DURATION
from fleet.times import LONGEST_DURATION
from fleet.times import WINDOW_GRAMMAR as WINDOW

LAST_LINE = 10_000_000  # the highest line number of a file
MOST_NUMBER = 1_000_000  # the highest number of clusters and of waves
LONGEST_PATH = 4_096
LONGEST_TEXT = 1_024  # of other names: a context, a path of fields, a field manager
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")  # they become names of files, objects and branches
_LABEL = re.compile(r"([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OBJECT = re.compile(r"[^\s/%]{1,253}")  # kinds of Kubernetes differ; none takes these
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_GROUP = re.compile(r"[a-z0-9.-]{0,253}")
_NAMESPACE = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")
_SECRET = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}")
_EXPORT = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]{0,252}")


def check_clusters(clusters: Iterable[ClusterData], files: Collection[str]) -> None:
    """Raise MalformedError where a declared cluster is not as `fleet.Cluster` makes it."""
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
    cluster_names = {cluster["name"] for cluster in job.clusters}
    for stack in stacks:
        check_name(stack.name)
        if stack.name not in asked or stack.source.file not in job.files:
            raise MalformedError(f"stack {stack.name} was not asked for")
        _check_source("stack", stack.source, job.files)
        desired_clusters = tuple(desired.cluster for desired in stack.desired)
        if not cluster_names.issuperset(stack.clusters) or desired_clusters != stack.clusters:
            raise MalformedError(f"stack {stack.name} is for clusters it is not placed on")
        _check("stack.clusters (one twice)", len(set(stack.clusters)) == len(stack.clusters))
        _check("stack.drift", stack.drift in ("repair", "report"))
        for need in stack.needs:
            check_name(need)
        _check_rollout(stack.rollout, stack.clusters)
        for desired in stack.desired:
            _check_desired(desired, stack.name, job.files)


def check_paths(paths: Iterable[str], what: str) -> None:
    """Raise MalformedError where a path is not one of the repository; paths are compared, stored and read again."""
    for path in paths:
        _check(what, _is_path(path) and not path.startswith("/") and ".." not in path.split("/"))


def check_source(field: str, source: Source) -> None:
    """Raise MalformedError where a source is no place in a file; sources are printed beside their problem."""
    _check(f"{field}.source", _is_path(source.file) and 0 <= source.line <= LAST_LINE)


def check_name(name: str) -> str:
    """Return the name of a cluster or stack; raise MalformedError if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise MalformedError(f"{name[:80]!r} as a name")
    return name


def check_object(item: Object) -> None:
    """Raise MalformedError where an object lacks what the later stages rely on."""
    if item.hash:
        raise MalformedError("a hash, which is not the stack's to say")
    manifest = item.manifest
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedError("an object without metadata")
    parts = (manifest.get("apiVersion"), manifest.get("kind"), metadata.get("name"), metadata.get("namespace", ""))
    if not all(isinstance(part, str) for part in parts) or not all(parts[:3]):
        raise MalformedError("an object without apiVersion, kind or name")
    if error := find_shape_error(manifest):
        raise MalformedError(f"{item.key}: {error.field} {error.message}")
    for key in (item.key, *item.depends_on, *item.aliases):
        check_key(key)
    for text in (*item.take_from, *item.ignore_changes):
        _check_text(f"{item.key}: options", text)
    check_source(str(item.key), item.source)


def _check_desired(desired: Desired, stack: str, files: Collection[str]) -> None:
    if desired.stack != stack:
        raise MalformedError(f"stack {stack} answers for {desired.stack[:80]}")
    _check_source("desired", desired.source, files)
    order: dict[Key, int] = {}
    for number, item in enumerate(desired.objects):
        check_object(item)
        _check(f"{item.key}: app", item.app == (item.key.kind if _is_app(item) else ""))
        _check(f"{item.key} (there twice)", order.setdefault(item.key, number) == number)
    for number, item in enumerate(desired.objects):
        _check(f"{item.key}: depends_on", all(order.get(key, -1) < number for key in item.depends_on))
    for name in desired.exports:
        _check("exports", _fits(_EXPORT, name))


def _is_app(item: Object) -> bool:
    """Return whether an object is an app. Of one that the answer calls an app, the name is enough: `fleet check` loads
    no driver for it.
    """
    return is_announced(item.key.group, item.key.kind) if item.app else is_app(item.key.group, item.key.kind)


def _check_rollout(rollout: RolloutData, clusters: Collection[str]) -> None:
    names = [name for wave in rollout.waves for name in wave]
    _check("rollout.waves", sorted(names) == sorted(clusters))
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
    """Raise MalformedError where a key is none that a Kubernetes object can have."""
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
    """Raise MalformedError where an answer has parts that only the other task is asked for."""
    unasked_parts = ("declared", "stacks", "waiting") if job.task is Task.CLUSTERS else ("clusters",)
    for name in unasked_parts:
        _check(f"{name}, which was not asked for", not filled[name])
