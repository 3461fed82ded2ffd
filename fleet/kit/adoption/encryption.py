"""TLS for members that others set up without it: what it changes in a pod, whatever the engine. Pure.

Certificates of the app's own come from Secrets, beside what is there. Once what is plain is gone, probes speak plainly
to a port of their own, since a kubelet has no certificate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

Manifest = dict[str, Any]
Stage = Literal["", "opening", "open", "closing", "closed"]  # see `tls_stages`
FOLDERS = {"server": "/etc/fleet-server", "peer": "/etc/fleet-peer"}  # nothing of others' is there
PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_HANDLERS = ("exec", "grpc", "httpGet")


def with_tls(urls: str) -> str:
    return re.sub(r"\bhttp://", "https://", urls)


def without_tls(urls: str) -> str:
    return urls.replace("https://", "http://")


def both_ways(url: str) -> tuple[str, str]:
    """Return a URL without TLS and with it: a member may be known by either while it changes."""
    return without_tls(url), with_tls(url)


def mount_certificates(spec: Manifest, container: Manifest, secrets: Mapping[str, str]) -> None:
    """Give a pod's container the Secrets with certificates, by purpose, and take away what it does not need any more.

    Each may be there already.
    """
    ours = {f"fleet-{purpose}" for purpose in FOLDERS}
    volumes = [
        # For everybody in the container: which user it runs as is others' to say, and it may be in no group of ours.
        {"name": f"fleet-{purpose}", "secret": {"secretName": secret, "defaultMode": 0o444}}
        for purpose, secret in secrets.items()
    ]
    mounts = [{"name": f"fleet-{purpose}", "mountPath": FOLDERS[purpose], "readOnly": True} for purpose in secrets]
    spec["volumes"] = [*(entry for entry in spec.get("volumes") or () if entry["name"] not in ours), *volumes]
    container["volumeMounts"] = [*(mount for mount in container["volumeMounts"] if mount["name"] not in ours), *mounts]


def move_probes(container: Manifest, ports: Collection[int | None], *, path: str, port: int) -> None:
    """Have probes of the ports for clients, and those that are commands, ask `port` without TLS from now on.

    What a command asks nobody knows: it is replaced, with `path` for what has none.
    """
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        asked = probe.get("httpGet") or {}
        if "tcpSocket" in probe or (asked and port_number(asked.get("port"), container) not in ports):
            continue
        rest = {key: value for key, value in probe.items() if key not in _HANDLERS}
        container[name] = {**rest, "httpGet": {"path": asked.get("path", path), "port": port, "scheme": "HTTP"}}


def port_number(port: Any, container: Manifest) -> int | None:
    """Return the number of a port that may be named."""
    if isinstance(port, int) or str(port).isdecimal():
        return int(port)
    named = (entry["containerPort"] for entry in container.get("ports") or () if entry.get("name") == port)
    return next(named, None)


def find_plain_port(urls: str) -> int | None:
    """Return the port of the first URL without TLS that is open to the kubelet; None if there is none."""
    for url in urls.split(","):
        parts = urlsplit(url.strip())
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            return parts.port
    return None


def open_host(urls: str) -> str:
    """Return where clients from outside of the pod are let in, and so is the kubelet: as a URL has it."""
    hosts = (urlsplit(url).hostname or "" for url in urls.split(","))
    host = next(host for host in hosts if host not in LOOPBACK)
    return f"[{host}]" if ":" in host else host


def free_port(first: int, template: Manifest, urls: Iterable[str]) -> int:
    """Return the first port from `first` on that nothing in a pod names, nor any of its URLs."""
    taken = {*_ports_in(template)}
    taken |= {port for url in urls if (port := urlsplit(url.replace("{pod}", "pod").strip()).port) is not None}
    return next(port for port in range(first, 65536) if port not in taken)


def _ports_in(template: Manifest) -> Iterator[int]:
    for container in (*template["spec"]["containers"], *(template["spec"].get("initContainers") or ())):
        yield from (int(entry["containerPort"]) for entry in container.get("ports") or ())
        for name in PROBES:
            for handler in (container.get(name) or {}).values():
                port = handler.get("port") if isinstance(handler, dict) else None
                if (number := port_number(port, container)) is not None:
                    yield number
