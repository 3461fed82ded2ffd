"""etcd's own protocol, spoken to one member at a time over its client port, through the gRPC gateway that 3.4, 3.5 and
3.6 have. It observes and commands; it decides nothing. `fleet.kit.protocol` bounds every call in time and size.

Numbers are strings in the gateway's JSON (ids have 64 bits), and fields that are zero, empty or false are left out.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from fleet.kit.protocol.bounds import cut_text, read_items, read_number, read_release, read_text
from fleet.kit.protocol.endpoint import Endpoint, MemberRefused, Unreachable
from fleet.kit.protocol.http import HttpMembers, MemberReply

__all__ = ["Alarm", "Endpoint", "Etcd", "Member", "MemberStatus", "Refused", "Unreachable"]

DEFRAGMENT_SECONDS = 120.0  # some seconds per GiB, during which a member answers nothing else
_UNIMPLEMENTED, _UNAVAILABLE = 12, 14  # of gRPC's codes
AlarmKind = Literal["NOSPACE", "CORRUPT"]
DowngradeAction = Literal["validate", "enable", "cancel"]


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
        """Return the alarms that the member knows of: to ask for all of them writes an entry into the log of every
        member."""
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


class Refused(MemberRefused):
    """An answer, and it is no, in etcd's words. `code` is gRPC's."""

    engine = "etcd"

    @property
    def learner_not_ready(self) -> bool:
        """Tell whether it has not caught up with the leader yet."""
        return self.says("can only promote a learner member which is in sync with leader")

    @property
    def not_learner(self) -> bool:
        """Tell whether it votes already."""
        return self.reason.endswith("can only promote a learner member")

    @property
    def not_found(self) -> bool:
        """Tell whether there is no such member."""
        return self.says("member not found")

    @property
    def already_there(self) -> bool:
        """Tell whether a member with this id or peer URL is on the list."""
        return self.says("member ID already exist", "Peer URLs already exists")

    @property
    def unhealthy(self) -> bool:
        """Tell whether the list may not change now: too few members are started or in touch with each other."""
        return self.says("unhealthy cluster", "not enough started members")

    @property
    def too_many_learners(self) -> bool:
        return self.says("too many learner members")

    @property
    def not_leader(self) -> bool:
        """Tell whether only the leader can do it."""
        return self.says("etcdserver: not leader")

    @property
    def compacted(self) -> bool:
        """Tell whether it has been compacted that far already."""
        return self.says("required revision has been compacted")

    @property
    def unsupported(self) -> bool:
        """Tell whether this version of etcd has no such call."""
        return self.code == _UNIMPLEMENTED or self.reason == "Not Found"

    @property
    def no_downgrade(self) -> bool:
        """Tell whether none was allowed, so there is none to take back."""
        return self.says("no inflight downgrade")


class Etcd(HttpMembers):
    """A pool of connections to the members of one app. Commands go to the member that is named, and to no other."""

    engine = "etcd"

    async def status(self, endpoint: Endpoint) -> MemberStatus:
        """Return what the member knows by itself; it answers without a quorum."""
        body = await self._read(endpoint, "maintenance/status", {})
        with self.understood(endpoint):
            return _status(body)

    async def members(self, endpoint: Endpoint, linearizable: bool = True) -> tuple[Member, ...]:
        """Return the cluster's list of members.

        A member that is cut off would answer from its own memory: 3.4 always, 3.5 and later unless told otherwise.
        So a read that needs a quorum goes first, on every version alike; the list is then at least as new as that
        read. `linearizable=False` asks for the member's own memory. A learner answers only that, if anything.
        """
        if linearizable:
            await self.revision(endpoint)
        body = await self._read(endpoint, "cluster/member/list", {})
        with self.understood(endpoint):
            return tuple(_member(member) for member in read_items(body, "members"))

    async def disarm(self, endpoint: Endpoint, alarm: Alarm) -> None:
        await self._call(
            endpoint,
            "maintenance/alarm",
            {"action": "DEACTIVATE", "memberID": str(alarm.member_id), "alarm": alarm.kind},
        )

    async def add_learner(self, endpoint: Endpoint, *peer_urls: str) -> Member:
        body = await self._call(endpoint, "cluster/member/add", {"peerURLs": list(peer_urls), "isLearner": True})
        with self.understood(endpoint):
            return _member(body.get("member", {}))

    async def promote(self, endpoint: Endpoint, member_id: int) -> None:
        """Give a learner its vote; refused with `learner_not_ready` until it has caught up."""
        await self._call(endpoint, "cluster/member/promote", {"ID": str(member_id)})

    async def remove(self, endpoint: Endpoint, member_id: int) -> None:
        await self._call(endpoint, "cluster/member/remove", {"ID": str(member_id)})

    async def update_peer_urls(self, endpoint: Endpoint, member_id: int, peer_urls: tuple[str, ...]) -> None:
        """Change the peer URLs of a voter, and of no learner: of a learner etcd (3.4 to 3.6) forgets with this that it
        is one, and counts it as a voter while raft does not."""
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
        """Return the revision of the store, confirmed by a majority."""
        body = await self._read(
            endpoint, "kv/range", {"key": b64encode(b"\0").decode(), "keys_only": True, "limit": "1"}
        )
        with self.understood(endpoint):
            return read_number(body.get("header", {}), "revision")

    async def downgrade(self, endpoint: Endpoint, action: DowngradeAction, version: str) -> None:
        """Ask whether a downgrade is possible, allow it, or take it back; 3.5 and later, else `unsupported`."""
        await self._call(endpoint, "maintenance/downgrade", {"action": action.upper(), "version": version})

    async def _read(self, endpoint: Endpoint, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._body(endpoint, await self.ask(endpoint, f"/v3/{path}", orjson.dumps(body)))

    async def _call(
        self, endpoint: Endpoint, path: str, body: Mapping[str, Any], seconds: float | None = None
    ) -> dict[str, Any]:
        return self._body(endpoint, await self.send(endpoint, f"/v3/{path}", orjson.dumps(body), seconds))

    def _body(self, endpoint: Endpoint, answer: MemberReply) -> dict[str, Any]:
        """Return the body of an answer; the errors of all versions are told apart here."""
        try:
            body = orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            if answer.status == 404:
                raise Refused(endpoint, _UNIMPLEMENTED, "Not Found") from error
            raise self.unreachable(endpoint, f"HTTP {answer.status}, which is not etcd's answer") from error
        if not isinstance(body, dict):
            raise self.unreachable(endpoint, "an answer that is not etcd's")
        if answer.status == 200:
            return body
        message = cut_text(body.get("message") or body.get("error") or f"HTTP {answer.status}")
        code = body.get("code", 0)
        if code == _UNAVAILABLE and not message.startswith(("etcdserver:", "auth:")):
            # The gateway is a client of the member's own port; it is up before the rest of the member is.
            raise self.unreachable(endpoint, f"it is not ready: {message}")
        raise Refused(endpoint, code if isinstance(code, int) else 0, message)


def _status(body: Mapping[str, Any]) -> MemberStatus:
    header = body.get("header", {})
    downgrade = body.get("downgradeInfo", {})
    return MemberStatus(
        cluster_id=read_number(header, "cluster_id"),
        member_id=read_number(header, "member_id"),
        leader=read_number(body, "leader"),
        version=read_release(body, "version"),
        raft_index=read_number(body, "raftIndex"),
        raft_applied_index=read_number(body, "raftAppliedIndex"),
        raft_term=read_number(body, "raftTerm"),
        db_size=read_number(body, "dbSize"),
        db_size_in_use=read_number(body, "dbSizeInUse"),
        is_learner=bool(body.get("isLearner", False)),
        errors=tuple(cut_text(error) for error in read_items(body, "errors")),
        revision=read_number(header, "revision"),
        db_size_quota=read_number(body, "dbSizeQuota"),
        storage_version=read_release(body, "storageVersion") if body.get("storageVersion") else "",
        downgrading_to=read_release(downgrade, "targetVersion") if downgrade.get("enabled") else "",
    )


def _member(data: Mapping[str, Any]) -> Member:
    return Member(
        id=read_number(data, "ID"),
        name=read_text(data, "name"),
        peer_urls=tuple(cut_text(url) for url in read_items(data, "peerURLs")),
        client_urls=tuple(cut_text(url) for url in read_items(data, "clientURLs")),
        is_learner=bool(data.get("isLearner", False)),
    )


def _kind(text: str) -> AlarmKind:
    return "CORRUPT" if text == "CORRUPT" else "NOSPACE"
