"""Files of the status branch: one file per cluster and stack. Pure: reports of a sync in, changed files out.

The file format, version 1 (`clusters/<cluster>/<stack>.json`, UTF-8, keys in this order, ends with a newline):

    schema     "fleet.dev/status/v1"; a reader that finds another version leaves the file alone
    stack      name
    cluster    name
    sync       Synced: the revision below is applied. Failed, Conflict, Unreachable, Cancelled: `wanted` could not be.
               Waiting: it is not its turn yet; `message` says for what it waits.
               Drifted: it was, another field manager changed it since, and the stack asks for that to be left alone.
               Suspended: a user said that nothing of it is to be changed
    health     Healthy, Progressing, Degraded, Suspended, Missing, Unknown: the worst of its apps and objects
    since      when sync or health (or `content`) last became what they are, UTC, RFC 3339, whole seconds
    revision   commit id of what is applied in the cluster, "" when nothing ever was
    wanted     commit id of what should be; equals `revision` when Synced
    message    one line, at most 300 letters, why it is not healthy or not synced, else ""; nothing that a container
               printed
    apps       list, by kind, namespace and name, of
        kind, namespace, name (of one that was renamed with `aliases`, its name in git)
        version    the version that runs, "" when it is not known
        members    those that serve, of those that there should be, as in "3/3"; "" when it is not known
        available  "yes" when clients are served (an etcd has its quorum), "no" when not, "" when it is not known
        health, since, message    as above, of this app
    content    from an agent only: a digest of the objects that it was told to have, which moves `since` too

There is no field that a manifest, a Secret or an environment could end up in, and no time of the last observation: a
file changes when something changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from fleet.errors import ConfigurationError
from fleet.text import without_credentials, without_output

SCHEMA = "fleet.dev/status/v1"
HEALTH = ("Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown")
SYNC = ("Synced", "Failed", "Conflict", "Unreachable", "Cancelled", "Drifted", "Waiting", "Suspended")
MESSAGE_LETTERS = 300
FILE_BYTES = 1024 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+/-]{0,99}")
_ID = re.compile(r"([0-9a-f]{40}([0-9a-f]{24})?)?")
_DIGEST = re.compile(r"[0-9a-f]{0,64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PATH = re.compile(r"clusters/([^/]+)/([^/]+)\.json")


@dataclass(frozen=True, slots=True, order=True)
class AppRecord:
    """One app of a stack in one cluster. `since` is filled in by `follow`; reports leave it empty."""

    kind: str
    namespace: str
    name: str
    version: str = ""
    members: str = ""
    available: str = ""
    health: str = "Unknown"
    since: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The result of a sync for one stack in one cluster. `revision` is what it was to apply."""

    stack: str
    cluster: str
    revision: str
    sync: str = "Synced"
    health: str = "Unknown"
    message: str = ""
    apps: tuple[AppRecord, ...] = ()
    content: str = ""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """The content of one file of the status branch."""

    stack: str
    cluster: str
    sync: str
    health: str
    since: str
    revision: str
    wanted: str
    message: str = ""
    apps: tuple[AppRecord, ...] = ()
    content: str = ""

    @property
    def path(self) -> str:
        return record_path(self.cluster, self.stack)

    @property
    def is_well(self) -> bool:
        return self.sync == "Synced" and self.health == "Healthy"


def record_path(cluster: str, stack: str) -> str:
    return f"clusters/{_check_text(_NAME, cluster, 'cluster')}/{_check_text(_NAME, stack, 'stack')}.json"


def is_record_path(name: str) -> bool:
    return _PATH.fullmatch(name) is not None


def placement_of(name: str) -> tuple[str, str]:
    """Return the stack and the cluster that a record file is about, by its path."""
    _, cluster, stack = name.split("/")
    return stack.removesuffix(".json"), cluster


