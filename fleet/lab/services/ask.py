"""A question to a service of the lab. Never through a proxy: it is on this machine."""

from __future__ import annotations

import http.client
import ssl
from base64 import b64encode
from urllib.parse import urlsplit

OK = 200


def answers(
    url: str, user: str = "", secret: str = "", timeout: float = 5, trust: ssl.SSLContext | None = None
) -> bool:
    """Tell whether it gives what it is asked for. With TLS, `trust` says whose certificates are taken."""
    place = urlsplit(url)
    login = b64encode(f"{user}:{secret}".encode()).decode()
    connection = (
        http.client.HTTPSConnection(place.netloc, timeout=timeout, context=trust)
        if place.scheme == "https"
        else http.client.HTTPConnection(place.netloc, timeout=timeout)
    )
    try:
        connection.request("GET", place.path, headers={"Authorization": f"Basic {login}"} if user else {})
        return connection.getresponse().status == OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
