"""TLS of the operator as a client of an app's members. Pure, but for the keys that it makes."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from fleet.kit.credentials.certificates import Pair, client_context, found_context
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.credentials.tls import DeclaredCertificate
from fleet.kit.observe.world import Data, World
from fleet.model.app import App

A = TypeVar("A", bound=App)
_FILES = {"ca.crt": "ca", "tls.crt": "cert", "tls.key": "key"}


@dataclass(frozen=True, slots=True)
class OperatorTls:
    """How this process is let in by the members of an app."""

    mark: bytes  # tells one set of credentials from another
    make: Callable[[], ssl.SSLContext] | None = None  # None: without TLS


WITHOUT_TLS = OperatorTls(b"plain")


def operator_tls(certificates: Certificates[A], server: DeclaredCertificate[A]) -> OperatorTls | None:
    """Return TLS with a certificate that the app's own CA signs here and now; None while there is no CA.

    Where the key of the CA is lost, it is the members' own certificate of `server`, which they let in as well.
    """
    held = certificates.authorities()
    if held is None:
        return None
    trusted = held.clients.bundle
    if (signer := held.clients.current) is not None:
        return OperatorTls(signer.pem + trusted, partial(client_context, signer, trusted=trusted))
    if (pair := certificates.pair(server)) is not None:
        return OperatorTls(pair.cert_pem + trusted, partial(found_context, trusted, pair))
    return None


def operator_tls_as_found(files: Data | None) -> OperatorTls | None:
    """Return TLS with the files that others made for clients; None while a part of them is not there."""
    if files is None:
        return None
    pair = Pair(files["tls.crt"], files["tls.key"])
    return OperatorTls(b"".join(files.values()), partial(found_context, files["ca.crt"], pair))


def files_as_found(world: World, places: Mapping[str, tuple[str, str]]) -> Data | None:
    """Return the files with which others let a client in, under the names that clients know; None while one is missing.

    `places` are a Secret and a key of it, by what the file is: "ca", "cert", "key".
    """
    files = {name: world.secret(places[what][0]).get(places[what][1], b"") for name, what in _FILES.items()}
    return files if all(files.values()) else None
