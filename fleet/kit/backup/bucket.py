"""Backups in an S3 bucket, or one of a store that speaks S3.

A backup is one object: a file as it is, a tree as a tar, either encrypted if there is a key. It is read back and its
checksum compared before it gets a record, which comes last: an object without one is no backup. Engines' tools write to
and read from a scratch directory of the pod; what is sent and read passes through memory in pieces.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from io import RawIOBase
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, Any, cast

from fleet.errors import ConfigurationError, FleetError, ResourceError
from fleet.kit.backup import content
from fleet.kit.backup.directory import ABANDONED_SECONDS
from fleet.kit.backup.encryption import MAGIC, BackupKey, decrypt, encrypt, encrypted_size, is_encrypted
from fleet.kit.backup.plan import BackupPlan
from fleet.kit.backup.records import LARGEST, Record, backup_name, read, record_of
from fleet.kit.backup.shelf import Describe, age, same_app
from fleet.kit.backup.stores import ACCESS_KEY, AUTHORITY, ENCRYPTION_KEY, PREVIOUS_KEY, SECRET_KEY, SESSION
from fleet.s3.address import REGION, BucketAddress, Style
from fleet.s3.bucket import BucketClient, ListedObject, MissingObjectError, part_size
from fleet.s3.signature import Key
from fleet.s3.transport import Transport

log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_STEM = r"-\d{8}T\d{6}Z-[^/]*"  # after an app's name: the time and what follows


@dataclass(frozen=True, slots=True)
class BucketShelf:
    """A shelf that is a folder of a bucket."""

    plan: BackupPlan[Any]
    client: BucketClient
    folder: str  # "" for all of the bucket, else with a slash at its end
    scratch: Path  # what is fetched is put there
    keys: Sequence[BackupKey] = ()  # the first one encrypts; any of them opens

    def prepare(self, app: str, job: str) -> None:
        """Write a small object, read it and delete it; give up what earlier tries began to send."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        probe, text = f"{self.folder}.{app}.{job}.probe", self.client.now().isoformat().encode()
        self.client.put(probe, text)
        if self.client.get(probe) != text:
            raise ResourceError(f"{self.client.address}: what is written there is not what is read afterwards")
        self.client.delete(probe)
        try:
            self._give_up(app, job)
        except FleetError as error:  # not every key may, nor every store can; no backup fails for it
            log.warning("%s", error)

    def _give_up(self, app: str, job: str) -> None:
        """Abort uploads of this very Job, and of the app those that no Job can be at any more."""
        own = re.compile(re.escape(f"{self.folder}{app}") + _STEM)
        for upload in self.client.unfinished(f"{self.folder}{app}-"):
            if not own.fullmatch(upload.name):
                continue
            abandoned = self.client.now() - upload.begun > timedelta(seconds=ABANDONED_SECONDS)
            if abandoned or upload.name.endswith(f"-{_mark(job)}.{self.plan.suffix}"):
                self.client.abort(upload)
                log.info("aborted an upload of %s that was begun at %s", upload.name, upload.begun)

    def put(self, part: Path, version: str, describe: Describe, *, app: str, job: str, now: datetime | None) -> Record:
        """Send it, read it back, and then say so in a record, which is read back, too."""
        time = (now or self.client.now()).replace(microsecond=0)
        while self.has(name := backup_name(app, time, f"{version}-{_mark(job)}", self.plan.suffix)):
            time += timedelta(seconds=1)
        key = self.keys[0] if self.keys else None
        sent = _Sums()
        pieces, size = _packed(part)
        if key:
            pieces, size = encrypt(pieces, key), encrypted_size(size)
        self.client.upload(self.folder + name, sent.over(pieces), part_size(size))
        record = replace(
            describe(name, time),
            stored_size=sent.size,
            stored_checksum=sent.checksum,
            encryption_key=key.id if key else "",
        )
        try:
            self._compare(record)
            text = record.write().encode()
            self.client.put(self._record_name(name), text)
            if self.client.get(self._record_name(name)) != text:
                raise ResourceError(f"{self.client.address}: the record of {name} is not what was written")
        except BaseException:
            for left in (self._record_name(name), self.folder + name):
                with suppress(FleetError):
                    self.client.delete(left)
            raise
        return record

    def _compare(self, record: Record) -> None:
        """Read all of an object back; raise ResourceError if it is not what was sent."""
        there = _Sums()
        try:
            for _ in there.over(self.client.read(self.folder + record.name)):
                pass
        except MissingObjectError as error:
            raise ResourceError(
                f"{self.client.address}: the store took {record.name}, and does not have it", hint="it is no backup"
            ) from error
        if (there.size, there.checksum) != (record.stored_size, record.stored_checksum):
            raise ResourceError(
                f"{self.client.address}: {record.name} is not what was sent: {there.size} bytes with {there.checksum}"
            )

    def complete(self) -> list[Record]:
        there = self._list()
        records = [
            record
            for name in there
            if name.endswith(".json")
            and (record := self._read_record(name)) is not None
            and record.kind == self.plan.kind
            and record.name == f"{name.removesuffix('.json')}.{self.plan.suffix}"
            and record.name in there
            and record.stored_size == there[record.name].size
        ]
        return sorted(records, key=age)

    def _list(self, prefix: str = "") -> dict[str, ListedObject]:
        """Return what is in the folder and not in one of its own, by name."""
        listed = self.client.objects(self.folder + prefix)
        found = {one.name.removeprefix(self.folder): one for one in listed}
        return {name: one for name, one in found.items() if "/" not in name}

    def has(self, name: str) -> bool:
        return name in self._list(name)

    def recorded(self, name: str) -> Record | None:
        return self._read_record(record_of(Path(name)).name)

    def fetch(self, name: str, record: Record | None) -> Path:
        """Read an object into the scratch directory, and return what is there then: a file, or a tree."""
        target = self.scratch / name
        content.delete(target)
        there = _Sums()
        pieces = there.over(self.client.read(self.folder + name))
        first = b""
        while len(first) < len(MAGIC) and (piece := next(pieces, b"")):
            first += piece
        if is_encrypted(first):
            clear = decrypt(_chain(first, pieces), self.keys, name)
        elif record and record.encryption_key:
            raise ResourceError(f"{name} is not encrypted, although its record says so")
        else:
            clear = _chain(first, pieces)
        if self.plan.how == "tree":
            _unpack(clear, target)
        else:
            with target.open("xb") as file:
                for piece in clear:
                    file.write(piece)
        for _ in pieces:  # what a reader left, so that all of it is compared
            pass
        if record and (there.size, there.checksum) != (record.stored_size, record.stored_checksum):
            content.delete(target)
            raise ResourceError(f"{name} is not what was written: its checksum is {there.checksum}")
        return target

    def remove(self, record: Record) -> None:
        """Delete a backup, and then its record: what is left if that is all that happens is a record of nothing."""
        self.client.delete(self.folder + record.name)
        self.client.delete(self._record_name(record.name))

    def tidy(self, newest: Record) -> None:
        """Delete records of the app without a backup, and uploads that nobody finishes."""
        there = self._list(f"{newest.app}-")
        for name, listed in there.items():
            if not name.endswith(".json") or f"{name.removesuffix('.json')}.{self.plan.suffix}" in there:
                continue
            record = self._read_record(name)
            if record and same_app([record], newest) and self._is_old(listed.time):
                self.client.delete(self.folder + name)
        self._give_up(newest.app, "")

    def _is_old(self, time: datetime) -> bool:
        return self.client.now() - time > timedelta(seconds=ABANDONED_SECONDS)

    def _read_record(self, name: str) -> Record | None:
        text = self.client.get(self.folder + name, LARGEST)
        try:
            return read(text.decode()) if text is not None else None
        except UnicodeDecodeError:
            return None

    def _record_name(self, name: str) -> str:
        return self.folder + record_of(Path(name)).name


