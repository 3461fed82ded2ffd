"""Requests to a forge over HTTP: one connection pool, bounded in time and size, and every refusal explained once.

What may be sent again without harm is sent again, for a while; a request that makes something only when the forge
cannot have seen it or said itself that it did not take it. The token goes to the forge's own address and is in no
message: what a forge says in a refusal is shown shortened and without it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson

from fleet import errors
from fleet.errors import AccessError, FleetError, NotFoundError, ResourceError
from fleet.forge.forge import ForgeRepository
from fleet.forge.json import JsonObject, UnreadableError, parse_json, read_list
from fleet.version import __version__

if TYPE_CHECKING:
    import aiohttp

P = ParamSpec("P")
T = TypeVar("T")
MOST_CHARACTERS = 300


def refusal_error(what: str, root: str, status: int, content: bytes, secret: str = "") -> FleetError:
    message = error_text(content, secret)
    ending = f": {message}" if message else ""
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


def error_text(content: bytes, secret: str = "") -> str:
    """Return what a forge says in an error: `message`, and what GitHub says about single fields."""
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError:
        text = "" if b"<" in content[:200] else content.decode(errors="replace")
    else:
        text = _join_messages(data)
    text = " ".join(text.replace(secret, "…").split() if secret else text.split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _join_messages(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    message = next((data[name] for name in ("message", "error_description", "error") if data.get(name)), "")
    details = data.get("errors")
    messages = [message if isinstance(message, str) else _flatten(message)]
    for detail in details if isinstance(details, list) else ():
        text = (
            detail.get("message") or f"{detail.get('field')}: {detail.get('code')}"
            if isinstance(detail, dict)
            else detail
        )
        if isinstance(text, str) and text not in messages:
            messages.append(text)
    return "; ".join(message for message in messages if message)


def _flatten(value: object) -> str:
    """Return a value as plain text: GitLab gives lists of reasons by field."""
    return re.sub(r'[\[\]{}"]', "", orjson.dumps(value).decode())


SECONDS = 30  # for one answer
MOST_BYTES = 32 * 1024 * 1024  # of one answer
MOST_PAGES = 200
MOST_LIST_BYTES = 64 * 1024 * 1024  # bytes of all pages of a list: every user may comment
TRIES = 4
PATIENCE = 90.0  # seconds that a forge may ask us to wait, in all
FIRST_PAUSE = 0.5
REDIRECTS = 3
_MOVED = (301, 302, 307, 308)
_BUSY = (500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class ForgeResponse:
    """Status, headers and content of a forge's answer."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    content: bytes

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def document(self) -> JsonObject:
        return JsonObject.of(self.content)


