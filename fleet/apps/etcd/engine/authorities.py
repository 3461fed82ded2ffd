"""The CAs of an etcd, one for clients and one for peers, and how they are replaced while members run.

A member that does not trust a CA refuses whoever comes with its certificates, and reads whom it trusts only when it
starts. So a new CA is trusted first: it joins the bundle, members restart one at a time, and only when all of them
trust it do certificates move to it. The old one stays in the bundle for as long as certificates of it may be in use.

A CA whose key is lost is replaced in the same way: the certificates that it signed are kept until then.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet.kit.certificates import Authority, overlap

Data = dict[str, bytes]
CLIENTS, PEERS = "ca", "peer-ca"  # as keys of the Secret begin
_CURRENT, _NEXT = "", "next-"
MOST_BYTES = 64 << 10  # of certificates, which have 600 each: whoever may write the Secret may write a MiB, ever anew


@dataclass(frozen=True, slots=True)
class Signer:
    """One CA: the one that signs, and all that are trusted."""

    current: Authority | None  # None: its key is lost, and what it signed stays until all trust the one that comes
    coming: Authority | None = None
    old: bytes = b""  # certificates of earlier ones

    @property
    def bundle(self) -> bytes:
        return overlap(*(one.pem for one in (self.current, self.coming) if one is not None), self.old)

    def begun(self, name: str, now: datetime.datetime) -> Signer:
        return replace(self, coming=Authority.new(name, now=now))

    def moved(self) -> Signer:
        if self.coming is None:
            return self
        return Signer(self.coming, None, overlap(self.old, self.current.pem if self.current else b""))

    def aged(self, now: datetime.datetime) -> bool:
        return self.current is not None and self.current.aged(now)


@dataclass(frozen=True, slots=True)
class Authorities:
    clients: Signer
    peers: Signer
    word: str = ""  # what git called this generation of CAs
    coming_word: str = ""
    trust: str = ""  # the set of CAs that members must have been started with; "" until there is a second one
    until: str = ""  # when the old ones may be forgotten

    @classmethod
    def read(cls, held: Mapping[str, bytes]) -> Authorities | None:
        """From the Secret; None if one of them is not there."""
        clients, peers = read_signer(held, CLIENTS), read_signer(held, PEERS)
        if clients is None or peers is None:
            return None
        return cls(clients, peers, *(held.get(name, b"").decode() for name in ("word", "next-word", "trust", "until")))

    @classmethod
    def made(cls, name: str, word: str, now: datetime.datetime) -> Authorities:
        """For members that have not started."""
        return cls(Signer(Authority.new(name, now=now)), Signer(Authority.new(f"{name} peers", now=now)), word)

    @classmethod
    def replaced(
        cls, held: Mapping[str, bytes], relied: Mapping[str, bytes], name: str, word: str, now: datetime.datetime
    ) -> Authorities:
        """Under running members, of which some `relied` on one whose key is lost: by key, the CAs that they trust."""
        kept = {
            key: read_signer(held, key) or Signer(None if key in relied else Authority.new(key, now=now))
            for key in (CLIENTS, PEERS)
        }
        clients, peers = (
            replace(signer, old=overlap(signer.old, relied.get(key, b""), now=now)) for key, signer in kept.items()
        )
        return cls(clients, peers, held.get("word", b"").decode()).begun(name, word, now)

    @property
    def is_whole(self) -> bool:
        """Whether the keys are there that sign now."""
        return self.clients.current is not None and self.peers.current is not None

    def write(self) -> Data:
        found: Data = {}
        for name, signer in ((CLIENTS, self.clients), (PEERS, self.peers)):
            if signer.current is not None:
                found |= {f"{name}.crt": signer.current.pem, f"{name}.key": signer.current.key_pem}
            if signer.coming is not None:
                found |= {f"next-{name}.crt": signer.coming.pem, f"next-{name}.key": signer.coming.key_pem}
            if signer.old:
                found[f"old-{name}.crt"] = signer.old
        texts = {"word": self.word, "next-word": self.coming_word, "trust": self.trust, "until": self.until}
        return found | {name: text.encode() for name, text in texts.items() if text}

    def advanced(
        self, name: str, word: str, *, now: datetime.datetime, life: datetime.timedelta, trusted: frozenset[str]
    ) -> Authorities:
        """The next state. `word` is git's, `trusted` the sets that running members were started with."""
        if self.clients.coming is not None:
            return self._moved(now, life) if trusted <= {self.trust} else self
        if self.until and datetime.datetime.fromisoformat(self.until) < now:
            forgotten = [replace(signer, old=b"") for signer in (self.clients, self.peers)]
            return replace(self, clients=forgotten[0], peers=forgotten[1], until="")
        if word == self.word and not self.clients.aged(now) and not self.peers.aged(now):
            return self
        if not trusted:  # nothing runs: whoever starts trusts whatever is there
            return replace(Authorities.made(name, word, now), trust=self.trust)
        return self.begun(name, word, now)

    def begun(self, name: str, word: str, now: datetime.datetime) -> Authorities:
        """New ones that are to be trusted, and sign nothing yet."""
        clients, peers = self.clients.begun(name, now), self.peers.begun(f"{name} peers", now)
        trust = hashlib.sha256(clients.bundle + peers.bundle).hexdigest()[:10]
        return replace(self, clients=clients, peers=peers, coming_word=word, trust=trust, until="")

    def _moved(self, now: datetime.datetime, life: datetime.timedelta) -> Authorities:
        return replace(
            self,
            clients=self.clients.moved(),
            peers=self.peers.moved(),
            word=self.coming_word,
            coming_word="",
            until=(now + life).isoformat(timespec="seconds"),
        )


def read_signer(held: Mapping[str, bytes], name: str) -> Signer | None:
    """None if neither one that signs nor one that will is there. ValueError for more than there can be."""
    size = sum(len(held.get(f"{kind}{name}.crt", b"")) for kind in (_CURRENT, _NEXT, "old-"))
    if size > MOST_BYTES:
        raise ValueError(f"{size} bytes of CAs are no etcd's, which has a few: {MOST_BYTES} are the most")
    current, coming = _pair(held, name, _CURRENT), _pair(held, name, _NEXT)
    return Signer(current, coming, held.get(f"old-{name}.crt", b"")) if current or coming else None


def _pair(held: Mapping[str, bytes], name: str, prefix: str) -> Authority | None:
    key = held.get(f"{prefix}{name}.key")
    return Authority.read(held.get(f"{prefix}{name}.crt", b""), key) if key else None
