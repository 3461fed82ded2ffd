"""What is done with the objects of a bucket: written in parts, read in pieces, listed, deleted."""

from __future__ import annotations

import http.client
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import NoReturn
from xml.sax.saxutils import escape

from fleet.errors import FleetError, ResourceError
from fleet.s3.address import BucketAddress
from fleet.s3.transport import (
    LARGEST_DOCUMENT,
    TRIES,
    S3Answer,
    Transport,
    elements_of,
    text_of,
)

log = logging.getLogger(__name__)
MIB = 1 << 20
SMALLEST_PART = 8 * MIB  # stores ask for 5 MiB at least
MOST_PARTS = 9_000  # stores take 10,000; all but the last have one size, since some stores want that
_ALONGSIDE = 2  # parts under way at once: one is hashed while the other is sent
_LARGE_PART = 32 * MIB  # larger ones go one at a time, for the memory
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class ListedObject:
    name: str
    size: int
    time: datetime


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A multipart upload that was begun, and neither completed nor aborted."""

    name: str
    id: str
    begun: datetime


def part_size(size: int) -> int:
    """Return how large the parts of an object are: as small as the number of parts allows."""
    return max(SMALLEST_PART, -(-size // MOST_PARTS // MIB) * MIB)


@dataclass(frozen=True, slots=True)
class BucketClient:
    """A bucket, as one key may use it."""

    address: BucketAddress
    transport: Transport

    def now(self) -> datetime:
        return self.transport.now()

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write a small object."""
        answer = self.transport.send("PUT", self.address.url(name), content)
        if not answer.good:
            self.transport.fail(answer, f"{name} cannot be written")

    def get(self, name: str, most: int = LARGEST_DOCUMENT) -> bytes | None:
        """Return a small object, at most its first bytes; None if there is none."""
        if most > LARGEST_DOCUMENT:
            raise ValueError("what is large is read in pieces")
        content = bytearray()
        try:
            for piece in self.read(name):
                content += piece
                if len(content) >= most:
                    break
        except MissingObjectError:
            return None
        return bytes(content[:most])

    def read(self, name: str) -> Iterator[bytes]:
        """Yield an object in pieces. A connection that breaks is taken up where it broke, as long as the object is
        still the same one. MissingObjectError if there is none, ResourceError if it cannot be read to its end."""
        position, tag, barren = 0, "", 0
        while True:
            headers = {"Range": f"bytes={position}-", "If-Match": tag} if position else {}
            try:
                with self.transport.exchange("GET", self.address.url(name), headers=headers) as (answer, response):
                    if response is None:
                        self._refuse_reading(answer, name)
                    if position and answer.status != 206:
                        raise ResourceError(f"{self.address}: {name} cannot be read on from byte {position}")
                    tag = tag or answer.headers.get("etag", "")
                    while piece := response.read(_PIECE):
                        position += len(piece)
                        barren = 0
                        yield piece
                    if response.length:  # bytes that were promised
                        raise http.client.IncompleteRead(b"", response.length)
            except (OSError, http.client.HTTPException) as error:
                barren += 1
                if barren >= TRIES or not tag:
                    raise ResourceError(f"{self.address}: {name} broke off at byte {position}: {error}") from error
                log.warning("%s: %s broke off at byte %d: %s", self.address, name, position, error)
                self.transport.pause(min(barren, 5))
            else:
                return

    def _refuse_reading(self, answer: S3Answer, name: str) -> NoReturn:
        if answer.status == 404 and answer.code != "NoSuchBucket":
            raise MissingObjectError(f"{self.address}: there is no {name}")
        self.transport.fail(answer, f"{name} cannot be read")

    def upload(self, name: str, pieces: Iterable[bytes], part: int) -> None:
        """Write an object of any size, in parts of `part` bytes. Nothing is left of one that fails, unless the store
        cannot be reached any more; `unfinished` has it then."""
        parts = _regroup(pieces, part)
        beginning = deque(islice(parts, 2))
        if len(beginning) < 2:
            self.put(name, beginning.pop() if beginning else b"")
            return
        answer = self.transport.send("POST", self.address.url(name, {"uploads": ""}))
        upload = text_of(answer.body, "UploadId") if answer.good else ""
        if not upload:
            self.transport.fail(answer, f"{name} cannot be written")
        try:
            tags = self._send_parts(name, upload, _taken(beginning, parts), part)
            self._complete(name, upload, tags)
        except BaseException:
            with suppress(FleetError):
                self.abort(UnfinishedUpload(name, upload, datetime.now(UTC)))
            raise

    def _send_parts(self, name: str, upload: str, parts: Iterable[memoryview], size: int) -> list[str]:
        alongside = 1 if size > _LARGE_PART else _ALONGSIDE
        tags: list[str] = []
        running: deque[Future[str]] = deque()
        with ThreadPoolExecutor(alongside) as pool:
            try:
                for number, part in enumerate(parts, 1):
                    if len(running) == alongside:
                        tags.append(running.popleft().result())
                    running.append(pool.submit(self._send_part, name, upload, number, part))
                    del part
                tags += [sending.result() for sending in running]
            except BaseException:
                for sending in running:
                    sending.cancel()
                raise
        return tags

    def _send_part(self, name: str, upload: str, number: int, part: memoryview) -> str:
        url = self.address.url(name, {"partNumber": str(number), "uploadId": upload})
        answer = self.transport.send("PUT", url, part)
        tag = answer.headers.get("etag", "")
        if not answer.good:
            self.transport.fail(answer, f"part {number} of {name} cannot be written")
        if not tag:
            raise ResourceError(f"{self.address}: the store does not say that it has part {number} of {name}")
        return tag

    def _complete(self, name: str, upload: str, tags: list[str]) -> None:
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        document = f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{listed}'
        body = f"{document}</CompleteMultipartUpload>".encode()
        answer = self.transport.send("POST", self.address.url(name, {"uploadId": upload}), body)
        if answer.code == "NoSuchUpload" and answer.tries > 1:
            return  # an answer to an earlier try was lost; whoever reads the object back knows whether it is there
        if not answer.good:
            self.transport.fail(answer, f"{name} cannot be completed")

    def objects(self, prefix: str = "") -> Iterator[ListedObject]:
        """Yield the objects whose names begin with a prefix, in the order of their names."""
        query = {"list-type": "2", "prefix": prefix}
        while True:
            answer = self.transport.send("GET", self.address.url(query=query))
            if not answer.good:
                self.transport.fail(answer, "the bucket cannot be listed")
            for element in elements_of(answer.body, "Contents"):
                fields = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
                yield ListedObject(fields["Key"], int(fields["Size"]), _time(fields.get("LastModified", "")))
            following = text_of(answer.body, "NextContinuationToken")
            if not following or text_of(answer.body, "IsTruncated") != "true":
                return
            query["continuation-token"] = following

    def delete(self, name: str) -> None:
        """Delete an object; it need not be there."""
        answer = self.transport.send("DELETE", self.address.url(name))
        if not answer.good and answer.status != 404:
            self.transport.fail(answer, f"{name} cannot be deleted")

    def unfinished(self, prefix: str = "") -> list[UnfinishedUpload]:
        """Return the multipart uploads whose names begin with a prefix."""
        found: list[UnfinishedUpload] = []
        query = {"uploads": "", "prefix": prefix}
        while True:
            answer = self.transport.send("GET", self.address.url(query=query))
            if not answer.good:
                self.transport.fail(answer, "uploads that were not finished cannot be listed")
            for element in elements_of(answer.body, "Upload"):
                fields = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
                found.append(UnfinishedUpload(fields["Key"], fields["UploadId"], _time(fields.get("Initiated", ""))))
            if text_of(answer.body, "IsTruncated") != "true":
                return found
            query["key-marker"] = text_of(answer.body, "NextKeyMarker")
            query["upload-id-marker"] = text_of(answer.body, "NextUploadIdMarker")

    def abort(self, upload: UnfinishedUpload) -> None:
        """Give up a multipart upload, with all parts that were sent; it need not be there."""
        answer = self.transport.send("DELETE", self.address.url(upload.name, {"uploadId": upload.id}))
        if not answer.good and answer.status != 404:
            self.transport.fail(answer, f"an upload of {upload.name} cannot be aborted")


class MissingObjectError(ResourceError):
    """There is no object of that name."""


def _taken(beginning: deque[memoryview], rest: Iterator[memoryview]) -> Iterator[memoryview]:
    """Yield parts that were looked at already, and the others; none is kept once it was taken."""
    while beginning:
        yield beginning.popleft()
    yield from rest


def _regroup(pieces: Iterable[bytes], size: int) -> Iterator[memoryview]:
    """Yield the same bytes in parts of one size; the last one may be smaller. Each is copied once."""
    part, filled = memoryview(bytearray(size)), 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            taken = min(len(rest), size - filled)
            part[filled : filled + taken] = rest[:taken]
            filled, rest = filled + taken, rest[taken:]
            if filled == size:
                yield part
                part, filled = memoryview(bytearray(size)), 0
    if filled:
        yield part[:filled]


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)  # so that what has no time is never taken for old
