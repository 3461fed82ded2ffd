"""TLS for members that others set up without it: what each stage of it changes in their settings and pods. Pure.

Nobody is cut off on the way, and every stage may last for ever:

    opening   members get certificates one after the other, and serve clients with and without TLS on the same port
    open      all of them do: the operator, backups and whoever reads the connection Secret use TLS
    closing   the next roll: what is plain goes. A member is known by both of its peer URLs meanwhile, so that whoever
              dials it finds the one that it listens on
    closed    TLS alone

Peers keep their port. A second one would have to be let through by whatever guards the first, and nobody would notice
that it is not: a member that cannot be dialled is in step as long as it can dial the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fleet.model.types import release

if TYPE_CHECKING:
    from fleet.apps.etcd.layout import Layout

Manifest = dict[str, Any]
FOLDERS = {"server": "/etc/fleet-server", "peer": "/etc/fleet-peer"}  # nothing of others' is there
PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_HANDLERS = ("exec", "grpc", "httpGet")
_METRICS = 2381
_INSIDE = frozenset({"127.0.0.1", "localhost", "::1"})
# Releases before these may hand clients without TLS to the server for TLS when both are on one port, for as long as
# the member runs (etcd-io/etcd#15495). The patch of each series from which on they do not.
_SERVES_BOTH = {(3, 4): 25, (3, 5): 8}


def serves_both(version: str) -> bool:
    found = release(version)
    return (found.patch or 0) >= _SERVES_BOTH.get(found.series, 0)


def is_offered(kept: Layout) -> bool:
    """Every member serves clients with TLS."""
    return kept.secured in ("open", "closing", "closed")


def is_alone(kept: Layout) -> bool:
    """What is plain goes, or is gone."""
    return kept.secured in ("closing", "closed")


def secures_peers(kept: Layout) -> bool:
    """Whether peers were found without TLS, too: those that have certificates keep them."""
    return "https://" not in str(kept.config.get("listen-peer-urls", ""))


def both(url: str) -> tuple[str, str]:
    return _plain(url), _with_tls(url)


def settings(kept: Layout) -> Manifest:
    """What takes the place of settings as they were found."""
    if not kept.secured:
        return {}
    found = str(kept.config["listen-client-urls"]).split(",")
    listens = [*(() if is_alone(kept) else found), *map(_with_tls, found)]
    made: Manifest = {
        "listen-client-urls": ",".join(dict.fromkeys(listens)),
        "client-transport-security": _files("server"),
    }
    if secures_peers(kept):
        made["peer-transport-security"] = _files("peer")
        if is_alone(kept):
            made["listen-peer-urls"] = _with_tls(str(kept.config["listen-peer-urls"]))
    if is_alone(kept) and _found_metrics(kept) is None:
        others = [str(kept.config["listen-metrics-urls"])] if kept.config.get("listen-metrics-urls") else []
        made["listen-metrics-urls"] = ",".join([*others, f"http://{_open_host(kept)}:{kept.metrics}"])
    return made


def advertised(kept: Layout, url: str, listens: str) -> str:
    """The URL that clients are told, by the listeners of the very same file: plain for as long as that is served."""
    if not kept.secured:
        return url
    return _plain(url) if "http://" in listens else _with_tls(url)


def opened(kept: Layout) -> Layout:
    """Clients are told of TLS, and find the files for it beside each member."""
    folder = FOLDERS["server"]
    paths = {"ca": f"{folder}/ca.crt", "cert": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    return replace(kept, secured="open", client_url=_with_tls(kept.client_url), paths=paths)


def closing(kept: Layout, template: Manifest) -> Layout:
    return replace(kept, secured="closing", metrics=_found_metrics(kept) or _free_port(kept, template))


def closed(kept: Layout) -> Layout:
    peers = _with_tls(kept.peer_url) if secures_peers(kept) else kept.peer_url
    return replace(kept, secured="closed", peer_url=peers)


def equip(spec: Manifest, container: Manifest, kept: Layout, secrets: dict[str, str]) -> None:
    """Give a pod what the stage needs, and take away what it does not. Each may be there already."""
    wanted = secrets if kept.secured else {}
    ours = {f"fleet-{what}" for what in FOLDERS}
    volumes = [
        # For everybody in the container: which user etcd runs as is others' to say, and it may be in no group of ours.
        {"name": f"fleet-{what}", "secret": {"secretName": secret, "defaultMode": 0o444}}
        for what, secret in wanted.items()
    ]
    mounts = [{"name": f"fleet-{what}", "mountPath": FOLDERS[what], "readOnly": True} for what in wanted]
    spec["volumes"] = [*(one for one in spec.get("volumes") or () if one["name"] not in ours), *volumes]
    container["volumeMounts"] = [*(one for one in container["volumeMounts"] if one["name"] not in ours), *mounts]
    if is_alone(kept):
        for name in PROBES:
            if (probe := container.get(name)) is not None:
                container[name] = _without_tls(probe, container, kept)


def _without_tls(probe: Manifest, container: Manifest, kept: Layout) -> Manifest:
    """A probe speaks plainly, to the port for metrics from now on. What a command asks nobody knows: it is replaced."""
    asked = probe.get("httpGet") or {}
    if "tcpSocket" in probe or (asked and _number(asked.get("port"), container) not in _client_ports(kept)):
        return probe
    rest = {name: value for name, value in probe.items() if name not in _HANDLERS}
    return {**rest, "httpGet": {"path": asked.get("path", "/health"), "port": kept.metrics, "scheme": "HTTP"}}


def _number(port: Any, container: Manifest) -> int | None:
    if isinstance(port, int) or str(port).isdecimal():
        return int(port)
    named = (one["containerPort"] for one in container.get("ports") or () if one.get("name") == port)
    return next(named, None)


def _client_ports(kept: Layout) -> set[int | None]:
    return {urlsplit(url).port for url in str(kept.config["listen-client-urls"]).split(",")}


def _found_metrics(kept: Layout) -> int | None:
    """A port that others made for the purpose, and that is open to the kubelet."""
    for url in str(kept.config.get("listen-metrics-urls", "")).split(","):
        parts = urlsplit(url.strip())
        if parts.scheme == "http" and parts.hostname not in _INSIDE:
            return parts.port
    return None


def _open_host(kept: Layout) -> str:
    """Where clients from outside of the pod are let in, and so is the kubelet."""
    hosts = (urlsplit(url).hostname or "" for url in str(kept.config["listen-client-urls"]).split(","))
    found = next(host for host in hosts if host not in _INSIDE)
    return f"[{found}]" if ":" in found else found


def _free_port(kept: Layout, template: Manifest) -> int:
    """The first that nothing in the pod names."""
    taken = set(_ports_in(kept, template))
    return next(port for port in range(_METRICS, 65536) if port not in taken)


def _ports_in(kept: Layout, template: Manifest) -> Iterator[int]:
    listens = (str(value) for name, value in kept.config.items() if name.startswith("listen-"))
    for url in (kept.peer_url, kept.client_url, *(one for text in listens for one in text.split(","))):
        if (port := urlsplit(url.replace("{pod}", "pod").strip()).port) is not None:
            yield port
    for container in (*template["spec"]["containers"], *(template["spec"].get("initContainers") or ())):
        yield from (int(one["containerPort"]) for one in container.get("ports") or ())
        for name in PROBES:
            for handler in (container.get(name) or {}).values():
                port = handler.get("port") if isinstance(handler, dict) else None
                if (number := _number(port, container)) is not None:
                    yield number


def _files(what: str) -> Manifest:
    folder = FOLDERS[what]
    return {
        "cert-file": f"{folder}/tls.crt",
        "key-file": f"{folder}/tls.key",
        "trusted-ca-file": f"{folder}/ca.crt",
        "client-cert-auth": True,
    }


def _with_tls(urls: str) -> str:
    return re.sub(r"\bhttp://", "https://", urls)


def _plain(urls: str) -> str:
    return urls.replace("https://", "http://")
