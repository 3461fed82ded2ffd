"""The declaration of an app type's TLS: its CAs, the certificates that members present, and how members read both.

Nothing here makes a certificate, so that plans, definitions and pages can load it: see `authorities` and `secrets`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from fleet.model.app import App

A = TypeVar("A", bound=App)
TRUST = "fleet.dev/trust"  # the annotation of pods that says which CAs they were started with


@dataclass(frozen=True, slots=True)
class DeclaredAuthority:
    """A CA that every app of the type has for itself."""

    key: str  # as the keys of the Secret with the CAs begin
    subject: str = ""  # what its certificates say behind the app's name; "" for the first


CLIENTS = DeclaredAuthority("ca")  # signs what the ports for clients present, and what clients come with
PEERS = DeclaredAuthority("peer-ca", "peers")  # of its own, so that a client's certificate opens no peer port


@dataclass(frozen=True)  # slots would forbid `DeclaredCertificate[…](…)`
class DeclaredCertificate(Generic[A]):
    """A certificate that members present: one for all of them, in the Secret `APP-name`."""

    name: str
    authority: DeclaredAuthority
    common_name: Callable[[A], str]
    dns: Callable[[A], tuple[str, ...]]
    ips: tuple[str, ...] = ()
    server: bool = True  # what it may be used for
    client: bool = False


@dataclass(frozen=True)  # slots would forbid `Tls[…](…)`
class Tls(Generic[A]):
    """What the members of an app type do with certificates."""

    certificates: tuple[DeclaredCertificate[A], ...] = ()
    authorities: tuple[DeclaredAuthority, ...] = (CLIENTS,)
    client: Literal["required", "offered", "none"] = "none"  # whether clients have, may have or need no certificate
    reads: Literal["handshake", "reload"] = "reload"  # when members read their certificates again
    reads_authorities: Literal["handshake", "reload", "start"] = "reload"  # and the CAs that they trust

    def __post_init__(self) -> None:
        """Raise ValueError for a certificate that no declared CA signs, for two with one name, and without CLIENTS."""
        if CLIENTS not in self.authorities:
            raise ValueError("clients trust no CA: CLIENTS must be among the authorities")
        names = [certificate.name for certificate in self.certificates]
        if len({*names}) < len(names) or {"ca", "connection"} & {*names}:
            raise ValueError(f"two Secrets of one name: {', '.join(sorted([*names, 'ca', 'connection']))}")
        for certificate in self.certificates:
            if certificate.authority not in self.authorities:
                raise ValueError(f"no CA that is declared signs {certificate.name!r}: {certificate.authority.key!r}")

    @property
    def checks_members(self) -> bool:
        """Tell whether members check certificates of others, so that each must trust a CA before one of its
        is shown."""
        return self.client != "none" or len(self.authorities) > 1

    @property
    def rolls_for_trust(self) -> bool:
        """Tell whether members restart for a new set of CAs: their pod template has a mark of the set then."""
        return self.checks_members and self.reads_authorities == "start"
