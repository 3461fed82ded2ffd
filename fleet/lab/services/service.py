"""A kind of service, the record of one in a lab, and the question whether it answers.

The record says where a service listens and who administrates it; that is decided at its first start. A kind is data and
a few functions. Requests to a service never go through a proxy: it is on this machine.
"""

from __future__ import annotations

import http.client
import os
import ssl
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from fleet.errors import ConfigurationError
from fleet.lab import spec as specs
from fleet.lab.cluster.certificates import LabAuthority
from fleet.lab.cluster.controlplane import Program
from fleet.lab.files import write_file

SYSTEM_AUTHORITIES = (  # where systems keep the authorities that they trust
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A service of a lab, and its administrator: a user with a password, or an access key with its secret."""

    lab: str
    name: str
    address: str
    port: int
    user: str
    secret: str
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Return the service's address, which is the same for this machine and for pods."""
        return f"{self.scheme}://{self.address}:{self.port}"

    @property
    def authority(self) -> LabAuthority:
        """Return the authority that signs the certificates of this lab's services."""
        return LabAuthority(services_directory(self.lab) / "authority")

    @property
    def trust(self) -> ssl.SSLContext | None:
        """Return what a client needs to verify this service; None without TLS."""
        if self.scheme == "http" or not self.authority.certificate_file.exists():
            return None
        return ssl.create_default_context(cafile=str(self.authority.certificate_file))

    @property
    def bundle(self) -> Path:
        """Return the file of the authority and those that this machine trusts: its clients reach other servers too."""
        return self.authority.directory / "bundle.crt"

    def certify(self) -> tuple[Path, Path]:
        """Issue the certificate of the service, write the bundle anew, and return certificate and key."""
        self.authority.make()
        own_authority = self.authority.certificate_file.read_bytes()
        candidates = [
            os.environ.get("SSL_CERT_FILE", ""),
            ssl.get_default_verify_paths().cafile or "",
            *SYSTEM_AUTHORITIES,
        ]
        files = (Path(candidate) for candidate in candidates if candidate)
        system = next((file.read_bytes() for file in files if file != self.bundle and file.is_file()), b"")
        write_file(self.bundle, system.rstrip() + b"\n" + own_authority)
        return self.authority.issue(self.name, self.name, addresses=[self.address, "127.0.0.1", "localhost"])

    @property
    def directory(self) -> Path:
        """Return the directory with all data of the service."""
        return services_directory(self.lab) / self.name

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def role(self) -> str:
        """Return the role of the service's process among those of the lab."""
        return f"service/{self.name}"

    def save(self) -> None:
        write_file(self.directory / "service.json", orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2), 0o600)


def services_directory(lab: str) -> Path:
    return specs.lab_directory(lab) / "services"


def read_records(lab: str) -> dict[str, ServiceRecord]:
    """Return the services that were started in a lab, whether they run or not."""
    records = {}
    for file in sorted(services_directory(lab).glob("*/service.json")):
        try:
            record = ServiceRecord(**orjson.loads(file.read_bytes()))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise ConfigurationError(
                f"{file} cannot be read: {error}", hint=f"`fleet lab down --name {lab}` removes the lab"
            ) from None
        records[record.name] = record
    return records


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A kind of service. `programs` is the directory that `build` returns."""

    name: str
    title: str
    port: int
    health: str  # a path that answers with 200 when it serves
    build: Callable[[], Path]
    credentials: Callable[[], tuple[str, str]]  # of the administrator: user and secret
    program: Callable[[ServiceRecord, Path], Program]
    complete: Callable[[ServiceRecord, Path], None]  # what is done once it serves; may be done again
    scheme: str  # https where clients would not send their secrets otherwise
    environment: Callable[[ServiceRecord], dict[str, str]]  # what clients read, its administrator's secret included


OK = 200


def is_answering(
    url: str, user: str = "", secret: str = "", timeout: float = 5, trust: ssl.SSLContext | None = None
) -> bool:
    """Return whether a URL is answered with 200.

    With TLS, `trust` says whose certificates are accepted.
    """
    parts = urlsplit(url)
    login = b64encode(f"{user}:{secret}".encode()).decode()
    connection = (
        http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=trust)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.netloc, timeout=timeout)
    )
    try:
        connection.request("GET", parts.path, headers={"Authorization": f"Basic {login}"} if user else {})
        return connection.getresponse().status == OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