def open_shelf(
    plan: BackupPlan[Any],
    scratch: Path,
    environment: Mapping[str, str],
    *,
    bucket: str,
    endpoint: str = "",
    region: str = "",
    style: Style | None = None,
    secret: str = "",
    encryption: str = "",
) -> BucketShelf:
    """Return the shelf that arguments and variables of a pod say; raise ConfigurationError for keys that are none."""
    name, _, folder = bucket.partition("/")
    address = BucketAddress(name, endpoint.rstrip("/"), region or REGION, style)
    values = {variable: environment.get(variable, "").strip() for variable in (ACCESS_KEY, SECRET_KEY, SESSION)}
    for variable in (ACCESS_KEY, SECRET_KEY):
        if not values[variable]:
            raise ConfigurationError(f"the Secret {secret} has no {variable}", hint="it is needed to sign requests")
    transport = Transport(str(address), Key(*values.values()), address.region, environment.get(AUTHORITY, ""))
    keys = [
        BackupKey.read(text, f"the Secret {encryption}")
        for variable in (ENCRYPTION_KEY, PREVIOUS_KEY)
        if encryption and ((text := environment.get(variable, "")) or variable == ENCRYPTION_KEY)
    ]
    return BucketShelf(plan, BucketClient(address, transport), f"{folder}/" if folder else "", scratch, keys)


