"""How a client reaches an app: plain values that are known before the app exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Connection:
    """The operator keeps a Secret of this name with what a client needs and git must not know."""

    scheme: str
    host: str
    port: int
    secret: str
    namespace: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def secret_key(self, key: str) -> dict[str, Any]:
        """For a container's environment: `{"name": "PASSWORD", "valueFrom": db.connection.secret_key("password")}`."""
        return {"secretKeyRef": {"name": self.secret, "key": key}}
