"""The Secrets of an app with its CAs and certificates, as its type declares them. Pure, but for the keys that it makes.

Certificates are made anew after two thirds of their life. CAs are in `authorities`: one is never made anew beside
members that trust another. One whose key is gone is replaced as by a word in git, and the certificates that it signed
stay until then. Where these are gone too, a person must say that all members may restart.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from fleet.kit.credentials.authorities import AT_ONCE, SPREADING, Authorities, Signer, read_signer, trusted_sets
from fleet.kit.credentials.certificates import Leaf, Pair
from fleet.kit.credentials.tls import CLIENTS, DeclaredAuthority, DeclaredCertificate, Tls
from fleet.kit.observe.world import Data, Object, World
from fleet.kit.step import Decision, blocked
from fleet.model.app import App
from fleet.model.app_settings import LONGEST_LIFE, SHORTEST_LIFE, TLS
from fleet.model.network_settings import exposure_of, is_address
from fleet.times import seconds

A = TypeVar("A", bound=App)


@dataclass(frozen=True, slots=True)
class Certificates(Generic[A]):
    """The CAs and certificates of one app among what the cluster holds of it."""

    app: A
    tls: Tls[A]  # what its type declares
    settings: TLS  # what git says
    world: World
    pods: Sequence[Object] = ()  # of its members
    loaded: Mapping[str, str] = field(default_factory=dict)  # by pod, the CAs in force, where members reload them

    @property
    def authority_secret(self) -> str:
        return f"{self.app.name}-ca"

    @property
    def connection_secret(self) -> str:
        return f"{self.app.name}-connection"

    def secret(self, certificate: DeclaredCertificate[A]) -> str:
        """Return the name of the Secret with a certificate."""
        return f"{self.app.name}-{certificate.name}"

    @property
    def names_of_keys(self) -> tuple[str, ...]:
        """Return the Secrets that must not be made anew because a cache does not show them."""
        return self.authority_secret, *map(self.secret, self.tls.certificates)

    def authorities(self) -> Authorities | None:
        """Return the CAs as they are, if they have been made."""
        return Authorities.read(self.world.secret(self.authority_secret), self.tls.authorities)

    def pair(self, certificate: DeclaredCertificate[A]) -> Pair | None:
        """Return what members present, if it is there: they let it in, too, when the key of their CA is lost."""
        held = self.world.secret(self.secret(certificate))
        return Pair(held["tls.crt"], held["tls.key"]) if _is_whole(held) else None

    def lost(self) -> list[str]:
        """Return the Secrets that members run with and that are gone, together with the key that could make them."""
        held = self.world.secret(self.authority_secret)
        return [
            self.secret(certificate)
            for certificate in self._relied()
            if ((signer := read_signer(held, certificate.authority)) is None or signer.current is None)
            and not _is_whole(self.world.secret(self.secret(certificate)))
        ]

    def unsigned(self) -> Decision | None:
        """Return that neither a CA nor what it signed is there any more: no new one comes in without an outage."""
        if not (lost := self.lost()):
            return None
        return blocked(
            "AuthorityLost",
            f"the keys of its CA are gone (Secret {self.authority_secret}), and so is what members run with "
            f"({', '.join(lost)}). Put the Secrets back from a backup; or delete all pods of its members at once, "
            "which start again with their data and new certificates",
        )

    def kept(self, now: datetime.datetime, *, for_clients: bool = True) -> dict[str, Data]:
        """Return what the Secrets should hold, by name; what is good is left as it is.

        Of the connection Secret that is what clients need for TLS, and only `for_clients`: not before members serve it,
        since a client that is given certificates uses them. Return nothing while a person is to say what becomes of
        lost ones.
        """
        if self.lost():
            return {}
        life = timedelta(seconds=min(max(seconds(self.settings.lifetime), SHORTEST_LIFE), LONGEST_LIFE))
        authorities = self._advanced(now, life)
        found = {self.authority_secret: authorities.write()}
        for certificate in self.tls.certificates:
            dns, ips = self._outside(certificate)
            leaf = Leaf(
                certificate.common_name(self.app),
                tuple(dict.fromkeys((*certificate.dns(self.app), *dns))),
                tuple(dict.fromkeys((*certificate.ips, *ips))),
                server=certificate.server,
                client=certificate.client,
                lifetime=life,
            )
            signer = authorities.signers[certificate.authority]
            found[self.secret(certificate)] = self._leaf(self.secret(certificate), signer, leaf, now)
        if not for_clients:
            return found
        signer = authorities.clients
        if self.tls.client == "none":
            found[self.connection_secret] = {"ca.crt": signer.bundle}
        else:
            leaf = Leaf("client", client=True, lifetime=life)
            found[self.connection_secret] = self._leaf(self.connection_secret, signer, leaf, now)
        return found

    def _outside(self, certificate: DeclaredCertificate[A]) -> tuple[list[str], list[str]]:
        """Return names and addresses by which clients outside reach what shows a certificate, as the app says."""
        given = exposure_of(self.app).names if certificate.server and certificate.authority == CLIENTS else ()
        return [name for name in given if not is_address(name)], [name for name in given if is_address(name)]

    def _advanced(self, now: datetime.datetime, life: timedelta) -> Authorities:
        name, word = f"{self.app.namespace}/{self.app.name}", self.settings.authority
        spreading = AT_ONCE if self.tls.rolls_for_trust else SPREADING
        known, relied = self.authorities(), self._relied()
        if known is not None and (known.is_whole or relied):
            trusted = trusted_sets(self.tls, self.pods, known.trust, self.loaded)
            return known.advanced(name, word, now=now, life=life, trusted=trusted, spreading=spreading)
        declared = self.tls.authorities
        if not relied:  # nothing runs: whoever starts trusts whatever is there
            return Authorities.made(declared, name, word, now)
        bundles: dict[DeclaredAuthority, bytes] = {}
        for certificate in relied:
            bundle = self.world.secret(self.secret(certificate)).get("ca.crt", b"")
            bundles[certificate.authority] = bundles.get(certificate.authority, b"") + bundle
        held = self.world.secret(self.authority_secret)
        return Authorities.replaced(declared, held, bundles, name=name, word=word, now=now, spreading=spreading)

    def _relied(self) -> list[DeclaredCertificate[A]]:
        """Return the certificates that a pod of the app runs with."""
        running = [pod for pod in self.world.all("Pod") if pod.get("status", {}).get("phase") == "Running"]
        mounted = {
            (volume.get("secret") or {}).get("secretName")
            for pod in running
            for volume in pod["spec"].get("volumes") or ()
        }
        return [certificate for certificate in self.tls.certificates if self.secret(certificate) in mounted]

    def _leaf(self, secret: str, signer: Signer, leaf: Leaf, now: datetime.datetime) -> Data:
        held = self.world.secret(secret)
        pair = Pair(held.get("tls.crt", b""), held.get("tls.key", b""))
        if signer.current is not None and signer.current.due(pair, leaf, now):
            pair = signer.current.issue(leaf, now=now)
        return {"ca.crt": signer.bundle, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}


def _is_whole(held: Data) -> bool:
    return all(held.get(name) for name in ("ca.crt", "tls.crt", "tls.key"))
