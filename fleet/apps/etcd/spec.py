"""What a user says about an etcd."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.versions import VERSIONS
from fleet.kit.versions import known_version
from fleet.model.app_settings import (
    ENCRYPTION_STAYS,
    ODD,
    ONLY_GROWS,
    STARTS_ONCE,
    TLS,
    Backup,
    Resources,
    Restore,
    Volume,
)
from fleet.model.base import OF_NEW_APPS, Rule
from fleet.model.network_settings import Measured
from fleet.model.types import Quantity, Version, amount

KNOWN_VERSION = known_version("etcd", VERSIONS)
ROOM = Rule(
    cel="has(self.adopt) || quantity(self.storage).compareTo(quantity('256Mi')) >= 0",
    message="is too little for an etcd, whose logs alone are files of 64 MB",
    holds=lambda self: self.adoption is not None or amount(self.storage) >= amount("256Mi"),
    hint="256Mi is the least, 8Gi the usual choice",
    field="storage",
    stored=False,
)
QUOTA_FITS = Rule(
    cel="has(self.adopt) || !has(self.config.quota)"
    " || quantity(self.config.quota).compareTo(quantity(self.storage)) < 0",
    message="is as large as the storage: the disk would be full before etcd refuses writes",
    holds=lambda self: (
        self.adoption is not None or not self.config.quota or amount(self.config.quota) < amount(self.storage)
    ),
    hint=lambda self: f"less than {self.storage}; unless it is given, it follows from the storage",
    field="config.quota",
    at="config.quota",
    stored=False,
)


class Etcd(Measured, frozen=True):
    """An etcd cluster."""

    version: Annotated[Version, KNOWN_VERSION]
    """The version to run: a series such as "3.5", which stands for its newest patch, or exactly "3.5.21"."""
    members: Annotated[int, Field(ge=1, le=7), ODD] = 3
    """How many members: 1, 3, 5 or 7. With 3, one may fail; with 5, two."""
    storage: Annotated[Quantity, ONLY_GROWS] = "8Gi"
    """The size of each member's volume, 256Mi at least. It can grow later, and never shrink."""
    resources: Annotated[Resources, OF_NEW_APPS] = Resources()
    """CPU and memory of each member; unless given 250m and 512Mi, or what members that others set up have."""
    volume: Volume = Volume()
    """How the members' volumes are made and what becomes of them."""
    config: EtcdConfig = EtcdConfig()
    """How etcd itself is set."""
    tls: TLS = TLS()
    """Encryption between clients and members and between members."""
    backup: Backup | None = None
    """Backups by schedule; none unless given."""
    restore_from: Restore | None = None
    """A backup to start from. It has no effect on an app that has data."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The container image; the official one of the version unless given."""
    force_quorum: bool = False
    """If a majority is lost for good, let the operator go on from the member that knows most. Writes may be lost."""

    port: ClassVar[int] = 2379
    rules: ClassVar[tuple[Rule, ...]] = (STARTS_ONCE, ENCRYPTION_STAYS, ROOM, QUOTA_FITS)

    def _scheme(self) -> str:
        return "https" if self.tls.enabled else "http"
