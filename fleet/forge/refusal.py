"""A forge's refusal as an error that says what to do. What the forge says is shown shortened and without the token."""

from __future__ import annotations

import re

import orjson

from fleet.errors import AccessError, FleetError, NotFoundError, ResourceError

MOST_CHARACTERS = 300


def refusal(what: str, root: str, status: int, content: bytes, secret: str = "") -> FleetError:
    said = told(content, secret)
    ending = f": {said}" if said else ""
    if status == 401:
        return AccessError(
            f"cannot {what}: {root} does not accept the token{ending}",
            hint="it may have expired, or be another forge's; FLEET_FORGE_TOKEN goes before all others",
        )
    if status == 403:
        return AccessError(
            f"cannot {what}: the token may not do that{ending}",
            hint="it must be allowed to write comments and commit statuses; GitHub gives jobs of forks one that only "
            "reads, unless they run on pull_request_target",
        )
    if status in (404, 410):
        return NotFoundError(
            f"cannot {what}: {root} does not have it, or hides it from this token{ending}",
            hint="check the repository and the number; what a token may not read is not found by it",
        )
    if status in (400, 409, 413, 422):
        return ResourceError(f"cannot {what}: {root} refuses it ({status}){ending}")
    return ResourceError(f"cannot {what}: {root} answers with {status}{ending}", hint="is the forge in good health?")


def told(content: bytes, secret: str = "") -> str:
    """What a forge says in an error: `message`, and what GitHub says about single fields."""
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError:
        text = "" if b"<" in content[:200] else content.decode(errors="replace")
    else:
        text = _words(data)
    text = " ".join(text.replace(secret, "…").split() if secret else text.split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _words(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    message = next((data[name] for name in ("message", "error_description", "error") if data.get(name)), "")
    details = data.get("errors")
    found = [message if isinstance(message, str) else _plain(message)]
    for one in details if isinstance(details, list) else ():
        words = one.get("message") or f"{one.get('field')}: {one.get('code')}" if isinstance(one, dict) else one
        if isinstance(words, str) and words not in found:
            found.append(words)
    return "; ".join(word for word in found if word)


def _plain(value: object) -> str:
    """GitLab gives lists of reasons by field."""
    return re.sub(r'[\[\]{}"]', "", orjson.dumps(value).decode())
