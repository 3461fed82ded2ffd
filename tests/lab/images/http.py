"""HTTP APIs of engines: JSON there and back."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any


def ask(url: str, body: Any = None, *, method: str | None = None, user: str = "") -> Any:
    """Ask with GET, or with POST if there is a body; the answer as data. An error of the server is raised."""
    headers = {"Content-Type": "application/json"}
    if user:
        headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read() or b"null")
