"""The CAs of an etcd, one for clients and one for peers, and how they are replaced while members run.

A member that does not trust a CA refuses whoever comes with its certificates, and reads whom it trusts only when it
starts. So a new CA is trusted first: it joins the bundle, members restart one at a time, and only when all of them
trust it do certificates move to it. The old one stays in the bundle for as long as certificates of it may be in use.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleet_operator.core.certificates import Authority, overlap

Data = dict[str, bytes]
_CURRENT, _NEXT = "", "next-"


@dataclass(frozen=True, slots=True)
class Signer:
    """One CA: the one that signs, and all that are trusted."""

    current: Authority
    coming: Authority | None = None
    old: bytes = b""  # certificates of earlier ones

    @property
    def bundle(self) -> bytes:
        return overlap(self.current.pem, self.coming.pem if self.coming else b"", self.old)

    def begun(self, name: str, now: datetime.datetime) -> Signer:
        return replace(self, coming=Authority.new(name, now=now))

    def moved(self) -> Signer:
        return self if self.coming is None else Signer(self.coming, None, overlap(self.old, self.current.pem))


@dataclass(frozen=True, slots=True)
class Authorities:
    clients: Signer
    peers: Signer
    word: str = ""  # what git called this generation of CAs
    coming_word: str = ""
    trust: str = ""  # the set of CAs that members must have been started with; "" until there is a second one
    until: str = ""  # when the old ones may be forgotten

    @classmethod
    def read(cls, held: Mapping[str, bytes]) -> Authorities:
        """From the Secret; what is not there yet is made."""
        return cls(
            _read(held, "ca"),
            _read(held, "peer-ca"),
            *(held.get(name, b"").decode() for name in ("word", "next-word", "trust", "until")),
        )

    def write(self) -> Data:
        found: Data = {}
        for name, signer in (("ca", self.clients), ("peer-ca", self.peers)):
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
        if word == self.word and not self.clients.current.aged(now) and not self.peers.current.aged(now):
            return self
        if not trusted:  # nothing runs: whoever starts trusts whatever is there
            fresh = (Signer(Authority.new(name, now=now)), Signer(Authority.new(f"{name} peers", now=now)))
            return replace(self, clients=fresh[0], peers=fresh[1], word=word, until="")
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


def _read(held: Mapping[str, bytes], name: str) -> Signer:
    current = _pair(held, name, _CURRENT)
    return Signer(current or Authority.new(name), _pair(held, name, _NEXT), held.get(f"old-{name}.crt", b""))


def _pair(held: Mapping[str, bytes], name: str, prefix: str) -> Authority | None:
    key = held.get(f"{prefix}{name}.key")
    return Authority.read(held[f"{prefix}{name}.crt"], key) if key else None