def is_readable(content: bytes, name: str) -> bool:
    """Return whether a file is a record of this version: any other is left alone."""
    return _previous(content, name) is not None


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clean(text: str, letters: int = MESSAGE_LETTERS) -> str:
    """Return a text as one printable line of at most `letters`.

    No control or direction characters, no credentials in urls, nothing that a container printed.
    """
    if text.isascii() and text.isprintable() and len(text) <= letters and "://" not in text and "  " not in text:
        return text.strip()  # as most are
    text = without_output(text)
    spaced = "".join(letter if unicodedata.category(letter)[0] not in "CZ" else " " for letter in text[: 20 * letters])
    line = without_credentials(" ".join(spaced.split()))
    return line if len(line) <= letters else line[: letters - 1] + "…"


def follow(previous: StatusRecord | None, report: StatusReport, now: datetime) -> StatusRecord:
    """Return the record after a report: `since` moves only with sync or health, `revision` only when it was applied."""
    at = timestamp(now)
    sync = report.sync if report.sync in SYNC else "Failed"
    wanted = _check_text(_ID, report.revision, "revision")
    before = {(app.kind, app.namespace, app.name): app for app in (previous.apps if previous else ())}
    reported = sorted(report.apps)
    if not reported and previous and sync != "Synced":
        reported = [replace(app, health="Unknown", message="") for app in previous.apps]  # not seen is not gone
    record = StatusRecord(
        stack=_check_text(_NAME, report.stack, "stack"),
        cluster=_check_text(_NAME, report.cluster, "cluster"),
        sync=sync,
        health=_health(report.health),
        since=at,
        revision=wanted if sync == "Synced" else previous.revision if previous else "",
        wanted=wanted,
        message=clean(report.message),
        apps=tuple(_app_after(before.get((app.kind, app.namespace, app.name)), app, at) for app in reported),
        content=_check_text(_DIGEST, report.content, "digest"),
    )
    same = ("sync", "health", "content")
    if previous and all(getattr(previous, name) == getattr(record, name) for name in same):
        return replace(record, since=previous.since)
    return record


