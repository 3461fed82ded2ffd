"""A record of what was observed of an app and decided about it, as JSON: for `fleet explain`, bug reports and replays.

It says nothing secret. Of a Secret it has the name, the names of its entries, and for each entry a mark that tells one
value from another while this process runs; and no text of a record has what lies in an entry. When a record is read,
what the marks stand for is replaced by keys and certificates that were made up for it: decisions ask whether they are
there, and never what they are.

Values are written by their class, "module:Name", and read by classes that the reader names: nothing is imported for a
record, and no class is made that is not plain data of the kit or of the app's own type. Pure.
"""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import hashlib
import hmac
import json
import re
import secrets
import sys
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

from fleet.errors import ConfigurationError, FleetError
from fleet.kit import names
from fleet.kit.credentials.certificates import Authority
from fleet.kit.credentials.users import GIVEN, conceal_password
from fleet.kit.observe.world import Object, World, secret_data
from fleet.model.app import App
from fleet.names import VERSION
from fleet.objects.redaction import SecretValues
from fleet.version import __version__

KIND = "fleet explanation"
FORMAT = 1
MOST_TEXT = 16 << 20  # bytes of a record that is read
DEEPEST = 100
RECORD = "record"  # the entry of the ConfigMap with it
PURPOSE = "explain"  # of the ConfigMap in which the operator hands a record out
SHARED = (World, App)  # are in an observation more than once, and written once
# Entries of Secrets that say what everybody may know. They are not shown either, but other texts may have their words.
PUBLIC = ("host", "port", "url", "endpoints", "username", "trust", "word", "next-word", "until", "since", "ca.crt")
PUBLIC_OF_USERS = (GIVEN, "phase", "database")
# Entries that decisions read, and the form in which they say what everybody may know.
KEPT = {
    "trust": re.compile(r"[0-9a-f]{10}"),  # the mark of a set of CAs, which pods carry as well
    GIVEN: re.compile(r"(?:[a-z0-9-]+=[0-9a-f]{10} ?)*"),
}
KEPT_OF_USER = {  # of the Secret of a user, whose passwords have other entries
    "word": re.compile(r".{0,63}"),
    "next-word": re.compile(r".{0,63}"),
    "until": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d:\d\d"),
}
PASSWORDS = ("password", "next-password", "old-password")  # of a user's Secret
_COMPRESSED = b"\x1f\x8b"
_KEY = secrets.token_bytes(32)  # of marks: nobody can guess a password by its mark
_CLASS, _TUPLE, _SET, _MAP, _TIME, _ENUM, _APP, _SAME, _OMITTED = (
    "$class", "$tuple", "$set", "$map", "$time", "$enum", "$app", "$same", "$omitted"
)  # fmt: skip


class RecordError(ConfigurationError):
    """What was given as a record is none, or cannot be read by this release."""


def record_map(app: App) -> str:
    """Return the name of the ConfigMap in which the operator hands a record of an app out."""
    return f"{app.name}-{PURPOSE}"


# Writing


def write_observation(observation: Any) -> dict[str, Any]:
    """Return an observation as data for JSON, without anything secret."""
    return _RecordWriter(_secret_values(_worlds(observation))).write_all(observation)


def redact_texts(observation: Any, data: Any) -> Any:
    """Return data for JSON without what lies in the Secrets of an observation: programs and servers may quote it."""
    return _RecordWriter(_secret_values(_worlds(observation))).write(data)


def make_record(engine: Mapping[str, Any], app: Mapping[str, str], decisions: Sequence[Mapping[str, Any]]) -> Object:
    """Return a record: how the engine was set up, whose decisions these are, and the decisions, the newest last."""
    head = {"kind": KIND, "format": FORMAT, "release": __version__}
    return {**head, "engine": dict(engine), "app": dict(app), "decisions": list(decisions)}


def pack_record(record: Object) -> bytes:
    """Return a record, compressed."""
    return gzip.compress(json.dumps(record, separators=(",", ":")).encode(), 5, mtime=0)


def mark(value: bytes | str) -> str:
    """Return what tells one value from another, and nothing else about it. It is another one in every process."""
    data = value.encode() if isinstance(value, str) else value
    return hmac.digest(_KEY, data, hashlib.sha256).hex()[:10] if data else ""


def mark_content(manifest: Object) -> str:
    """Return what tells the content of an object from another one, the same in every process; "" for a Secret."""
    if manifest.get("kind") == "Secret":
        return ""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, default=str).encode()).hexdigest()[:10]


def redact_secret(secret: Object) -> Object:
    """Return a Secret with marks in place of its data, and without annotations: they may have a copy of it."""
    own = secret["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
    marks, is_of_user = dict[str, str](), "-user-" in own["name"]
    for name, value in secret_data(secret).items():
        text = value.decode(errors="replace")
        form = (KEPT | KEPT_OF_USER if is_of_user else KEPT).get(name)
        marks[name] = text if form is not None and form.fullmatch(text) else mark(value)
        if is_of_user and name in PASSWORDS:  # decisions compare its mark with those of what members accept
            marks[name] = conceal_password(text)
    metadata = {name: own[name] for name in kept if name in own}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "marks": marks}


