"""What a service of a lab is: where it listens and who may do everything there, decided at its first start."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from fleet.errors import ConfigurationError
from fleet.lab import spec as specs
from fleet.lab.files import write


@dataclass(frozen=True, slots=True)
class Record:
    """A service, and its administrator: a user with a password, or an access key with its secret."""

    lab: str
    name: str
    address: str
    port: int
    user: str
    secret: str

    @property
    def url(self) -> str:
        """The same for this machine and for pods."""
        return f"http://{self.address}:{self.port}"

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
