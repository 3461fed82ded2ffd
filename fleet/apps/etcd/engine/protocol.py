"""etcd's own protocol, spoken to one member at a time over its client port, through the gRPC gateway that 3.4, 3.5 and
3.6 have. It observes and commands; it decides nothing.

Every call ends in time, with an answer or with one of two errors, which must never be mistaken for each other:

    Unreachable   nothing is known: no connection, wrong certificate, no answer in time. A command may have been
                  carried out all the same.
    Refused       the member answered, and the answer is no.

Numbers are strings in the gateway's JSON (ids have 64 bits), and fields that are zero, empty or false are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import re
import ssl
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from yarl import URL

from fleet.errors import ResourceError

# What is taken of an answer. A member runs an image of its tenant's choice: it may say anything, and for ever.
MOST_BYTES = 256 << 10  # a list of members has a few hundred
MOST_MEMBERS = 64
MOST_WORDS = 1024  # characters of a text in it
IDLE_SECONDS = 60.0  # for which a connection is kept for the next probe
DEFRAGMENT_SECONDS = 120.0  # some seconds per GiB, during which a member answers nothing else
_CANCELLED, _DEADLINE_EXCEEDED, _UNIMPLEMENTED, _UNAVAILABLE = 1, 4, 12, 14  # of gRPC's codes
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,6})?")
AlarmKind = Literal["NOSPACE", "CORRUPT"]
DowngradeAction = Literal["validate", "enable", "cancel"]


class GuardedBody(BytesPayload):
    """Body of a request by aiohttp. Calls `check` when it goes out; what that raises breaks the connection."""

    def __init__(self, data: bytes, check: Callable[[], None]) -> None:
        super().__init__(data)
        self._check = check

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member is, and the name that its certificate must have."""

    address: str
    port: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address}:{self.port})"


@dataclass(frozen=True, slots=True)
class Alarm:
    """What etcd complains about, and on which member."""

    member_id: int  # 0: it cannot tell
    kind: AlarmKind


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What a member says about itself, from its own memory: true of a member that is cut off, too."""

    cluster_id: int
    member_id: int
    leader: int  # 0: it knows of none
    version: str
    raft_index: int
    raft_applied_index: int
    raft_term: int
    db_size: int
    db_size_in_use: int
    is_learner: bool
    errors: tuple[str, ...]
    revision: int = 0
    db_size_quota: int = 0  # 3.6 and later, else 0
    storage_version: str = ""  # 3.6 and later
    downgrading_to: str = ""  # 3.6 and later: the version that a downgrade has been enabled for

    @property
    def leads(self) -> bool:
        return self.leader == self.member_id

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms that the member knows of; unlike `Etcd.alarms` this needs no quorum and writes no log entry."""
        found = (re.match(r"(?:memberID:(\d+) )?alarm:(NOSPACE|CORRUPT)", error) for error in self.errors)
        return tuple(Alarm(int(match[1] or 0), _kind(match[2])) for match in found if match)


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the cluster has it on its list; it has no name until it has started for the first time."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    is_learner: bool

    @property
    def started(self) -> bool:
        return bool(self.name)


class Unreachable(ResourceError):  # noqa: N818 - a state of the member, and the word for it
    """No answer: nothing is known."""

    def __init__(self, endpoint: Endpoint, why: str) -> None:
        super().__init__(f"etcd at {endpoint} cannot be reached: {why}")
        self.endpoint = endpoint
        self.why = why


