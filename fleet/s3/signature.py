"""AWS Signature Version 4: what proves that a request is of whoever has a key. Pure.

It depends on nothing but the request, the key and the moment.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl, quote, urlsplit

UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Key:
    """An access key and its secret; with a session's token if it is a temporary one."""

    access: str
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)


def sign_request(
    method: str,
    url: str,
    key: Key,
    *,
    region: str,
    moment: datetime,
    body: bytes | memoryview = b"",
    service: str = "s3",
) -> dict[str, str]:
    """Return the headers that sign a request with a key. `url` is as it is sent; `moment` is in UTC."""
    parts = urlsplit(url)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    if key.session:
        headers["x-amz-security-token"] = key.session
    names = ";".join(sorted(headers))
    canonical = canonical_request(method, parts.path, parts.query, headers, digest)
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    derived = f"AWS4{key.secret}".encode()
    for part in (day, region, service, "aws4_request"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    signature = hmac.new(derived, text.encode(), "sha256").hexdigest()
    credential = f"Credential={key.access}/{scope}"
    return {
        **{name: value for name, value in headers.items() if name != "host"},
        "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}",
    }


def canonical_request(method: str, path: str, query: str, headers: Mapping[str, str], digest: str) -> str:
    """Return the one form of a request that both sides compute. The path is encoded once, as it is in a URL."""
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    arguments = "&".join(f"{quote(name, UNRESERVED)}={quote(value, UNRESERVED)}" for name, value in pairs)
    lines = [f"{name}:{' '.join(value.split())}" for name, value in sorted(headers.items())]
    return "\n".join([method, path or "/", arguments, *lines, "", ";".join(sorted(headers)), digest])
