"""Kubeconfigs of a cluster, and the few requests that the lab itself makes to an API server, over one connection.

There is a kubeconfig per program of a cluster, and one per lab with a context per cluster. A kubectl for each request
would take longer than all of them, and has the API server compute its OpenAPI documents first.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml

from fleet.errors import ResourceError
from fleet.lab.files import write_file


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The credentials with which one user reaches one cluster."""

    context: str
    server: str
    authority: Path
    certificate: Path
    key: Path


def save_kubeconfig(file: Path, accesses: list[ClusterAccess]) -> Path:
    """Write a kubeconfig with all data inside it, so that it can be copied; the first context is current."""
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    document["current-context"] = accesses[0].context if accesses else ""
    for access in accesses:
        cluster = {"server": access.server, "certificate-authority-data": _encode_file(access.authority)}
        user = {
            "client-certificate-data": _encode_file(access.certificate),
            "client-key-data": _encode_file(access.key),
        }
        context = {"cluster": access.context, "user": access.context}
        document["clusters"].append({"name": access.context, "cluster": cluster})
        document["users"].append({"name": access.context, "user": user})
        document["contexts"].append({"name": access.context, "context": context})
    text = yaml.safe_dump(document, sort_keys=False)
    if not file.exists() or file.read_text() != text:
        write_file(file, text, 0o600)
    return file


def _encode_file(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


TIMEOUT = 5  # seconds
# Answers from FAILED on are no success; of those below OVERLOADED, all but one would be the same if asked again.
FAILED, OVERLOADED, TOO_MANY = 400, 500, 429


class RequestRefusedError(ResourceError):
    """A request that the API server looked at and refused."""


class Api:
    """A cluster's API server, as the user of `access`. Methods raise ResourceError when a request fails."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        try:
            context = ssl.create_default_context(cafile=str(access.authority))
            context.load_cert_chain(access.certificate, access.key)
        except OSError as error:  # of a lab that is half made, or goes at this moment
            raise ResourceError(f"the certificates of {access.context} cannot be read: {error}") from error
        address = urlsplit(access.server)
        self._connection = http.client.HTTPSConnection(address.netloc, timeout=TIMEOUT, context=context)

    def get(self, path: str) -> dict[str, Any]:
        """Return the object or list at a path."""
        document: dict[str, Any] = orjson.loads(self._request("GET", path))
        return document

    def has(self, path: str) -> bool:
        """Return whether there is something at a path; false also when the API server does not answer."""
        try:
            self._request("GET", path)
        except ResourceError:
            return False
        return True

    def apply(self, manifest: dict[str, Any], *, manager: str = "fleet-lab") -> None:
        """Create an object, or make it as the manifest says, whichever field manager changed it."""
        path = f"{_object_path(manifest)}?fieldManager={manager}&force=true"
        self._request("PATCH", path, orjson.dumps(manifest), {"Content-Type": "application/apply-patch+yaml"})

    def delete(self, manifest: dict[str, Any]) -> None:
        """Begin to delete an object; it may be gone already."""
        with contextlib.suppress(RequestRefusedError):
            self._request("DELETE", _object_path(manifest))

    def _request(self, verb: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        is_reused = self._connection.sock is not None
        try:
            self._connection.request(verb, path, body, {"User-Agent": "fleet-lab", **(headers or {})})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next request opens it again
            # The server had closed a kept connection; all of these requests may be repeated.
            if is_reused and isinstance(error, ConnectionError):
                return self._request(verb, path, body, headers)
            raise ResourceError(f"{self._access.server} does not answer: {error}") from error
        if response.status >= FAILED:
            is_refused = response.status < OVERLOADED and response.status != TOO_MANY
            text = content.decode(errors="replace").strip()[:600]
            kind = RequestRefusedError if is_refused else ResourceError
            raise kind(f"{verb} {path} in {self._access.context}: {response.status} {text}")
        return content


def _object_path(manifest: dict[str, Any]) -> str:
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    kind = manifest["kind"].lower()
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{within}/{plural}/{metadata['name']}"
