"""A certificate authority per cluster and the certificates its programs identify themselves with.

Only `make` makes an authority. A command that only reads a lab must leave nothing in it: it may be removed meanwhile.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.lab.files import write_file

LIFE = datetime.timedelta(days=3650)


class LabAuthority:
    """The certificate authority kept in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate_file = directory / "ca.crt"
        self.key_file = directory / "ca.key"

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - we made it
        return key

    def make(self) -> None:
        """Make the authority if it does not exist."""
        if self.certificate_file.exists() and self.key_file.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet-lab")])
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_file(self.key_file, _pem(key), 0o600)
        write_file(self.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, name: str, *, groups: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Issue a certificate for client and server use, and return it and its key: `file`.crt and `file`.key."""
        certificate_file, key_file = self.pair(file)
        if certificate_file.exists() and key_file.exists():
            return certificate_file, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFE - datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if addresses:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(address) for address in addresses]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        write_file(key_file, _pem(key), 0o600)
        write_file(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file

    def pair(self, file: str) -> tuple[Path, Path]:
        """Return where a certificate and its key are kept, whether they were issued or not."""
        return self.directory / f"{file}.crt", self.directory / f"{file}.key"

    def signing_pair(self, file: str) -> tuple[Path, Path]:
        """Return a key and its public half, for service account tokens; make them if they do not exist."""
        public_file, key_file = self.directory / f"{file}.pub", self.directory / f"{file}.key"
        if not (public_file.exists() and key_file.exists()):
            key = ec.generate_private_key(ec.SECP256R1())
            write_file(key_file, _pem(key), 0o600)
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            write_file(public_file, public)
        return public_file, key_file


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
