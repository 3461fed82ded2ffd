"""What a service of a lab is: where it listens and who may do everything there, decided at its first start."""

from __future__ import annotations

import os
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from fleet.errors import ConfigurationError
from fleet.lab import spec as specs
from fleet.lab.files import write
from fleet.lab.pki import Authority

SYSTEMS = (  # where systems keep the authorities that they trust
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class Record:
    """A service, and its administrator: a user with a password, or an access key with its secret."""

    lab: str
    name: str
    address: str
    port: int
    user: str
    secret: str
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The same for this machine and for pods."""
        return f"{self.scheme}://{self.address}:{self.port}"

    @property
    def authority(self) -> Authority:
        """The one that signs what the services of this lab show."""
        return Authority(directory(self.lab) / "authority")

    @property
    def trust(self) -> ssl.SSLContext | None:
        """What a client needs to know that it talks to this service; None without TLS."""
        if self.scheme == "http" or not self.authority.certificate_file.exists():
            return None
        return ssl.create_default_context(cafile=str(self.authority.certificate_file))

    @property
    def bundle(self) -> Path:
        """The authority with those that this machine trusts: a client that is given it reaches others as before."""
        return self.authority.directory / "bundle.crt"

    def certify(self) -> tuple[Path, Path]:
        """Return certificate and key of the service. They are made, and the bundle anew."""
        self.authority.make()
        ours = self.authority.certificate_file.read_bytes()
        usual = [os.environ.get("SSL_CERT_FILE", ""), ssl.get_default_verify_paths().cafile or "", *SYSTEMS]
        others = (Path(each) for each in usual if each)
        system = next((each.read_bytes() for each in others if each != self.bundle and each.is_file()), b"")
        write(self.bundle, system.rstrip() + b"\n" + ours)
        return self.authority.issue(self.name, self.name, addresses=[self.address, "127.0.0.1", "localhost"])

    @property
    def directory(self) -> Path:
        """All that the service keeps."""
        return directory(self.lab) / self.name

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def role(self) -> str:
        """What its process is called among those of the lab."""
        return f"service/{self.name}"

    def save(self) -> None:
        write(self.directory / "service.json", orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2), 0o600)


def directory(lab: str) -> Path:
    return specs.directory(lab) / "services"


def records(lab: str) -> dict[str, Record]:
    """The services that were started in a lab, whether they run or not."""
    found = {}
    for file in sorted(directory(lab).glob("*/service.json")):
        try:
            record = Record(**orjson.loads(file.read_bytes()))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise ConfigurationError(
                f"{file} cannot be read: {error}", hint=f"`fleet lab down --name {lab}` removes the lab"
            ) from None
        found[record.name] = record
    return found
