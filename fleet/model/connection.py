"""How a client reaches an app: plain values that are known before the app exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.model.secret_ref import SecretRef


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

    def ref(self, key: str | None = None) -> SecretRef:
        """The Secret, or one key of it, as a reference; a stack has no values of it."""
        from fleet.model.secret_ref import SecretRef  # noqa: PLC0415 - brings pydantic, which this does without

        return SecretRef(self.secret, key)

    def secret_key(self, key: str) -> dict[str, Any]:
        """For a container's environment: `{"name": "PASSWORD", "valueFrom": db.connection.secret_key("password")}`."""
        return {"secretKeyRef": {"name": self.secret, "key": key}}
