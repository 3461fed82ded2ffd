"""TLS for members that others set up without it: what each stage of it changes in their settings and pods. Pure.

The stages are those of `fleet.kit.adoption.tls_stages`. Peers keep their port. A second one would have to be let
through by whatever guards the first, and nobody would notice that it is not: a member that cannot be dialled is in step
as long as it can dial the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fleet.kit.adoption.encryption import (
    FOLDERS,
    find_plain_port,
    free_port,
    mount_certificates,
    move_probes,
    open_host,
    with_tls,
    without_tls,
)
from fleet.model.types import release

if TYPE_CHECKING:
    from fleet.apps.etcd.layout import Layout

Manifest = dict[str, Any]
_METRICS = 2381
# Releases before these may hand clients without TLS to the server for TLS when both are on one port, for as long as
# the member runs (etcd-io/etcd#15495). The patch of each series from which on they do not.
_SERVES_BOTH = {(3, 4): 25, (3, 5): 8}


def serves_both(version: str) -> bool:
    found = release(version)
    return (found.patch or 0) >= _SERVES_BOTH.get(found.series, 0)


def is_offered(kept: Layout) -> bool:
    """Tell whether every member serves clients with TLS."""
    return kept.secured in ("open", "closing", "closed")


def is_alone(kept: Layout) -> bool:
    """Tell whether what is plain goes, or is gone."""
    return kept.secured in ("closing", "closed")


def secures_peers(kept: Layout) -> bool:
    """Tell whether peers were found without TLS, too: those that have certificates keep them."""
    return "https://" not in str(kept.config.get("listen-peer-urls", ""))


def settings(kept: Layout) -> Manifest:
    """Return what takes the place of settings as they were found."""
    if not kept.secured:
        return {}
    clients = str(kept.config["listen-client-urls"])
    listens = [*(() if is_alone(kept) else clients.split(",")), *with_tls(clients).split(",")]
    changed: Manifest = {
        "listen-client-urls": ",".join(dict.fromkeys(listens)),
        "client-transport-security": _files("server"),
    }
    if secures_peers(kept):
        changed["peer-transport-security"] = _files("peer")
        if is_alone(kept):
            changed["listen-peer-urls"] = with_tls(str(kept.config["listen-peer-urls"]))
    if is_alone(kept) and _found_metrics(kept) is None:
        others = [str(kept.config["listen-metrics-urls"])] if kept.config.get("listen-metrics-urls") else []
        changed["listen-metrics-urls"] = ",".join([*others, f"http://{open_host(clients)}:{kept.metrics}"])
    return changed


def advertised(kept: Layout, url: str, listens: str) -> str:
    """Return the URL that clients are told, by the listeners of the very same file: plain for as long as that is
    served."""
    if not kept.secured:
        return url
    return without_tls(url) if "http://" in listens else with_tls(url)


def opened(kept: Layout) -> Layout:
    """Return the layout with which clients are told of TLS, and find the files for it beside each member."""
    folder = FOLDERS["server"]
    paths = {"ca": f"{folder}/ca.crt", "cert": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    return replace(kept, secured="open", client_url=with_tls(kept.client_url), paths=paths)


def closing(kept: Layout, template: Manifest) -> Layout:
    return replace(kept, secured="closing", metrics=_found_metrics(kept) or _free_port(kept, template))


def closed(kept: Layout) -> Layout:
    peers = with_tls(kept.peer_url) if secures_peers(kept) else kept.peer_url
    return replace(kept, secured="closed", peer_url=peers)


def equip(spec: Manifest, container: Manifest, kept: Layout, secrets: dict[str, str]) -> None:
    """Give a pod what the stage needs, and take away what it does not. Each may be there already."""
    mount_certificates(spec, container, secrets if kept.secured else {})
    if is_alone(kept):
        clients = {urlsplit(url).port for url in str(kept.config["listen-client-urls"]).split(",")}
        move_probes(container, clients, path="/health", port=kept.metrics)


def _found_metrics(kept: Layout) -> int | None:
    """Return a port that others made for the purpose."""
    return find_plain_port(str(kept.config.get("listen-metrics-urls", "")))


def _free_port(kept: Layout, template: Manifest) -> int:
    listens = [str(value) for name, value in kept.config.items() if name.startswith("listen-")]
    urls = [url for text in listens for url in text.split(",")]
    return free_port(_METRICS, template, (kept.peer_url, kept.client_url, *urls))


def _files(what: str) -> Manifest:
    folder = FOLDERS[what]
    return {
        "cert-file": f"{folder}/tls.crt",
        "key-file": f"{folder}/tls.key",
        "trusted-ca-file": f"{folder}/ca.crt",
        "client-cert-auth": True,
    }
