"""What a user says about a Nats: each field, with its text, is in the definition and in the reference."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fleet.kit.versions import Versions, known_version
from fleet.model.app import App
from fleet.model.app_settings import ONLY_GROWS, Resources, Volume
from fleet.model.types import Quantity, Version

VERSIONS = Versions({"2.9": "2.9.25", "2.10": "2.10.29"}, image="docker.io/library/nats:{version}", step="any")


class Nats(App, frozen=True):
    """NATS servers with JetStream. Each stands alone: a stream lies at the server that it was made at."""

    version: Annotated[Version, known_version("NATS", VERSIONS)]
    """The version to run: a series such as "2.10", which stands for its newest patch, or exactly "2.10.29"."""
    members: Annotated[int, Field(ge=1, le=9)] = 1
    """How many servers."""
    storage: Annotated[Quantity, ONLY_GROWS] = "8Gi"
    """The size of each server's volume. It can grow later, and never shrink."""
    resources: Resources = Resources()
    """CPU and memory of each server."""
    volume: Volume = Volume()
    """How the servers' volumes are made and what becomes of them."""
    max_payload: Annotated[int, Field(ge=1024, le=64 << 20)] = 1 << 20
    """The largest message, in bytes."""

    port: ClassVar[int] = 4222

    def _scheme(self) -> str:
        return "nats"
