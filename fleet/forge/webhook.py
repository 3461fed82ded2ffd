"""Webhooks of forges: read only once the signature was checked, over the bytes as they came. Pure.

A signature says who speaks, not when: an old request may be sent again. So an event is a reason to ask the forge how
things are, and never a statement of how they are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping

from fleet.errors import AccessError, ConfigurationError
from fleet.forge import github, gitlab
from fleet.forge.forge import Event, Kind
from fleet.forge.json import Document, UnreadableError

MOST_BYTES = 25 * 1024 * 1024  # GitHub sends no more
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EVENT_HEADERS = {Kind.GITHUB: "x-github-event", Kind.GITLAB: "x-gitlab-event", Kind.GITEA: "x-gitea-event"}
_SIGNING_PREFIX = "whsec_"  # begins GitLab's signing tokens; what follows is the key in base64


def read_event(kind: Kind, headers: Mapping[str, str], body: bytes, secret: str) -> Event | None:
    """Return the event, None for one that means nothing to us; raise AccessError for a wrong or missing signature."""
    if not secret:
        raise ConfigurationError(
            "a webhook without a secret could be sent by anybody", hint="set one, here and at the forge"
        )
    if len(body) > MOST_BYTES:
        raise ConfigurationError(f"a webhook of {len(body)} bytes: no forge sends more than {MOST_BYTES}")
    lower_headers = {name.lower(): value for name, value in headers.items()}
    if not _is_signed(kind, lower_headers, body, secret):
        raise _signature_error()
    name = lower_headers.get(_EVENT_HEADERS[kind], "")
    if not name:
        raise ConfigurationError(
            f"the webhook does not say which event it is: there is no header {_EVENT_HEADERS[kind]}"
        )
    try:
        document = Document.of(body)
        return gitlab.parse_event(name, document) if kind is Kind.GITLAB else github.parse_event(kind, name, document)
    except UnreadableError as error:
        raise ConfigurationError(f"the webhook's {name!r} cannot be read: {error.message}") from None


def check_headers(kind: Kind, headers: Mapping[str, str], secret: str) -> None:
    """Raise AccessError for what no body can make right: there is no signature, or a token that is a wrong one."""
    lower_headers = {name.lower(): value for name, value in headers.items()}
    if kind is Kind.GITLAB:
        is_plausible = any(
            signature.startswith("v1,") for signature in lower_headers.get("webhook-signature", "").split()
        )
        is_plausible = is_plausible or (
            not secret.startswith(_SIGNING_PREFIX) and _is_equal(secret, lower_headers.get("x-gitlab-token", ""))
        )
    elif kind is Kind.GITHUB:
        signature = lower_headers.get("x-hub-signature-256", "")
        is_plausible = signature.startswith("sha256=") and bool(_DIGEST.fullmatch(signature.removeprefix("sha256=")))
    else:
        is_plausible = bool(_DIGEST.fullmatch(lower_headers.get("x-gitea-signature", "")))
    if not is_plausible:
        raise _signature_error()


def _signature_error() -> AccessError:
    return AccessError(
        "the webhook's signature is missing or wrong",
        hint="the secret at the forge and the one here must be the same; GitHub and Gitea need content type JSON",
    )


def _is_signed(kind: Kind, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    if kind is Kind.GITLAB:
        return _is_signed_by_gitlab(headers, body, secret)
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if kind is Kind.GITHUB:
        return _is_equal(f"sha256={expected}", headers.get("x-hub-signature-256", ""))
    return _is_equal(expected, headers.get("x-gitea-signature", ""))


def _is_signed_by_gitlab(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Check the signature of id, time and body where there is a signing token; else the secret itself, in a header."""
    if not secret.startswith(_SIGNING_PREFIX) and _is_equal(secret, headers.get("x-gitlab-token", "")):
        return True
    signed_prefix = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode()
    digest = hmac.new(_signing_key(secret), signed_prefix + body, hashlib.sha256).digest()
    expected = f"v1,{base64.b64encode(digest).decode()}"
    # Several are given while a token is being replaced.
    return any(_is_equal(expected, signature) for signature in headers.get("webhook-signature", "").split())


def _signing_key(secret: str) -> bytes:
    if not secret.startswith(_SIGNING_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SIGNING_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigurationError("the signing token is damaged: what follows whsec_ is no base64") from None


def _is_equal(expected: str, actual: str) -> bool:
    return hmac.compare_digest(expected.encode(), actual.encode(errors="replace"))