class ForgeConnection:
    """Connection to one forge. `root` is where its API begins; `secret` is what no message may show."""

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

    async def request(
        self, what: str, method: str, path: str, *, body: object = None, absent: bool = False
    ) -> ForgeResponse:
        """Make one request, in JSON. `what` names it in errors; with `absent`, 404 is returned and is no error."""
        url = path if "://" in path else f"{self._root}{path}"
        content = None if body is None else orjson.dumps(body)
        response = await self._follow_redirects(what, method, url, content)
        if response.good or (absent and response.status == 404):
            return response
        raise refusal_error(what, self._root, response.status, response.content, self._secret)

    async def document(self, what: str, method: str, path: str, *, body: object = None) -> JsonObject:
        return self.read(what, await self.request(what, method, path, body=body))

    def read(self, what: str, response: ForgeResponse) -> JsonObject:
        try:
            return response.document
        except UnreadableError as error:
            raise self.unreadable(what, error) from None

    def unreadable(self, what: str, error: UnreadableError) -> ResourceError:
        return ResourceError(
            f"cannot {what}: the answer of {self._root} cannot be read: {error.message}",
            hint="is [forge] url the address of the forge, and [forge] kind what it is?",
        )

    async def pages(self, what: str, path: str, query: Mapping[str, object]) -> AsyncIterator[JsonObject]:
        """Yield the objects of a list that may come in parts."""
        size = 0
        for page in range(1, MOST_PAGES + 1):
            response = await self.request(what, "GET", f"{path}?{urlencode({**query, 'page': page})}")
            size += len(response.content)
            if size > MOST_LIST_BYTES:
                raise ResourceError(f"cannot {what}: {self._root} has more than {MOST_LIST_BYTES} bytes of it")
            try:
                for document in read_list(parse_json(response.content)):
                    yield document
            except UnreadableError as error:
                raise self.unreadable(what, error) from None
            if 'rel="next"' not in response.headers.get("link", ""):
                return
        raise ResourceError(f"cannot {what}: {self._root} has more than {MOST_PAGES} pages of it")

    async def _follow_redirects(self, what: str, method: str, url: str, content: bytes | None) -> ForgeResponse:
        """Send a request and follow redirects on the same forge, as of a repository that was renamed.

        Another host would be sent the token, so a redirect to one is an error.
        """
        for _ in range(REDIRECTS):
            response = await self._send_with_retries(what, method, url, content)
            if response.status not in _MOVED:
                return response
            try:
                target = urljoin(url, response.headers.get("location", ""))
                origin = _origin(target)
            except ValueError as error:
                raise ResourceError(f"cannot {what}: {self._root} sends us to what is no address: {error}") from None
            if origin != _origin(url):
                raise ResourceError(
                    f"cannot {what}: {self._root} sends us to {origin[0]}://{origin[1]}, which is not asked",
                    hint="if the forge has moved, say its new address in [forge] url",
                )
            url = target
        raise ResourceError(f"cannot {what}: {self._root} sends us from place to place")

    async def _send_with_retries(self, what: str, method: str, url: str, content: bytes | None) -> ForgeResponse:
        pause = FIRST_PAUSE
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                response = await self._send(what, method, url, content)
            except _UnreachableError as error:
                if last or not (error.unseen or method != "POST"):
                    raise ResourceError(
                        f"cannot {what}: {error}", hint="is the forge up, and its address right?"
                    ) from None
            else:
                wait = requested_wait(response.status, response.headers, time.time())
                if wait is not None and not last and wait <= self._patience:
                    pause = wait
                    self._patience -= wait
                elif wait is not None:
                    raise ResourceError(
                        f"cannot {what}: {self._root} takes no more requests for {wait:.0f} s",
                        hint="try again then; a token of its own has a limit of its own",
                    )
                elif response.status not in _BUSY or method == "POST" or last:
                    return response
            await asyncio.sleep(pause)
            pause = min(pause * 2, 8.0)
        raise AssertionError("unreachable")

    async def _send(self, what: str, method: str, url: str, content: bytes | None) -> ForgeResponse:
        import aiohttp  # noqa: PLC0415 - slow to load
        from yarl import URL  # noqa: PLC0415

        session = self._open_session()
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
                    raise ResourceError(
                        f"cannot {what}: the answer of {self._root} is compressed, which was not requested"
                    )
                content_read = bytearray()
                async for part in response.content.iter_chunked(1 << 16):
                    content_read += part
                    if len(content_read) > MOST_BYTES:
                        raise ResourceError(f"cannot {what}: the answer of {self._root} is over {MOST_BYTES} bytes")
                return ForgeResponse(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    bytes(content_read),
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
            message = str(error).replace(self._secret, "…") if self._secret else str(error)
            raise _UnreachableError(
                f"{self._root} broke off: {message or type(error).__name__}", unseen=False
            ) from None

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415

        if self._session is None:
            # SSL_CERT_FILE and SSL_CERT_DIR are read by OpenSSL. The rest of the environment is not trusted blindly:
            # a .netrc would silently take the place of our token.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=SECONDS, connect=10),
                connector=aiohttp.TCPConnector(ssl=_trust_context(), limit=4),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,  # a small answer would be a large one
            )
        return self._session


class RepositoryClient(ABC):
    """Base of the clients of all forges: one connection, closed with the block, and the answers read or refused."""

    def __init__(self, repository: ForgeRepository, token: str) -> None:
        self.repository = repository
        self._connection = self._new_connection(token)
        self._me = ""  # name of the token's owner; "" until it is asked

    @abstractmethod
    def _new_connection(self, token: str) -> ForgeConnection: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    def _parse(self, what: str, parse: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call `parse`; raise the error for an answer that cannot be read. `what` names the request in it."""
        try:
            return parse(*arguments, **options)
        except UnreadableError as error:
            raise self._connection.unreadable(what, error) from None


def _trust_context() -> ssl.SSLContext:
    """Return whom to trust: by the files that OpenSSL is told of now, which may be others, or renewed, another time."""
    paths = ssl.get_default_verify_paths()
    return _context(tuple((path, _stamp(path)) for path in (paths.cafile, paths.capath)))


@lru_cache(maxsize=4)
def _context(_: object) -> ssl.SSLContext:
    """Return one for all connections of the same settings: to read the authorities takes 15 ms and most of a MiB."""
    return ssl.create_default_context()


def _stamp(path: str | None) -> tuple[int, ...]:
    """Return what changes with the content of a file or directory; nothing where there is none."""
    try:
        status = Path(path).stat() if path else None
    except OSError:
        status = None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) if status else ()


class _UnreachableError(Exception):
    def __init__(self, message: str, *, unseen: bool) -> None:
        super().__init__(message)
        self.unseen = unseen  # the forge cannot have got the request


def requested_wait(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return how many seconds a forge wants to be left alone; None where it does not say so. Pure."""
    after = headers.get("retry-after", "")
    if status in (403, 429, 503) and after.isdecimal():
        return float(after)
    spent = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining", "")) == "0"
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", ""))
    if status in (403, 429) and spent and reset.isdecimal():
        return max(1.0, float(reset) - now)
    return 60.0 if status == 429 else None


def proxy_of(url: str) -> str | None:
    """Return the proxy as the environment says; never for an address on this machine or in its network."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        if ipaddress.ip_address(host).is_private:
            return None
    except ValueError:
        if host == "localhost":
            return None
    return None if proxy_bypass(host) else getproxies().get(parts.scheme)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default_port: Any = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default_port
