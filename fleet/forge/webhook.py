"""Webhooks of forges: read only once the signature was checked, over the bytes as they came. Pure.

A signature says who speaks, not when: an old request may be sent again. So an event is a reason to ask the forge how
things are, and never a statement of how they are.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from fleet.errors import AccessError, ConfigurationError
from fleet.forge.forge import Event, load_kind
from fleet.forge.json import JsonObject, UnreadableError

MOST_BYTES = 25 * 1024 * 1024  # GitHub sends no more
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_event(kind_name: str, headers: Mapping[str, str], body: bytes, secret: str) -> Event | None:
    """Return the event, None for one that means nothing to us; raise AccessError for a wrong or missing signature."""
    if not secret:
        raise ConfigurationError(
            "a webhook without a secret could be sent by anybody", hint="set one, here and at the forge"
        )
    if len(body) > MOST_BYTES:
        raise ConfigurationError(f"a webhook of {len(body)} bytes: no forge sends more than {MOST_BYTES}")
    kind, lower_headers = load_kind(kind_name), _lower_names(headers)
    if not kind.is_signed(lower_headers, body, secret):
        raise _signature_error()
    name = lower_headers.get(kind.event_header, "")
    if not name:
        raise ConfigurationError(f"the webhook does not say which event it is: there is no header {kind.event_header}")
    try:
        return kind.parse_event(name, JsonObject.of(body))
    except UnreadableError as error:
        raise ConfigurationError(f"the webhook's {name!r} cannot be read: {error.message}") from None


def check_headers(kind_name: str, headers: Mapping[str, str], secret: str) -> None:
    """Raise AccessError for what no body can make right: there is no signature, or a token that is a wrong one."""
    if not load_kind(kind_name).may_be_signed(_lower_names(headers), secret):
        raise _signature_error()


def is_digest(text: str) -> bool:
    """Return whether a text can be what `sign_body` returns."""
    return bool(_DIGEST.fullmatch(text))


def sign_body(body: bytes, secret: str) -> str:
    """Return the digest of a body that only an owner of the secret can make, as GitHub and Gitea do."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_equal(expected: str, actual: str) -> bool:
    """Compare two texts in a time that does not tell how much of them is equal."""
    return hmac.compare_digest(expected.encode(), actual.encode(errors="replace"))


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _signature_error() -> AccessError:
    return AccessError(
        "the webhook's signature is missing or wrong",
        hint="the secret at the forge and the one here must be the same; GitHub and Gitea need content type JSON",
    )
