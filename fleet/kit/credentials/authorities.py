"""The CAs of an app, as many as its type declares, and how they are replaced while members run.

A member that does not trust a CA refuses others that come with its certificates. So a new CA is trusted first: it joins
the bundle, and only when all running members trust it do certificates move to it. The old one stays in the bundle for
as long as certificates of it may be in use. How it is known that members trust it depends on how they read the bundle:
members that read it at their start restart for it, of others the engine proves it, or they get time (`trusted_sets`).

A CA whose key is lost is replaced in the same way: the certificates that it signed are kept until then.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleet.kit.credentials.certificates import Authority, overlap
from fleet.kit.credentials.tls import CLIENTS, TRUST, DeclaredAuthority, Tls
from fleet.kit.observe.world import Data, Object, is_ready

MOST_BYTES = 64 << 10  # of certificates, which have 600 each: whoever may write the Secret may write a MiB, ever anew
# Until a kubelet has renewed the files of a Secret in its pods, and clients that read theirs again have done so.
# Members that restart for a new CA take longer than that to roll, and are asked for nothing more.
SPREADING = datetime.timedelta(minutes=10)
AT_ONCE = datetime.timedelta()


@dataclass(frozen=True, slots=True)
class Signer:
    """One declared CA: the one that signs, and all that are trusted."""

    current: Authority | None  # None: its key is lost, and what it signed stays until all trust the one that comes
    coming: Authority | None = None
    old: bytes = b""  # certificates of earlier ones

    @property
    def bundle(self) -> bytes:
        """Return all certificates that are trusted."""
        trusted = (authority.pem for authority in (self.current, self.coming) if authority is not None)
        return overlap(*trusted, self.old)

    def begun(self, name: str, now: datetime.datetime) -> Signer:
        """Return it with one that is to be trusted, and signs nothing yet."""
        return replace(self, coming=Authority.new(name, now=now))

    def moved(self) -> Signer:
        """Return it with the one that comes in its place; unchanged if none comes."""
        if self.coming is None:
            return self
        return Signer(self.coming, None, overlap(self.old, self.current.pem if self.current else b""))

    def aged(self, now: datetime.datetime) -> bool:
        return self.current is not None and self.current.aged(now)


@dataclass(frozen=True, slots=True)
class Authorities:
    """All CAs of an app, which are replaced together."""

    signers: Mapping[DeclaredAuthority, Signer]
    word: str = ""  # what git called this generation of CAs
    coming_word: str = ""
    trust: str = ""  # the set of CAs that members must have in force; "" until there is a second one
    until: str = ""  # when the old ones may be forgotten
    since: str = ""  # when the ones that come were told to members; "" where members restart for them

    @classmethod
    def read(cls, held: Mapping[str, bytes], declared: Sequence[DeclaredAuthority]) -> Authorities | None:
        """Return those in the Secret; None if one that is declared is not there. Raise ValueError as `read_signer`."""
        signers = {authority: read_signer(held, authority) for authority in declared}
        known = {authority: signer for authority, signer in signers.items() if signer is not None}
        if len(known) < len(signers):
            return None
        texts = (held.get(name, b"").decode() for name in ("word", "next-word", "trust", "until", "since"))
        return cls(known, *texts)

    @classmethod
    def made(cls, declared: Sequence[DeclaredAuthority], name: str, word: str, now: datetime.datetime) -> Authorities:
        """Return new ones, for members that have not started."""
        return cls({one: Signer(Authority.new(_subject(name, one), now=now)) for one in declared}, word)

    @classmethod
    def replaced(
        cls,
        declared: Sequence[DeclaredAuthority],
        held: Mapping[str, bytes],
        relied: Mapping[DeclaredAuthority, bytes],
        *,
        name: str,
        word: str,
        now: datetime.datetime,
        spreading: datetime.timedelta = AT_ONCE,
    ) -> Authorities:
        """Return successors under running members, of which some rely on a CA whose key is lost.

        `relied` has, by CA, the certificates of all that they trust.
        """
        signers = {}
        for authority in declared:
            signer = read_signer(held, authority)
            if signer is None:
                signer = Signer(None if authority in relied else Authority.new(authority.key, now=now))
            signers[authority] = replace(signer, old=overlap(signer.old, relied.get(authority, b""), now=now))
        return cls(signers, held.get("word", b"").decode()).begun(name, word, now, spreading)

    @property
    def clients(self) -> Signer:
        """Return the CA that clients trust, and that lets them in."""
        return self.signers[CLIENTS]

    @property
    def is_whole(self) -> bool:
        """Tell whether the keys are there that sign now."""
        return all(signer.current is not None for signer in self.signers.values())

    @property
    def is_changing(self) -> bool:
        """Tell whether new ones come that not all members are known to trust."""
        return any(signer.coming is not None for signer in self.signers.values())

    def write(self) -> Data:
        """Return what the Secret holds. It is stored: names of keys stay."""
        data: Data = {}
        for authority, signer in self.signers.items():
            key = authority.key
            if signer.current is not None:
                data |= {f"{key}.crt": signer.current.pem, f"{key}.key": signer.current.key_pem}
            if signer.coming is not None:
                data |= {f"next-{key}.crt": signer.coming.pem, f"next-{key}.key": signer.coming.key_pem}
            if signer.old:
                data[f"old-{key}.crt"] = signer.old
        texts = {
            "word": self.word,
            "next-word": self.coming_word,
            "trust": self.trust,
            "until": self.until,
            "since": self.since,
        }
        return data | {name: text.encode() for name, text in texts.items() if text}

    def advanced(
        self,
        name: str,
        word: str,
        *,
        now: datetime.datetime,
        life: datetime.timedelta,
        trusted: frozenset[str],
        spreading: datetime.timedelta = AT_ONCE,
    ) -> Authorities:
        """Return the next state.

        `word` is git's, `trusted` the sets that running members have in force, `spreading` the time that must pass
        until others than members have the new bundle, too.
        """
        if self.is_changing:
            if trusted <= {self.trust} and not (trusted and self._spreads(now, spreading)):
                return self._moved(now, life)
            return self
        if self.until and datetime.datetime.fromisoformat(self.until) < now:
            forgotten = {authority: replace(signer, old=b"") for authority, signer in self.signers.items()}
            return replace(self, signers=forgotten, until="")
        if word == self.word and not any(signer.aged(now) for signer in self.signers.values()):
            return self
        if not trusted:  # nothing runs: whoever starts trusts whatever is there
            return replace(Authorities.made(tuple(self.signers), name, word, now), trust=self.trust)
        return self.begun(name, word, now, spreading)

    def begun(
        self, name: str, word: str, now: datetime.datetime, spreading: datetime.timedelta = AT_ONCE
    ) -> Authorities:
        """Return these with new ones that are to be trusted, and sign nothing yet."""
        signers = {one: signer.begun(_subject(name, one), now) for one, signer in self.signers.items()}
        trust = hashlib.sha256(b"".join(signer.bundle for signer in signers.values())).hexdigest()[:10]
        since = now.isoformat(timespec="seconds") if spreading else ""
        return replace(self, signers=signers, coming_word=word, trust=trust, until="", since=since)

    def _spreads(self, now: datetime.datetime, spreading: datetime.timedelta) -> bool:
        return bool(self.since) and now < datetime.datetime.fromisoformat(self.since) + spreading

    def _moved(self, now: datetime.datetime, life: datetime.timedelta) -> Authorities:
        return replace(
            self,
            signers={authority: signer.moved() for authority, signer in self.signers.items()},
            word=self.coming_word,
            coming_word="",
            until=(now + life).isoformat(timespec="seconds"),
            since="",
        )


def trusted_sets(
    tls: Tls[Any], pods: Iterable[Object], trust: str, loaded: Mapping[str, str] | None = None
) -> frozenset[str]:
    """Return the sets of CAs that the members of `pods` have in force; "" is none that has a name.

    `trust` is the set that they are to have. Of members that reload, `loaded` has what the engine proved, by pod, such
    as by a handshake with a certificate that the coming CA signed: one that it says nothing of is not known to have it.
    One that reads files with each handshake has them for as long as its kubelet calls it ready, and so is at work; the
    time until the files are there is for the caller to wait.
    """
    if not tls.checks_members:
        return frozenset(trust for _ in pods)
    if tls.reads_authorities == "start":
        return frozenset(str((pod["metadata"].get("annotations") or {}).get(TRUST, "")) for pod in pods)
    if tls.reads_authorities == "reload":
        return frozenset((loaded or {}).get(pod["metadata"]["name"], "") for pod in pods)
    return frozenset(trust if is_ready(pod) else "" for pod in pods)


def read_signer(held: Mapping[str, bytes], authority: DeclaredAuthority) -> Signer | None:
    """Return what the Secret has of a CA; None if neither one that signs nor one that will is there.

    Raise ValueError for more than there can be.
    """
    key = authority.key
    size = sum(len(held.get(f"{prefix}{key}.crt", b"")) for prefix in ("", "next-", "old-"))
    if size > MOST_BYTES:
        raise ValueError(f"{size} bytes of CAs are no app's, which has a few: {MOST_BYTES} are the most")
    current, coming = _read_authority(held, key), _read_authority(held, f"next-{key}")
    return Signer(current, coming, held.get(f"old-{key}.crt", b"")) if current or coming else None


def _read_authority(held: Mapping[str, bytes], key: str) -> Authority | None:
    private = held.get(f"{key}.key")
    return Authority.read(held.get(f"{key}.crt", b""), private) if private else None


def _subject(name: str, authority: DeclaredAuthority) -> str:
    return f"{name} {authority.subject}" if authority.subject else name