class Refused(ResourceError):  # noqa: N818
    """An answer, and it is no. `code` is gRPC's."""

    def __init__(self, endpoint: Endpoint, code: int, message: str) -> None:
        super().__init__(f"etcd at {endpoint} refused: {message}")
        self.endpoint = endpoint
        self.code = code
        self.reason = message

    def _says(self, *parts: str) -> bool:
        return any(part in self.reason for part in parts)

    @property
    def learner_not_ready(self) -> bool:
        """It has not caught up with the leader yet."""
        return self._says("can only promote a learner member which is in sync with leader")

    @property
    def not_learner(self) -> bool:
        """It votes already."""
        return self.reason.endswith("can only promote a learner member")

    @property
    def not_found(self) -> bool:
        """There is no such member."""
        return self._says("member not found")

    @property
    def already_there(self) -> bool:
        """A member with this id or peer URL is on the list."""
        return self._says("member ID already exist", "Peer URLs already exists")

    @property
    def unhealthy(self) -> bool:
        """The list may not change now: too few members are started or in touch with each other."""
        return self._says("unhealthy cluster", "not enough started members")

    @property
    def too_many_learners(self) -> bool:
        return self._says("too many learner members")

    @property
    def not_leader(self) -> bool:
        """Only the leader can do it."""
        return self._says("etcdserver: not leader")

    @property
    def by_learner(self) -> bool:
        """A learner was asked for what only a voter answers."""
        return self._says("rpc not supported for learner")

    @property
    def compacted(self) -> bool:
        """It has been compacted that far already."""
        return self._says("required revision has been compacted")

    @property
    def no_space(self) -> bool:
        return self._says("database space exceeded")

    @property
    def corrupt(self) -> bool:
        return self._says("corrupt cluster")

    @property
    def unsupported(self) -> bool:
        """This version of etcd has no such call."""
        return self.code == _UNIMPLEMENTED or self.reason == "Not Found"

    @property
    def no_downgrade(self) -> bool:
        """None was allowed, so there is none to take back."""
        return self._says("no inflight downgrade")

    @property
    def in_doubt(self) -> bool:
        """The member gave up waiting for the others: the command may be carried out yet."""
        return self._says("request timed out", "leader changed", "server stopped") or self.code in (
            _CANCELLED,
            _DEADLINE_EXCEEDED,
        )


