"""Signatures of requests to S3 (AWS Signature Version 4). Pure: what goes in decides what comes out."""

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
    """An access key and its secret."""

    access: str
    secret: str = field(repr=False)


def signed(
    method: str, url: str, key: Key, *, region: str, moment: datetime, body: bytes = b"", service: str = "s3"
) -> dict[str, str]:
    """The headers that make a request this key's. `url` is as it is sent; `moment` is in UTC."""
    place = urlsplit(url)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": place.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    canonical = canonical_request(method, place.path, place.query, headers, digest)
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
    """The request in the one form that both sides compute. The path of S3 is encoded once, and is so in a URL."""
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    asked = "&".join(f"{quote(name, UNRESERVED)}={quote(value, UNRESERVED)}" for name, value in pairs)
    lines = [f"{name}:{' '.join(value.split())}" for name, value in sorted(headers.items())]
    return "\n".join([method, path or "/", asked, *lines, "", ";".join(sorted(headers)), digest])