def encode(record: StatusRecord) -> bytes:
    import orjson  # noqa: PLC0415 - with the first file, not with the command line

    data = {"schema": SCHEMA, **{field.name: getattr(record, field.name) for field in fields(record)}}
    if not record.content:
        del data["content"]
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decode(content: bytes, name: str) -> StatusRecord:
    """Read a file that any user with write access may have written; `name` is its path.

    Raises ConfigurationError for a file that is no record of this version.
    """
    import orjson  # noqa: PLC0415

    try:
        data = orjson.loads(content if len(content) <= FILE_BYTES else b"")
        if data["schema"] != SCHEMA:
            raise ConfigurationError(f"{name} has the schema {clean(str(data['schema']), 60)!r}, not {SCHEMA!r}")
        record = StatusRecord(
            stack=_check_text(_NAME, data["stack"], "stack"),
            cluster=_check_text(_NAME, data["cluster"], "cluster"),
            sync=_one_of(SYNC, data["sync"]),
            health=_one_of(HEALTH, data["health"]),
            since=_check_text(_TIME, data["since"], "since"),
            revision=_check_text(_ID, data["revision"], "revision"),
            wanted=_check_text(_ID, data["wanted"], "wanted"),
            message=clean(data["message"]),
            apps=tuple(_decode_app(app) for app in data["apps"]),
            content=_check_text(_DIGEST, data.get("content", ""), "digest"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{name} is not a status file: {clean(str(error), 100)}") from error
    if record.path != name:
        raise ConfigurationError(f"{name} says that it is {record.path}")
    return record


def decode_all(files: Mapping[str, bytes]) -> tuple[list[StatusRecord], list[ConfigurationError]]:
    """Return all records by stack and cluster, and the errors for the files that are none."""
    records, errors = [], []
    for name in sorted(filter(is_record_path, files)):
        try:
            records.append(decode(files[name], name))
        except ConfigurationError as error:
            errors.append(error)
    return sorted(records, key=lambda record: (record.stack, record.cluster)), errors


def changed_files(
    files: Mapping[str, bytes], reports: Iterable[StatusReport], removed: Iterable[tuple[str, str]], now: datetime
) -> dict[str, bytes | None]:
    """Return the record files to be written (or, None, removed): only our own, and only those that differ.

    `removed` are (stack, cluster) pairs that are no more.
    """
    changes: dict[str, bytes | None] = {}
    for report in reports:
        name = record_path(report.cluster, report.stack)
        if name in files and is_unchanged(files[name], report):
            continue
        content = encode(follow(_previous(files.get(name), name), report, now))
        if content != files.get(name):
            changes[name] = content
    for stack, cluster in removed:
        name = record_path(cluster, stack)
        if name in files:
            changes[name] = None
    return changes


def is_unchanged(content: bytes, report: StatusReport) -> bool:
    """Return whether a record file says just this already: the usual case, and much quicker than a new record."""
    import orjson  # noqa: PLC0415

    try:
        data = orjson.loads(content)
        since = {(app["kind"], app["namespace"], app["name"]): app["since"] for app in data["apps"]}
        apps = [
            {
                "kind": app.kind,
                "namespace": app.namespace,
                "name": app.name,
                "version": clean(app.version, 60),
                "members": _members(app.members),
                "available": _available(app.available),
                "health": app.health,
                "since": since[app.kind, app.namespace, app.name],
                "message": clean(app.message),
            }
            for app in report.apps
        ]
        apps.sort(key=lambda app: (app["kind"], app["namespace"], app["name"]))
        expected = {
            "schema": SCHEMA,
            "stack": report.stack,
            "cluster": report.cluster,
            "sync": "Synced",
            "health": report.health,
            "since": data["since"],
            "revision": report.revision,
            "wanted": report.revision,
            "message": clean(report.message),
            "apps": apps,
            **({"content": report.content} if report.content else {}),
        }
        times = {data["since"], *since.values()}
        return report.sync == "Synced" and expected == data and all(map(_TIME.fullmatch, times))
    except (ValueError, KeyError, TypeError):
        return False


def _previous(content: bytes | None, name: str) -> StatusRecord | None:
    """Return the record of a file; None where it cannot be read: it is written anew then, and only `since` is lost."""
    try:
        return decode(content, name) if content is not None else None
    except ConfigurationError:
        return None


def _app_after(previous: AppRecord | None, app: AppRecord, at: str) -> AppRecord:
    health = _health(app.health)
    return AppRecord(
        kind=_check_text(_WORD, app.kind, "kind"),
        namespace=_check_text(_WORD, app.namespace, "namespace") if app.namespace else "",
        name=_check_text(_NAME, app.name, "name"),
        version=clean(app.version, 60),
        members=_members(app.members),
        available=_available(app.available),
        health=health,
        since=previous.since if previous and previous.health == health else at,
        message=clean(app.message),
    )


def _decode_app(data: dict[str, Any]) -> AppRecord:
    keys = ("kind", "namespace", "name", "version", "members", "available", "health", "message")
    app = AppRecord(**{key: data[key] for key in keys if key in data})  # records of earlier releases lack some
    return replace(_app_after(None, app, ""), since=_check_text(_TIME, data["since"], "since"))


def _members(text: str) -> str:
    return text if re.fullmatch(r"\d{1,6}/\d{1,6}", text) else ""


def _available(word: str) -> str:
    return word if word in ("yes", "no") else ""


def _health(word: str) -> str:
    return word if word in HEALTH else "Unknown"


def _one_of(allowed: tuple[str, ...], word: str) -> str:
    if word not in allowed:
        raise ValueError(f"{word!r} is none of {', '.join(allowed)}")
    return word


def _check_text(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise ConfigurationError(f"{clean(text, 80)!r} is not a {what} for the status branch")
    return text
