"""How members that others set up are reached: where they listen, by which URLs they are known, and with which files a
client is let in. Pure.

{pod} stands for a pod's name, and {ip} for its address, as `fleet.kit.adoption.workload` leaves them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fleet.kit.adoption.encryption import LOOPBACK
from fleet.kit.adoption.workload import File, Process, file_of
from fleet.kit.driver import Problem

Object = dict[str, Any]
EVERYWHERE = "0.0.0.0"  # noqa: S104 - read, not bound


def split_address(url: str) -> tuple[str, int]:
    """Return the host and port of a URL; "" and 0 of what is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0
    return host, port


def check_urls(settings: Mapping[str, Any], names: tuple[str, ...]) -> Problem | None:
    """Say that one of the settings of this name is no list of URLs with a host and a port."""
    for name in names:
        for url in filter(None, str(settings.get(name, "")).split(",")):
            if not all(split_address(url)):
                return Problem(name, f"{url} is no URL")
    return None


def listen_alike(urls: str) -> str:
    """Return listeners at the same addresses for every pod. Who listens everywhere on a port cannot listen on it once
    more."""
    alike = [_open_to_all(url) for url in urls.split(",")]
    wide = {port for host, port in map(split_address, alike) if host == EVERYWHERE}
    kept = [url for url in alike if split_address(url)[0] == EVERYWHERE or split_address(url)[1] not in wide]
    return ",".join(dict.fromkeys(kept))


def find_listener(urls: str, usual: int) -> tuple[str, int] | None:
    """Return the scheme and port by which clients from elsewhere are let in; `usual` is the port of a URL without."""
    for url in _split(urls):
        parts = urlsplit(_open_to_all(url))
        if parts.hostname not in LOOPBACK and parts.scheme in ("http", "https"):
            return parts.scheme, parts.port or usual
    return None


def find_advertised(urls: str) -> str:
    """Return the first URL that a member is known by, if it is by its pod's name and nothing else is left open."""
    for url in _split(urls):
        if "{pod}" in url and "$" not in url and url.count("{") == 1:
            return url
    return ""


def host_by_service(found: Object) -> str:
    """Return the name that DNS has for the members of a StatefulSet, by its headless Service."""
    own = found["metadata"]
    return f"{{pod}}.{found['spec'].get('serviceName') or own['name']}.{own['namespace']}.svc"


def find_certificates(
    found: Object, process: Process, paths: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[File, str]] | Problem:
    """Return the files with which a client is let in, each with its path: they must come from Secrets.

    `paths` are a setting and its path, by what the file is: "ca", "cert", "key".
    """
    files = {}
    for name, (setting, path) in paths.items():
        held = file_of(found["spec"]["template"], process.container, path, frozenset()) if path else None
        if held is None or held.kind != "Secret":
            why = "certificates must come from a Secret to be used by the operator"
            return Problem(setting, f"{path or 'not given'}: {why}")
        files[name] = (held, path)
    return files


def _split(urls: str) -> list[str]:
    return [url.strip() for url in urls.split(",") if url.strip()]


def _open_to_all(url: str) -> str:
    return re.sub(r"//(\{(pod|ip)\}[^:/]*)", f"//{EVERYWHERE}", url.strip())
