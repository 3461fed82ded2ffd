"""What an API server says when it says no."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def status(code: int, message: str = "", retry_after: int | None = None) -> dict[str, Any]:
    """The object that an error of this code comes with."""
    reason = REASONS.get(code, "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or f"{reason or code}, as planned",
        "reason": reason,
        **({"details": {"retryAfterSeconds": retry_after}} if retry_after is not None else {}),
        "code": code,
    }