def _secret_values(worlds: Iterable[World]) -> SecretValues:
    """Return the values that no text of a record may have."""
    return SecretValues.of(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": private}
        for world in worlds
        for secret in world.all("Secret")
        if (private := {name: value for name, value in (secret.get("data") or {}).items() if not is_public_entry(name)})
    )


def is_public_entry(entry: str) -> bool:
    """Tell whether everybody may know what an entry of an app's Secret says, by its name."""
    return entry in (*PUBLIC, *PUBLIC_OF_USERS) or entry.endswith(".crt")


def _worlds(observation: Any) -> list[World]:
    """Return the worlds of an observation and of those that lie in it."""
    found: dict[int, World] = {}

    def look(value: Any) -> None:
        if isinstance(value, World):
            found[id(value)] = value
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                look(getattr(value, field.name))
        elif isinstance(value, (list, tuple)):
            for item in value:
                look(item)

    look(observation)
    return list(found.values())


class _RecordWriter:
    def __init__(self, hidden: SecretValues) -> None:
        self._hidden = hidden
        self._shared: dict[int, int] = {}
        self._written: list[Any] = []

    def write_all(self, observation: Any) -> dict[str, Any]:
        written = self.write(observation)
        return {"shared": self._written, "observation": written}

    def write(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return {_ENUM: _class_name(type(value)), "value": self.write(value.value)}
        if isinstance(value, str):
            return self._hidden.redact(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, SHARED):
            return {_SAME: self._share(value)}
        return self._write_structure(value)

    def _write_structure(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return {_TIME: value.isoformat()}
        if isinstance(value, list):
            return [self.write(item) for item in value]
        if isinstance(value, tuple):
            return {_TUPLE: [self.write(item) for item in value]}
        if isinstance(value, (set, frozenset)):
            return {_SET: sorted((self.write(item) for item in value), key=repr)}
        if isinstance(value, Mapping):
            return self._write_mapping(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {_CLASS: _class_name(type(value)), **self._write_fields(value)}
        return {_OMITTED: _class_name(type(value))}

    def _write_mapping(self, value: Mapping[Any, Any]) -> Any:
        if all(isinstance(name, str) and not name.startswith("$") for name in value):
            return {name: self.write(item) for name, item in value.items()}
        return {_MAP: [[self.write(name), self.write(item)] for name, item in value.items()]}

    def _write_fields(self, value: Any) -> dict[str, Any]:
        return {field.name: self.write(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}

    def _share(self, value: World | App) -> int:
        if id(value) not in self._shared:
            written = self._write_world(value) if isinstance(value, World) else self._write_app(value)
            self._shared[id(value)] = len(self._written)
            self._written.append(written)
        return self._shared[id(value)]

    def _write_app(self, app: App) -> Any:
        more = {
            name: value for name, value in app.__dict__.items() if name.startswith("_") and name not in ("_source",)
        }
        manifest = {
            "apiVersion": f"{type(app).api_group}/{VERSION}",
            "kind": type(app).kind(),
            "metadata": {"name": app.name, "namespace": app.namespace},
            "spec": app.spec(),
        }
        return {_APP: _class_name(type(app)), "manifest": self.write(manifest), "more": self.write(more)}

    def _write_world(self, world: World) -> Any:
        objects = [
            redact_secret(found) if kind == "Secret" else found
            for kind, by_name in world.objects.items()
            for name, found in by_name.items()
            if not (kind == "ConfigMap" and name.endswith(f"-{PURPOSE}") and "binaryData" in found)
        ]
        written = self._write_fields(dataclasses.replace(world, objects={}))
        return {_CLASS: _class_name(World), **written, "objects": [self.write(found) for found in objects]}


def _class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


# Reading


def read_record(text: bytes) -> Object:
    """Return a record from the content of a file, compressed or not; raise RecordError for what is none, or is another
    release's.
    """
    if text.startswith(_COMPRESSED):
        text = _decompress(text)
    if len(text) > MOST_TEXT:
        raise RecordError(f"it has more than {MOST_TEXT >> 20} MiB, which no record has")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError("it is no JSON", hint="`fleet explain APP --record FILE` writes a record") from error
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise RecordError("it is no record of decisions", hint="`fleet explain APP --record FILE` writes one")
    if record.get("format") != FORMAT:
        raise RecordError(
            f"it has format {str(record.get('format'))[:40]}, and this release reads {FORMAT}",
            hint=f"use the release that wrote it: {str(record.get('release'))[:40]}",
        )
    _check_parts(record)
    return record


def _decompress(data: bytes) -> bytes:
    """Return what was compressed, and one byte more than is read of what is too large: it may be very much."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, MOST_TEXT + 1)
    except zlib.error as error:
        raise RecordError("it is compressed, and cannot be read") from error


def _check_parts(record: Object) -> None:
    engine, app, decisions = record.get("engine"), record.get("app"), record.get("decisions")
    if not isinstance(engine, dict) or not isinstance(app, dict) or not isinstance(decisions, list):
        raise RecordError("it lacks its engine, its app or its decisions")
    for part, wanted in ((engine, ("kind", "group")), (app, ("namespace", "name"))):
        if not all(isinstance(part.get(name), str) for name in wanted):
            raise RecordError(f"it does not say its {' and '.join(wanted)}")
    for decision in decisions:
        if not isinstance(decision, dict) or not all(
            isinstance(decision.get(name), str) for name in ("state", "reason", "message")
        ):
            raise RecordError("one of its decisions is none")


def list_classes(*packages: str) -> dict[str, type]:
    """Return the classes of plain data that have been loaded from these packages, by the name that records give them.

    Nothing is imported here.
    """
    found: dict[str, type] = {}
    for module_name, module in list(sys.modules.items()):
        if not any(module_name == package or module_name.startswith(f"{package}.") for package in packages):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module_name and _is_data(value):
                found[_class_name(value)] = value
    return found


def _is_data(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or issubclass(cls, (Enum, App))


def read_observation(data: Any, classes: Mapping[str, type]) -> Any:
    """Return an observation from a record. Raise RecordError for a class that is not among `classes`, for a field that
    a class does not have, and for what could not be written.
    """
    if not isinstance(data, dict) or not isinstance(data.get("shared"), list):
        raise RecordError("the record has no observation with this decision")
    reader = _RecordReader(classes)
    try:
        for shared in data["shared"]:
            reader.shared.append(reader.read(shared))
        return reader.read(data.get("observation"))
    except RecordError:
        raise
    except RecursionError as error:
        raise RecordError("its values lie in each other too deep") from error
    except FleetError as error:
        raise RecordError(f"a value in it is refused: {error.message}") from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise RecordError(f"a value in it is not as this release has it: {error}"[:400]) from error


class _RecordReader:
    def __init__(self, classes: Mapping[str, type]) -> None:
        self._classes = classes
        self.shared: list[Any] = []

    def read(self, value: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise RecordError("its values lie in each other too deep")
        if isinstance(value, list):
            return [self.read(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next((name for name in value if name.startswith("$")), "")
        return self._read_tagged(tag, value, depth) if tag else self._read_map(value, depth)

    def _read_map(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        return {name: self.read(item, depth + 1) for name, item in value.items()}

    def _read_tagged(self, tag: str, value: Mapping[str, Any], depth: int) -> Any:
        content = value[tag]
        match tag:
            case "$tuple":
                return tuple(self.read(content, depth))
            case "$set":
                return frozenset(self.read(content, depth))
            case "$map":
                return {self.read(name, depth + 1): self.read(item, depth + 1) for name, item in content}
            case "$time":
                return datetime.datetime.fromisoformat(content)
            case "$enum":
                return self._class(content, Enum)(self.read(value["value"], depth + 1))
            case "$same":
                return self.shared[content]
            case "$app":
                return self._read_app(value, depth)
            case "$class":
                return self._read_class(value, depth)
            case "$omitted":
                raise RecordError(f"a value of {str(content)[:100]} could not be recorded, and decisions may need it")
        raise RecordError(f"it has {tag[:40]}, which this release does not know")

    def _class(self, name: Any, base: type = object) -> Any:
        cls = self._classes.get(name) if isinstance(name, str) else None
        if cls is None or not issubclass(cls, base):
            raise RecordError(f"it has {str(name)[:100]}, which is no data of this app type in this release")
        return cls

    def _read_class(self, value: Mapping[str, Any], depth: int) -> Any:
        cls: Any = self._class(value[_CLASS])
        if issubclass(cls, (Enum, App)):
            raise RecordError(f"{value[_CLASS]} is not read as fields")
        fields = self._read_map({name: item for name, item in value.items() if name != _CLASS}, depth)
        known = {field.name for field in dataclasses.fields(cls) if field.init}
        if further := sorted(fields.keys() - known):
            raise RecordError(f"{cls.__name__} has no field {further[0][:60]!r} in this release")
        if cls is World:
            world = World.of([_restore_object(found) for found in fields.pop("objects")], None, fields["now"])
            return dataclasses.replace(world, **fields)
        return cls(**fields)

    def _read_app(self, value: Mapping[str, Any], depth: int) -> App:
        app: App = self._class(value[_APP], App).from_manifest(self.read(value["manifest"], depth + 1))
        more = self.read(value["more"], depth + 1)
        app.__dict__.update({name: item for name, item in more.items() if name in ("_roll", names.LAYOUT)})
        return app


def _restore_object(found: Object) -> Object:
    """Return an object as decisions find it; a Secret has other keys and certificates than the one that was recorded,
    and marks for all else.
    """
    if found["kind"] != "Secret":
        return found
    data = {name: b64encode(_made_up(name, str(text)).encode()).decode() for name, text in found["marks"].items()}
    return {**{name: value for name, value in found.items() if name != "marks"}, "data": data}


def _made_up(entry: str, text: str) -> str:
    if not text:
        return ""
    key, certificate = _made_up_pair()
    return key if entry.endswith(".key") else certificate if entry.endswith(".crt") else text


@cache
def _made_up_pair() -> tuple[str, str]:
    authority = Authority.new("fleet/replay")
    return authority.key_pem.decode(), authority.pem.decode()
