"""Certificates of an app: an authority of its own, the leaves it issues, and when each is due to be made anew.

Everything is EC P-256 and in memory; nothing is written to a disk. An authority is replaced in three steps, because
whoever checks certificates must trust the new one before anybody shows a leaf of it:

    1. `overlap(old, new)` becomes the trusted bundle everywhere      (etcd reads it when it starts: a rolling restart)
    2. leaves are issued by the new authority                         (`why_renew` says so by itself)
    3. the new authority alone is trusted                             (a rolling restart)
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
OWN_LIFETIME = timedelta(days=1)  # of the operator's own certificate, which is in no Secret
SKEW = timedelta(minutes=5)  # a certificate is valid a little before it was made: clocks differ
LONGEST_KEY = 1024  # bytes of a key that is ours, which has 250: OpenSSL looks at an RSA key of 7 KiB for 10 s
LONGEST_FOUND_KEY = 8 << 10  # of one that others made, which signs each handshake
# As members offer them. With DHE, whoever answers chooses the numbers, and how long it takes to count with them.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as a Secret has them."""

    cert_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a certificate is to say: whose it is, under which names it is found, what it may be used for."""

    common_name: str
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    server: bool = False
    client: bool = False
    lifetime: timedelta = LEAF_LIFETIME


class Authority:
    """A certificate authority of one app. `pem` is its own certificate alone; what is trusted is a bundle."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls, name: str, *, now: datetime | None = None, lifetime: timedelta = AUTHORITY_LIFETIME) -> Authority:
        """Make a new one. No two have the same subject: a bundle of both is then told apart by every TLS library."""
        now = now or datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name[:50]} {serial % 0xFFFFFFFF:08x}")])
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(now - SKEW)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def read(cls, cert_pem: bytes, key_pem: bytes) -> Authority:
        """Return the one whose key this is; `cert_pem` may be a bundle that has others too. ValueError if there is
        none."""
        key = _read_key(key_pem)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an EC key")  # noqa: TRY004 - what is wrong is the content
        for certificate in x509.load_pem_x509_certificates(cert_pem):
            if certificate.public_key() == key.public_key():
                return cls(certificate, key)
        raise ValueError("no certificate belongs to the authority's key")

    @property
    def pem(self) -> bytes:
        return _pem(self._certificate)

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self._key)

    @property
    def pair(self) -> Pair:
        return Pair(self.pem, self.key_pem)

    @property
    def expires(self) -> datetime:
        return self._certificate.not_valid_after_utc

    def aged(self, now: datetime) -> bool:
        """Tell whether it is time for a successor: its leaves must not outlive it."""
        return _aged(self._certificate, now)

    def issue(self, leaf: Leaf, *, now: datetime | None = None) -> Pair:
        """Make a new key and its certificate, which never outlives the authority."""
        now = now or datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _common(leaf))]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(min(now + leaf.lifetime, self.expires))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if purposes := _purposes(leaf):
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if names := _names(leaf):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))

    def signed(self, cert_pem: bytes) -> bool:
        """Tell whether the first certificate of `cert_pem` was issued by this authority."""
        certificate = _first(cert_pem)
        return certificate is not None and self._signed(certificate)

    def why_renew(self, pair: Pair, leaf: Leaf, now: datetime) -> str | None:
        """Say why a leaf must be issued anew, in words for an event; None while it is good."""
        certificate = _first(pair.cert_pem)
        if certificate is None:
            return "it cannot be read"
        if not _belongs(pair.key_pem, certificate):
            return "its key is not the one in the certificate"
        if not self._signed(certificate):
            return "another authority signed it"
        if _aged(certificate, now):
            return f"it expires at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        if _said(certificate) != _wanted(leaf):
            return "its names or uses are not those that are wanted"
        return None

    def due(self, pair: Pair, leaf: Leaf, now: datetime) -> bool:
        """Tell whether a leaf must be issued anew: two thirds of its life are over, or it is not what is wanted."""
        return self.why_renew(pair, leaf, now) is not None

    def _signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def lifetime_of(cert_pem: bytes) -> tuple[datetime, datetime]:
    """Return when the first certificate of `cert_pem` begins and ends. ValueError for text that has none."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def overlap(*bundles: bytes, now: datetime | None = None) -> bytes:
    """Return one bundle of all certificates in `bundles`, in order, each once, without those that have expired."""
    now = now or datetime.now(UTC)
    found = (one for bundle in bundles if bundle.strip() for one in x509.load_pem_x509_certificates(bundle))
    return b"".join(dict.fromkeys(_pem(one) for one in found if one.not_valid_after_utc > now))


def trusts(bundle: bytes, authority: Authority) -> bool:
    """Tell whether whoever trusts `bundle` trusts what `authority` issues."""
    return any(_pem(one) == authority.pem for one in x509.load_pem_x509_certificates(bundle))


def client_context(
    authority: Authority,
    *,
    trusted: bytes | None = None,
    name: str = "fleet-operator",
    lifetime: timedelta = OWN_LIFETIME,
) -> ssl.SSLContext:
    """Return TLS for the operator as a client: a certificate made here and now, and only `trusted` (or the authority)
    is believed. The name in a server's certificate is always checked."""
    pair = authority.issue(Leaf(name, client=True, lifetime=lifetime))
    context = _context(trusted or authority.pem)
    with _as_file(pair.cert_pem + pair.key_pem) as file:
        context.load_cert_chain(file)
    return context


