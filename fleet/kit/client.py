"""How an engine's own client is run inside a member's pod, where its program and the app's certificates are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Client:
    """`argv` connects to the member that it runs beside, whose pod is {pod} in it; what a person wants comes after.

    `environment` is for programs elsewhere in the cluster, with the connection Secret's files in {directory}.
    """

    container: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        return self.argv[0]