class Etcd:
    """A pool of connections to the members of one app. Commands go to the member that is named, and to no other."""

    def __init__(self, tls: ssl.SSLContext | None, seconds: float = 2.0) -> None:
        self._tls = tls
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None
        self._allowed: Callable[[], None] = _always

    def guarded(self, allowed: Callable[[], None]) -> Etcd:
        """The same connections; each request asks `allowed` first and again when its body goes out, and is not sent
        if that raises. A process that was frozen meanwhile would send what it has no right to any more."""
        other = copy.copy(self)
        other._allowed = allowed
        return other

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls or False, limit=0, keepalive_timeout=IDLE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # etcd compresses nothing, and what is compressed has no size
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def status(self, endpoint: Endpoint) -> MemberStatus:
        """What the member knows by itself; it answers without a quorum."""
        body = await self._read(endpoint, "maintenance/status", {})
        with _understood(endpoint):
            return _status(body)

    async def members(self, endpoint: Endpoint, linearizable: bool = True) -> tuple[Member, ...]:
        """The cluster's list of members.

        A member that is cut off would answer from its own memory: 3.4 always, 3.5 and later unless told otherwise.
        So a read that needs a quorum goes first, on every version alike; the list is then at least as new as that
        read. `linearizable=False` asks for the member's own memory. A learner answers only that, if anything.
        """
        if linearizable:
            await self.revision(endpoint)
        body = await self._read(endpoint, "cluster/member/list", {})
        with _understood(endpoint):
            return tuple(_member(member) for member in _few(body, "members"))

    async def alarms(self, endpoint: Endpoint) -> tuple[Alarm, ...]:
        """All alarms. The question goes through the log of all members; `MemberStatus.alarms` costs nothing."""
        body = await self._read(endpoint, "maintenance/alarm", {"action": "GET"})
        with _understood(endpoint):
            return _alarms(body)

    async def disarm(self, endpoint: Endpoint, alarm: Alarm) -> None:
        await self._call(
            endpoint,
            "maintenance/alarm",
            {"action": "DEACTIVATE", "memberID": str(alarm.member_id), "alarm": alarm.kind},
        )

    async def add_learner(self, endpoint: Endpoint, *peer_urls: str) -> Member:
        body = await self._call(endpoint, "cluster/member/add", {"peerURLs": list(peer_urls), "isLearner": True})
        with _understood(endpoint):
            return _member(body.get("member", {}))

    async def promote(self, endpoint: Endpoint, member_id: int) -> None:
        """Give a learner its vote; refused with `learner_not_ready` until it has caught up."""
        await self._call(endpoint, "cluster/member/promote", {"ID": str(member_id)})

    async def remove(self, endpoint: Endpoint, member_id: int) -> None:
        await self._call(endpoint, "cluster/member/remove", {"ID": str(member_id)})

    async def update_peer_urls(self, endpoint: Endpoint, member_id: int, peer_urls: tuple[str, ...]) -> None:
        """Only for a voter: of a learner etcd (3.4 to 3.6) forgets with this that it is one, and counts it as a voter
        while raft does not."""
        await self._call(endpoint, "cluster/member/update", {"ID": str(member_id), "peerURLs": list(peer_urls)})

    async def move_leader(self, endpoint_of_leader: Endpoint, to: int) -> None:
        """Hand leadership to another voter, without an election's pause."""
        await self._call(endpoint_of_leader, "maintenance/transfer-leadership", {"targetID": str(to)})

    async def defragment(self, endpoint: Endpoint, seconds: float = DEFRAGMENT_SECONDS) -> None:
        """Give free pages back to the file system. The member answers nothing else meanwhile: the leader last."""
        await self._call(endpoint, "maintenance/defragment", {}, seconds)

    async def compact(self, endpoint: Endpoint, revision: int, physical: bool = True) -> None:
        """Drop what is older than `revision`; with `physical`, answer once the pages are free. `compacted` if it was
        done before."""
        await self._call(endpoint, "kv/compaction", {"revision": str(revision), "physical": physical})

    async def revision(self, endpoint: Endpoint) -> int:
        """The revision of the store, confirmed by a majority."""
        body = await self._read(endpoint, "kv/range", {"key": _encoded(b"\0"), "keys_only": True, "limit": "1"})
        with _understood(endpoint):
            return _number(body.get("header", {}), "revision")

    async def downgrade(self, endpoint: Endpoint, action: DowngradeAction, version: str) -> None:
        """Ask whether a downgrade is possible, allow it, or take it back; 3.5 and later, else `unsupported`."""
        await self._call(endpoint, "maintenance/downgrade", {"action": action.upper(), "version": version})

    async def put(self, endpoint: Endpoint, key: str, value: str | bytes) -> None:
        content = value.encode() if isinstance(value, str) else value
        await self._call(endpoint, "kv/put", {"key": _encoded(key.encode()), "value": _encoded(content)})

    async def get(self, endpoint: Endpoint, key: str) -> bytes | None:
        body = await self._read(endpoint, "kv/range", {"key": _encoded(key.encode())})
        with _understood(endpoint):
            found = body.get("kvs", ())
            return b64decode(found[0].get("value", "")) if found else None

    async def count(self, endpoint: Endpoint, prefix: str) -> int:
        """How many keys begin with `prefix`, which is not empty."""
        begin = prefix.encode()
        end = begin[:-1] + bytes([begin[-1] + 1])
        body = await self._read(
            endpoint, "kv/range", {"key": _encoded(begin), "range_end": _encoded(end), "count_only": True}
        )
        with _understood(endpoint):
            return _number(body, "count")

    async def _read(self, endpoint: Endpoint, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask, and once more on a new connection if the one that was kept turned out to be closed. Only for
        questions: whether a command was carried out before the connection closed, nobody knows."""
        try:
            return await self._call(endpoint, path, body)
        except Unreachable as error:
            cause = error.__cause__
            closed = isinstance(cause, OSError) and cause.errno in (errno.ECONNRESET, errno.EPIPE)
            if closed or isinstance(cause, aiohttp.ServerDisconnectedError):
                return await self._call(endpoint, path, body)
            raise

    async def _call(
        self, endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float | None = None
    ) -> dict[str, Any]:
        if self._session is None:
            raise RuntimeError("use Etcd as a context manager: async with Etcd(…) as etcd")
        scheme = "https" if self._tls is not None else "http"
        url = URL.build(scheme=scheme, host=endpoint.address, port=endpoint.port, path=f"/v3/{path}")
        limit = self._seconds if seconds is None else seconds
        self._allowed()
        try:
            async with (
                asyncio.timeout(limit),
                self._session.post(
                    url,
                    data=GuardedBody(orjson.dumps(body), self._allowed),
                    headers={"Content-Type": "application/json"},
                    server_hostname=endpoint.name if self._tls is not None else None,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                content = await _limited(response)
        except TimeoutError as error:
            self._allowed()  # what it held back was not sent, and that is another matter than no answer
            raise Unreachable(endpoint, f"no answer in {limit:g} s") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            self._allowed()
            raise Unreachable(endpoint, _in_words(error)) from error
        return _answer(endpoint, response.status, content)


def _always() -> None:
    """Nobody else is there."""


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        content += chunk
        if len(content) > MOST_BYTES:
            raise ValueError(f"its answer is longer than {MOST_BYTES >> 10} KiB")
    return bytes(content)


def _answer(endpoint: Endpoint, status: int, content: bytes) -> dict[str, Any]:
    """The body of an answer; the errors of all versions are told apart here."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if status == 404:
            raise Refused(endpoint, _UNIMPLEMENTED, "Not Found") from error
        raise Unreachable(endpoint, f"HTTP {status}, which is not etcd's answer") from error
    if not isinstance(body, dict):
        raise Unreachable(endpoint, "an answer that is not etcd's")
    if status == 200:
        return body
    message = str(body.get("message") or body.get("error") or f"HTTP {status}")[:MOST_WORDS]
    code = body.get("code", 0)
    if code == _UNAVAILABLE and not message.startswith(("etcdserver:", "auth:")):
        # The gateway is a client of the member's own port; it is up before the rest of the member is.
        raise Unreachable(endpoint, f"it is not ready: {message}")
    raise Refused(endpoint, code if isinstance(code, int) else 0, message)


@contextlib.contextmanager
def _understood(endpoint: Endpoint) -> Iterator[None]:
    """What is in an answer is not of the kind that etcd says: nothing is known, as if there had been none."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Unreachable(endpoint, f"an answer that is not etcd's: {str(error)[:200]}") from error


def _status(body: Mapping[str, Any]) -> MemberStatus:
    header = body.get("header", {})
    downgrade = body.get("downgradeInfo", {})
    return MemberStatus(
        cluster_id=_number(header, "cluster_id"),
        member_id=_number(header, "member_id"),
        leader=_number(body, "leader"),
        version=_version(body, "version"),
        raft_index=_number(body, "raftIndex"),
        raft_applied_index=_number(body, "raftAppliedIndex"),
        raft_term=_number(body, "raftTerm"),
        db_size=_number(body, "dbSize"),
        db_size_in_use=_number(body, "dbSizeInUse"),
        is_learner=bool(body.get("isLearner", False)),
        errors=tuple(str(error)[:MOST_WORDS] for error in _few(body, "errors")),
        revision=_number(header, "revision"),
        db_size_quota=_number(body, "dbSizeQuota"),
        storage_version=_version(body, "storageVersion") if body.get("storageVersion") else "",
        downgrading_to=_version(downgrade, "targetVersion") if downgrade.get("enabled") else "",
    )


def _member(data: Mapping[str, Any]) -> Member:
    return Member(
        id=_number(data, "ID"),
        name=_text(data, "name"),
        peer_urls=tuple(str(url)[:MOST_WORDS] for url in _few(data, "peerURLs")),
        client_urls=tuple(str(url)[:MOST_WORDS] for url in _few(data, "clientURLs")),
        is_learner=bool(data.get("isLearner", False)),
    )


def _alarms(body: Mapping[str, Any]) -> tuple[Alarm, ...]:
    found = (alarm for alarm in _few(body, "alarms") if alarm.get("alarm") in ("NOSPACE", "CORRUPT"))
    return tuple(Alarm(_number(alarm, "memberID"), _kind(alarm["alarm"])) for alarm in found)


def _kind(text: str) -> AlarmKind:
    return "CORRUPT" if text == "CORRUPT" else "NOSPACE"


def _few(data: Mapping[str, Any], field: str) -> list[Any]:
    found = data.get(field) or []
    if not isinstance(found, list) or len(found) > MOST_MEMBERS:
        raise ValueError(f"{field} is no list of {MOST_MEMBERS} at most")
    return found


def _text(data: Mapping[str, Any], field: str) -> str:
    return str(data.get(field, ""))[:MOST_WORDS]


def _version(data: Mapping[str, Any], field: str) -> str:
    """Of a release: what is compared with others must be one."""
    found = _text(data, field)
    if not _RELEASE.fullmatch(found):
        raise ValueError(f"{field} {found[:40]!r} is no release")
    return found


def _number(data: Mapping[str, Any], field: str) -> int:
    found = int(data.get(field, 0))
    if not 0 <= found < 1 << 64:
        raise ValueError(f"{field} is no number of 64 bits")
    return found


def _encoded(content: bytes) -> str:
    return b64encode(content).decode()


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
