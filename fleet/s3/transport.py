"""One request to a store, signed and sent until there is an answer.

What is tried again: a store that is not reached, that does not answer in time, breaks off, is overloaded, or failed by
its own fault. What is not: a refusal. A clock that is wrong is neither: a store that says so also says what time it
has, and requests are signed with that from then on.
"""

from __future__ import annotations

import http.client
import logging
import random
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from queue import Empty, LifoQueue
from typing import NoReturn
from urllib.parse import urlsplit
from xml.etree import ElementTree

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.s3.signature import Key, sign_request
from fleet.text import printable

log = logging.getLogger(__name__)
TRIES = 7
LONGEST_PAUSE = 20.0  # seconds
LARGEST_DOCUMENT = 8 << 20  # a page of a list has a thousand names of at most 1 KiB
_OVERLOADED = frozenset({"SlowDown", "RequestTimeout", "ServiceUnavailable", "Busy", "TooManyRequests"})
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
_FULL = frozenset(
    {"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "StorageFull", "QuotaExceededException"}
)
_KEYS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidSecurity"})


@dataclass(frozen=True, slots=True)
class S3Answer:
    """What a store answered; `body` is its document, empty where a caller reads the content itself."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes = b""
    tries: int = 1

    @property
    def good(self) -> bool:
        # A long request is answered with 200 before its end, and then with an error in the document.
        return 200 <= self.status < 300 and b"<Error>" not in self.body[:1024]

    @property
    def code(self) -> str:
        """The store's word for a refusal, such as NoSuchBucket; "" if it has none."""
        return text_of(self.body, "Code")


@dataclass
class Transport:
    """Connections to one store, and its time. Several threads may use one."""

    place: str  # for people
    key: Key
    region: str
    authority: str = ""  # certificates in PEM that are trusted; those of the system unless given
    timeout: float = 60.0  # of each read and write
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    _offset: timedelta = timedelta()
    _idle: LifoQueue[http.client.HTTPConnection] = field(default_factory=LifoQueue)

    def now(self) -> datetime:
        """Return the time: the store's, once it has said that this machine's is wrong."""
        return self.clock() + self._offset

    def send(
        self, method: str, url: str, body: bytes | memoryview = b"", headers: dict[str, str] | None = None
    ) -> S3Answer:
        """Send a request until it is answered; refusals are answers. Raise ResourceError if there is none."""
        with self.exchange(method, url, body, headers) as (answer, response):
            return self._read(answer, response)

    @contextmanager
    def exchange(
        self, method: str, url: str, body: bytes | memoryview = b"", headers: dict[str, str] | None = None
    ) -> Iterator[tuple[S3Answer, http.client.HTTPResponse | None]]:
        """Send a request until it is answered; a good answer's content is read by the caller."""
        trouble = "it does not answer"
        corrected = False
        for number in range(1, TRIES + 1):
            connection = self._connection(url)
            was_idle = connection.sock is not None
            try:
                response = self._try(connection, method, url, body, headers or {})
                answer = S3Answer(
                    response.status, {name.lower(): text for name, text in response.getheaders()}, tries=number
                )
                if not answer.good:
                    answer = self._read(answer, response)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise AccessError(
                        f"{self.place}: its certificate is not trusted: {error.verify_message}",
                        hint="put the CA's certificate into the Secret of the store as ca.crt",
                    ) from error
                trouble = f"{error or type(error).__name__}"
                if not (was_idle and number == 1):  # a store may close what has been idle, at any time
                    self._wait(number, trouble)
                continue
            if answer.code in _SKEWED and not corrected and self._learn_time(answer):
                corrected = True
                self._idle.put(connection)
                continue
            if is_transient(answer):
                trouble = describe(answer)
                self._idle.put(connection)
                self._wait(number, trouble)
                continue
            try:
                yield answer, (response if answer.good else None)
            finally:
                if response.isclosed():
                    self._idle.put(connection)
                else:  # not read to its end
                    connection.close()
            return
        raise ResourceError(f"{self.place}: {method} failed {TRIES} times: {trouble}")

    def fail(self, answer: S3Answer, doing: str) -> NoReturn:
        """Raise what a refusal means."""
        told = f"{self.place}: {doing}: {describe(answer)}"
        region = answer.headers.get("x-amz-bucket-region") or text_of(answer.body, "Region")
        if region and region != self.region:
            raise AccessError(f"{told}: the bucket is in another region", hint=f"region={printable(region)[:64]!r}")
        if answer.code in _SKEWED:
            raise AccessError(f"{told}: the clocks of this node and of the store differ by more than it accepts")
        if answer.code == "NoSuchBucket":
            raise NotFoundError(f"{told}: there is no such bucket", hint="make the bucket, or correct its name")
        if answer.status == 404:
            raise NotFoundError(told)
        if answer.status in (401, 403):
            why = "the store does not accept the key" if answer.code in _KEYS else "the key may not do this"
            raise AccessError(f"{told}: {why}", hint="AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY in the store's Secret")
        if answer.status == 507 or answer.code in _FULL:
            raise ResourceError(f"{told}: the store is full")
        raise ResourceError(told)

    def _try(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        url: str,
        body: bytes | memoryview,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        signed = sign_request(method, url, self.key, region=self.region, moment=self.now(), body=body)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        every = {**headers, **signed, "Content-Length": str(len(body)), "Accept-Encoding": "identity"}
        try:
            connection.request(method, target, body=body or None, headers=every)
        except (BrokenPipeError, ConnectionResetError):
            # A store that refuses a long body may have said why before it closed the connection.
            with suppress(OSError, http.client.HTTPException):
                return connection.getresponse()
            raise
        return connection.getresponse()

    def _read(self, answer: S3Answer, response: http.client.HTTPResponse | None) -> S3Answer:
        if response is None or response.isclosed():
            return answer
        body = response.read(LARGEST_DOCUMENT + 1)
        if len(body) > LARGEST_DOCUMENT:
            raise ResourceError(f"{self.place}: its answer is larger than {LARGEST_DOCUMENT >> 20} MiB")
        response.read()  # an empty rest, after which the connection can be used again
        return S3Answer(answer.status, answer.headers, body, answer.tries)

    def _connection(self, url: str) -> http.client.HTTPConnection:
        with suppress(Empty):
            return self._idle.get_nowait()
        parts = urlsplit(url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.netloc, timeout=self.timeout, blocksize=1 << 18)
        trust = ssl.create_default_context(cadata=self.authority or None)
        return http.client.HTTPSConnection(parts.netloc, timeout=self.timeout, context=trust, blocksize=1 << 18)

    def _wait(self, tries: int, trouble: str) -> None:
        if tries < TRIES:
            seconds = pause_after(tries)
            log.warning("%s: %s; tried again in %.1f s", self.place, trouble, seconds)
            self.pause(seconds)

    def _learn_time(self, answer: S3Answer) -> bool:
        """Take the store's time from a refusal that is about time; return whether it differs from what was sent."""
        try:
            told = parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return False
        differs = told - self.now()
        if abs(differs) < timedelta(minutes=1):
            return False
        self._offset += differs
        log.warning("%s: this node's clock differs by %.0f s from the store's", self.place, differs.total_seconds())
        return True


def is_transient(answer: S3Answer) -> bool:
    """Whether the same request may be answered otherwise a moment later."""
    if answer.good or answer.status in (501, 505, 507) or answer.code in _FULL:
        return False
    return answer.status >= 500 or answer.status in (408, 425, 429) or answer.code in _OVERLOADED


def pause_after(tries: int) -> float:
    """Return the seconds before the next try: twice as long each time, of which a part is chance."""
    most: float = min(LONGEST_PAUSE, 0.25 * 2**tries)
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret


def describe(answer: S3Answer) -> str:
    """Return a refusal in the store's words, of which nobody knows how long they are."""
    words = " ".join(filter(None, (answer.code, text_of(answer.body, "Message"))))
    return printable(" ".join(f"{answer.status} {words}".split()))[:300]


def texts_of(document: bytes, path: str) -> list[str]:
    """Return the texts at a path anywhere in a document, whatever its name space; none if it is no document."""
    return [element.text or "" for element in elements_of(document, path)]


def text_of(document: bytes, path: str) -> str:
    return next(iter(texts_of(document, path)), "")


def elements_of(document: bytes, path: str) -> list[ElementTree.Element]:
    """Return the elements at a path anywhere in a document, whatever its name space."""
    try:
        # Entities do not grow without end: expat limits that, and documents are small.
        root = ElementTree.fromstring(document)  # noqa: S314
    except ElementTree.ParseError:
        return []
    pattern = "/".join(f"{{*}}{name}" for name in path.split("/"))
    return root.findall(f".//{pattern}")
