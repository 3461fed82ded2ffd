"""One HTTP request and its response, to a service on this machine: no proxy, no redirects, no retries."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from fleet.errors import ResourceError


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response of the service; `headers` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


def exchange(
    method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b"", timeout: float = 60
) -> HttpAnswer:
    """Send a request, and return the response; raise ResourceError if there is none."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=timeout)  # with TLS, what SSL_CERT_FILE says is trusted
    try:
        connection.request(method, target, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, received, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise ResourceError(f"{method} {url}: {error or type(error).__name__}") from error
    finally:
        connection.close()