def _mark(job: str) -> str:
    """Return what tells backups of one second from each other: a Job has a name of its own, of whichever cluster."""
    return hashlib.sha256(job.encode()).hexdigest()[:8]


class _Sums:
    """Size and checksum of what passes."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()

    def over(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.size += len(piece)
            self._digest.update(piece)
            yield piece

    @property
    def checksum(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _packed(part: Path) -> tuple[Iterator[bytes], int]:
    """Return what is sent, in pieces, and about how large that is."""
    if not part.is_dir():
        return pieces_of(part), part.stat().st_size
    files = [path for path in part.rglob("*") if path.is_file()]
    return _pack(part), sum(file.stat().st_size + 2048 for file in files) + 64 * _CHUNK


def pieces_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while piece := source.read(_CHUNK):
            yield piece


def _pack(tree: Path) -> Iterator[bytes]:
    """Yield a tree as a tar. tarfile writes to a file, so it does that in a thread of its own."""
    queue: Queue[bytes | BaseException | None] = Queue(4)

    def work() -> None:
        try:
            with tarfile.open(fileobj=cast(IO[bytes], _Sink(queue)), mode="w|", bufsize=_CHUNK) as archive:
                archive.add(tree, ".", filter=_plain)
        except BaseException as error:  # raised where it is read
            queue.put(error)
        else:
            queue.put(None)

    Thread(target=work, daemon=True).start()
    while (piece := queue.get()) is not None:
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    if not (entry.isdir() or entry.isfile()):
        raise ResourceError(f"{entry.name} is neither a file nor a directory")
    return entry


def _unpack(pieces: Iterator[bytes], target: Path) -> None:
    """Write a tar as a tree; ResourceError if it is none, or leads out of the tree."""
    target.mkdir(mode=0o700)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], _Source(pieces)), mode="r|", bufsize=_CHUNK) as archive:
            for entry in archive:
                archive.extract(_plain(entry), target, filter="data")
    except tarfile.TarError as error:
        raise ResourceError(f"{target.name} is not the tree that was written: {error}") from error


class _Sink(RawIOBase):
    def __init__(self, queue: Queue[bytes | BaseException | None]) -> None:
        self._queue = queue

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._queue.put(bytes(piece))
        return len(piece)


class _Source(RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        given, self._rest = self._rest[: size if size >= 0 else None], self._rest[size:] if size >= 0 else b""
        return given
