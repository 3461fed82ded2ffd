"""HTTP and refusals.

A forge's refusal as an error that says what to do. What the forge says is shown shortened and without the token.

Questions to a forge over HTTP: one connection pool, bounded in time and size, and every refusal explained once.

What may be sent again without harm is, for a while; a request that makes something is only when the forge cannot have
seen it or said itself that it did not take it. The token goes to the forge's own address and is in no message.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson

from fleet import errors
from fleet.errors import AccessError, FleetError, NotFoundError, ResourceError
from fleet.forge.json import Document, UnreadableError, documents, parsed
from fleet.version import __version__

if TYPE_CHECKING:
    import aiohttp

MOST_CHARACTERS = 300


def refusal(what: str, root: str, status: int, content: bytes, secret: str = "") -> FleetError:
    said = told(content, secret)
    ending = f": {said}" if said else ""
    if status == 401:
        return AccessError(
            f"cannot {what}: {root} does not accept the token{ending}",
            hint="it may have expired, or be another forge's; FLEET_FORGE_TOKEN goes before all others",
        )
    if status == 403:
        return AccessError(
            f"cannot {what}: the token may not do that{ending}",
            hint="it must be allowed to write comments and commit statuses; GitHub gives jobs of forks one that only "
            "reads, unless they run on pull_request_target",
        )
    if status in (404, 410):
        return NotFoundError(
            f"cannot {what}: {root} does not have it, or hides it from this token{ending}",
            hint="check the repository and the number; what a token may not read is not found by it",
        )
    if status in (400, 409, 413, 422):
        return ResourceError(f"cannot {what}: {root} refuses it ({status}){ending}")
    return ResourceError(f"cannot {what}: {root} answers with {status}{ending}", hint="is the forge in good health?")


def told(content: bytes, secret: str = "") -> str:
    """What a forge says in an error: `message`, and what GitHub says about single fields."""
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError:
        text = "" if b"<" in content[:200] else content.decode(errors="replace")
    else:
        text = _words(data)
    text = " ".join(text.replace(secret, "…").split() if secret else text.split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _words(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    message = next((data[name] for name in ("message", "error_description", "error") if data.get(name)), "")
    details = data.get("errors")
    found = [message if isinstance(message, str) else _plain(message)]
    for one in details if isinstance(details, list) else ():
        words = one.get("message") or f"{one.get('field')}: {one.get('code')}" if isinstance(one, dict) else one
        if isinstance(words, str) and words not in found:
            found.append(words)
    return "; ".join(word for word in found if word)


def _plain(value: object) -> str:
    """GitLab gives lists of reasons by field."""
    return re.sub(r'[\[\]{}"]', "", orjson.dumps(value).decode())


SECONDS = 30  # for one answer
MOST_BYTES = 32 * 1024 * 1024  # of one answer
MOST_PAGES = 200
MOST_IN_ALL = 64 * 1024 * 1024  # bytes of all pages of a list: comments are anybody's
TRIES = 4
PATIENCE = 90.0  # seconds that a forge may ask us to wait, in all
FIRST_PAUSE = 0.5
REDIRECTS = 3
_MOVED = (301, 302, 307, 308)
_BUSY = (500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    content: bytes

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def document(self) -> Document:
        return Document.of(self.content)


class Connection:
    """To one forge. `root` is where its API begins; `secret` is what no message may show."""

    def __init__(self, root: str, headers: Mapping[str, str], secret: str) -> None:
        self._root = root.rstrip("/")
        self._headers = {"User-Agent": f"fleet/{__version__}", **headers}
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None
        self._patience = PATIENCE

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def ask(self, what: str, method: str, path: str, *, body: object = None, absent: bool = False) -> Answer:
        """One request, in JSON. `what` names it in errors; with `absent`, 404 is an answer and no error."""
        url = path if "://" in path else f"{self._root}{path}"
        content = None if body is None else orjson.dumps(body)
        answer = await self._redirected(what, method, url, content)
        if answer.good or (absent and answer.status == 404):
            return answer
        raise refusal(what, self._root, answer.status, answer.content, self._secret)

    async def document(self, what: str, method: str, path: str, *, body: object = None) -> Document:
        return self.read(what, await self.ask(what, method, path, body=body))

    def read(self, what: str, answer: Answer) -> Document:
        try:
            return answer.document
        except UnreadableError as error:
            raise self.unreadable(what, error) from None

    def unreadable(self, what: str, error: UnreadableError) -> ResourceError:
        return ResourceError(
            f"cannot {what}: the answer of {self._root} cannot be read: {error.message}",
            hint="is [forge] url the address of the forge, and [forge] kind what it is?",
        )

    async def pages(self, what: str, path: str, query: Mapping[str, object]) -> AsyncIterator[Document]:
        """The objects of a list that may come in parts."""
        taken = 0
        for page in range(1, MOST_PAGES + 1):
            answer = await self.ask(what, "GET", f"{path}?{urlencode({**query, 'page': page})}")
            taken += len(answer.content)
            if taken > MOST_IN_ALL:
                raise ResourceError(f"cannot {what}: {self._root} has more than {MOST_IN_ALL} bytes of it")
            try:
                for one in documents(parsed(answer.content)):
                    yield one
            except UnreadableError as error:
                raise self.unreadable(what, error) from None
            if 'rel="next"' not in answer.headers.get("link", ""):
                return
        raise ResourceError(f"cannot {what}: {self._root} has more than {MOST_PAGES} pages of it")

    async def _redirected(self, what: str, method: str, url: str, content: bytes | None) -> Answer:
        """A repository that was renamed is elsewhere on the same forge. Another host would be sent the token."""
        for _ in range(REDIRECTS):
            answer = await self._persistent(what, method, url, content)
            if answer.status not in _MOVED:
                return answer
            try:
                target = urljoin(url, answer.headers.get("location", ""))
                there = _origin(target)
            except ValueError as problem:
                raise ResourceError(f"cannot {what}: {self._root} sends us to what is no address: {problem}") from None
            if there != _origin(url):
                raise ResourceError(
                    f"cannot {what}: {self._root} sends us to {there[0]}://{there[1]}, which is not asked",
                    hint="if the forge has moved, say its new address in [forge] url",
                )
            url = target
        raise ResourceError(f"cannot {what}: {self._root} sends us from place to place")

    async def _persistent(self, what: str, method: str, url: str, content: bytes | None) -> Answer:
        pause = FIRST_PAUSE
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                answer = await self._once(what, method, url, content)
            except _UnreachableError as error:
                if last or not (error.unseen or method != "POST"):
                    raise ResourceError(
                        f"cannot {what}: {error}", hint="is the forge up, and its address right?"
                    ) from None
            else:
                wait = limited(answer.status, answer.headers, time.time())
                if wait is not None and not last and wait <= self._patience:
                    pause = wait
                    self._patience -= wait
                elif wait is not None:
                    raise ResourceError(
                        f"cannot {what}: {self._root} takes no more requests for {wait:.0f} s",
                        hint="try again then; a token of its own has a limit of its own",
                    )
                elif answer.status not in _BUSY or method == "POST" or last:
                    return answer
            await asyncio.sleep(pause)
            pause = min(pause * 2, 8.0)
        raise AssertionError("unreachable")

    async def _once(self, what: str, method: str, url: str, content: bytes | None) -> Answer:
        import aiohttp  # noqa: PLC0415 - slow to load
        from yarl import URL  # noqa: PLC0415

        session = self._opened()
        kind = {"Content-Type": "application/json"} if content is not None else {}
        try:
            async with session.request(
                method,
                URL(url, encoded=True),
                data=content,
                headers={**self._headers, "Accept-Encoding": "identity", **kind},
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise ResourceError(f"cannot {what}: the answer of {self._root} is compressed, which nobody asked")
                said = bytearray()
                async for part in response.content.iter_chunked(1 << 16):
                    said += part
                    if len(said) > MOST_BYTES:
                        raise ResourceError(f"cannot {what}: the answer of {self._root} is over {MOST_BYTES} bytes")
                return Answer(
                    response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(said)
                )
        except aiohttp.ClientConnectorCertificateError as error:
            raise errors.AccessError(
                f"cannot {what}: the certificate of {self._root} is not trusted: {error.certificate_error}",
                hint="if a CA of your own signed it, name its file in SSL_CERT_FILE",
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise _UnreachableError(f"{self._root} cannot be reached: {error.os_error}", unseen=True) from None
        except TimeoutError:
            raise errors.TimeoutError(f"cannot {what}: {self._root} did not answer within {SECONDS} s") from None
        except (aiohttp.ClientError, OSError) as error:
            said_ = str(error).replace(self._secret, "…") if self._secret else str(error)
            raise _UnreachableError(f"{self._root} broke off: {said_ or type(error).__name__}", unseen=False) from None

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415

        if self._session is None:
            # SSL_CERT_FILE and SSL_CERT_DIR are read by OpenSSL. The rest of the environment is not trusted blindly:
            # a .netrc would silently take the place of our token.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=SECONDS, connect=10),
                connector=aiohttp.TCPConnector(ssl=_trusted(), limit=4),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,  # a small answer would be a large one
            )
        return self._session


def _trusted() -> ssl.SSLContext:
    """Return whom to trust: by the files that OpenSSL is told of now, which may be others, or renewed, another time."""
    paths = ssl.get_default_verify_paths()
    return _context(tuple((path, _stamp(path)) for path in (paths.cafile, paths.capath)))


@lru_cache(maxsize=4)
def _context(_: object) -> ssl.SSLContext:
    """Return one for all connections of the same settings: to read the authorities takes 15 ms and most of a MiB."""
    return ssl.create_default_context()


def _stamp(path: str | None) -> tuple[int, ...]:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        found = None
    if found is None:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _UnreachableError(Exception):
    def __init__(self, message: str, *, unseen: bool) -> None:
        super().__init__(message)
        self.unseen = unseen  # the forge cannot have got the request


def limited(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds a forge wants to be left alone; None where it does not say so. Pure."""
    after = headers.get("retry-after", "")
    if status in (403, 429, 503) and after.isdecimal():
        return float(after)
    spent = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining", "")) == "0"
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", ""))
    if status in (403, 429) and spent and reset.isdecimal():
        return max(1.0, float(reset) - now)
    return 60.0 if status == 429 else None


def proxy_of(url: str) -> str | None:
    """As the environment says; never for an address on this machine or in its network."""
    place = urlsplit(url)
    host = place.hostname or ""
    try:
        if ipaddress.ip_address(host).is_private:
            return None
    except ValueError:
        if host == "localhost":
            return None
    return None if proxy_bypass(host) else getproxies().get(place.scheme)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    place = urlsplit(url)
    usual: Any = {"https": 443, "http": 80}.get(place.scheme)
    return place.scheme, place.hostname, place.port or usual