def found_context(trusted: bytes, pair: Pair) -> ssl.SSLContext:
    """Return TLS for the operator as a client of an app whose certificates others made: with what that app
    itself uses."""
    if len(pair.key_pem) > LONGEST_FOUND_KEY:
        raise ValueError(f"a key of {len(pair.key_pem)} bytes: each handshake would hold up everybody")
    context = _context(trusted)
    with _as_file(pair.cert_pem + b"\n" + pair.key_pem) as file:
        context.load_cert_chain(file)
    return context


def _context(trusted: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a name that OpenSSL can open, which takes only names: memory where the system has it, else a
    private file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as directory:  # only its owner can enter it
        file = Path(directory) / "pair.pem"
        file.write_bytes(content)
        yield str(file)


def _aged(certificate: x509.Certificate, now: datetime) -> bool:
    """Tell whether it is past two thirds of its life, so that there is time for whatever may go wrong with the next
    one."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + (end - begin) * 2 / 3


def _first(cert_pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(cert_pem)
    except ValueError:
        return None


def _belongs(key_pem: bytes, certificate: x509.Certificate) -> bool:
    try:
        return bool(_read_key(key_pem).public_key() == certificate.public_key())
    except ValueError:
        return False


def _read_key(key_pem: bytes) -> PrivateKeyTypes:
    """Read a key of ours. ValueError for what cannot be one: to read it may take longer than a pass may."""
    if len(key_pem) > LONGEST_KEY:
        raise ValueError(f"a key of {len(key_pem)} bytes is none of the operator's")
    try:
        return serialization.load_pem_private_key(key_pem, None)
    except (TypeError, UnsupportedAlgorithm) as problem:  # it has a password, or is of another kind
        raise ValueError(str(problem)) from problem


def _said(certificate: x509.Certificate) -> tuple[str, frozenset[x509.GeneralName], frozenset[x509.ObjectIdentifier]]:
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names: frozenset[x509.GeneralName] = frozenset()
    purposes: frozenset[x509.ObjectIdentifier] = frozenset()
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = frozenset(extension.value)
        elif isinstance(extension.value, x509.ExtendedKeyUsage):
            purposes = frozenset(extension.value)
    return str(common[0].value) if common else "", names, purposes


def _wanted(leaf: Leaf) -> tuple[str, frozenset[x509.GeneralName], frozenset[x509.ObjectIdentifier]]:
    return _common(leaf), frozenset(_names(leaf)), frozenset(_purposes(leaf))


def _common(leaf: Leaf) -> str:
    """Return the common name. Sixty-four characters are all that X.509 has room for; who is meant is in the other
    names."""
    return leaf.common_name[:64]


def _names(leaf: Leaf) -> list[x509.GeneralName]:
    addresses = (x509.IPAddress(ipaddress.ip_address(address)) for address in leaf.ips)
    return [*(x509.DNSName(name) for name in leaf.dns), *addresses]


def _purposes(leaf: Leaf) -> list[x509.ObjectIdentifier]:
    server = [ExtendedKeyUsageOID.SERVER_AUTH] if leaf.server else []
    return [*server, ExtendedKeyUsageOID.CLIENT_AUTH] if leaf.client else server


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
