"""What a forge sends to a webhook: read only once its signature was checked, over the bytes as they came. Pure.

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
_EVENT = {Kind.GITHUB: "x-github-event", Kind.GITLAB: "x-gitlab-event", Kind.GITEA: "x-gitea-event"}
_SIGNING = "whsec_"  # begins GitLab's signing tokens; what follows is the key in base64


def read(kind: Kind, headers: Mapping[str, str], body: bytes, secret: str) -> Event | None:
    """The event, or None for one that means nothing to us. A wrong or missing signature raises AccessError."""
    if not secret:
        raise ConfigurationError(
            "a webhook without a secret could be sent by anybody", hint="set one, here and at the forge"
        )
    if len(body) > MOST_BYTES:
        raise ConfigurationError(f"a webhook of {len(body)} bytes: no forge sends more than {MOST_BYTES}")
    given = {name.lower(): value for name, value in headers.items()}
    if not _is_signed(kind, given, body, secret):
        raise _unsigned()
    name = given.get(_EVENT[kind], "")
    if not name:
        raise ConfigurationError(f"the webhook does not say which event it is: there is no header {_EVENT[kind]}")
    try:
        said = Document.of(body)
        return gitlab.parse_event(name, said) if kind is Kind.GITLAB else github.parse_event(kind, name, said)
    except UnreadableError as error:
        raise ConfigurationError(f"the webhook's {name!r} cannot be read: {error.message}") from None


def check_headers(kind: Kind, headers: Mapping[str, str], secret: str) -> None:
    """Raise AccessError for what no body can make right: there is no signature, or a token that is a wrong one."""
    given = {name.lower(): value for name, value in headers.items()}
    if kind is Kind.GITLAB:
        fits = any(one.startswith("v1,") for one in given.get("webhook-signature", "").split())
        fits = fits or (not secret.startswith(_SIGNING) and _same(secret, given.get("x-gitlab-token", "")))
    elif kind is Kind.GITHUB:
        signature = given.get("x-hub-signature-256", "")
        fits = signature.startswith("sha256=") and bool(_DIGEST.fullmatch(signature.removeprefix("sha256=")))
    else:
        fits = bool(_DIGEST.fullmatch(given.get("x-gitea-signature", "")))
    if not fits:
        raise _unsigned()


def _unsigned() -> AccessError:
    return AccessError(
        "the webhook's signature is missing or wrong",
        hint="the secret at the forge and the one here must be the same; GitHub and Gitea need content type JSON",
    )


def _is_signed(kind: Kind, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    if kind is Kind.GITLAB:
        return _is_signed_by_gitlab(headers, body, secret)
    right = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if kind is Kind.GITHUB:
        return _same(f"sha256={right}", headers.get("x-hub-signature-256", ""))
    return _same(right, headers.get("x-gitea-signature", ""))


def _is_signed_by_gitlab(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """By a signature of id, time and body where there is a signing token; else by the secret itself, in a header."""
    if not secret.startswith(_SIGNING) and _same(secret, headers.get("x-gitlab-token", "")):
        return True
    about = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode()
    digest = hmac.new(_key(secret), about + body, hashlib.sha256).digest()
    right = f"v1,{base64.b64encode(digest).decode()}"
    # Several are given while a token is being replaced.
    return any(_same(right, one) for one in headers.get("webhook-signature", "").split())


def _key(secret: str) -> bytes:
    if not secret.startswith(_SIGNING):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SIGNING), validate=True)
    except binascii.Error:
        raise ConfigurationError("the signing token is damaged: what follows whsec_ is no base64") from None


def _same(right: str, given: str) -> bool:
    return hmac.compare_digest(right.encode(), given.encode(errors="replace"))
