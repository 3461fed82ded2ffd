"""Where members of an etcd are reached, and which names their certificates have. The same for ever: data hangs on it.

An etcd that others set up keeps the names that it was found with: its `Layout` is asked first.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from fleet.apps.etcd import secured
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names
from fleet.kit.adoption.encryption import both_ways
from fleet.kit.credentials.server_names import list_adopted_names, list_server_names
from fleet.kit.names import LAYOUT, pod
from fleet.model.app import Connection
from fleet.model.network_settings import network_of

CLIENT, PEER, METRICS = 2379, 2380, 2381
MOUNT = "/var/lib/etcd"
MEMBER_FILES = "/etc/etcd/members"
MOST = 7


def layout(app: Etcd) -> Layout | None:
    """Return the layout as it was found; None for an app that fleet made."""
    found: Layout | None = app.__dict__.get(LAYOUT)
    return found


def client_port(app: Etcd) -> int:
    found = layout(app)
    return found.port if found else CLIENT


def host(app: Etcd, pod: str) -> str:
    """Return the name that members and the operator know a member by; no part of it changes with a restart."""
    if found := layout(app):
        known = next((url for url in (found.client_url, found.peer_url) if "{pod}" in url), found.peer_url)
        return urlsplit(known.replace("{pod}", pod)).hostname or pod
    return names.host(app, pod)


def encrypted(app: Etcd) -> bool:
    """Tell whether every member serves clients with TLS now, whatever git says of later."""
    found = layout(app)
    return (found.tls or secured.is_offered(found)) if found else app.tls.enabled


def certified(app: Etcd) -> bool:
    """Tell whether its certificates are of a CA of its own, which the operator keeps."""
    found = layout(app)
    return (bool(found.secured) or (app.tls.enabled and not found.tls)) if found else app.tls.enabled


def scheme(app: Etcd) -> str:
    return "https" if encrypted(app) else "http"


def connection(app: Etcd) -> Connection:
    """Return the connection as clients can have it now."""
    return replace(app.connection, scheme=scheme(app))


def any_address(app: Etcd) -> str:
    """Return the address on which members listen to all that come: of IPv6 as well, where there may be any."""
    return "[::]" if network_of(app).has_ipv6 else "0.0.0.0"  # noqa: S104 - pods have a network of their own


def peer_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.peer_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{PEER}"


def peer_urls(app: Etcd, pod: str) -> tuple[str, ...]:
    """Return all that a member is known by: two while peers change to TLS, since either may be the one that it listens
    on."""
    found, url = layout(app), peer_url(app, pod)
    changing = found is not None and found.secured == "closing" and secured.secures_peers(found)
    return both_ways(url) if changing else (url,)


def client_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.client_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{CLIENT}"


def pod_of_peer_url(app: Etcd, url: str) -> str | None:
    """Return the pod behind a peer URL; None when it is none of this app's."""
    found = layout(app)
    either = found is not None and bool(found.secured)  # as it was found, and with TLS
    for number in range(64):
        known = peer_url(app, pod(app, number))
        if url == known or (either and url in both_ways(known)):
            return pod(app, number)
    return None


def token(app: Etcd) -> str:
    return f"{app.namespace}-{app.name}"


def server_names(app: Etcd) -> tuple[str, ...]:
    """Return the names under which a client may reach the client port: the Service, and every member there can be."""
    members = [pod(app, number) for number in range(MOST)]
    hosts = [host(app, member) for member in members]
    if layout(app) is None:
        return list_server_names(app, hosts)
    headless = host(app, "{pod}").removeprefix("{pod}").removeprefix(".").partition(".")[0]
    return list_adopted_names(app, hosts, members, headless)


def peer_names(app: Etcd) -> tuple[str, ...]:
    """Return each member by name: etcd looks up the names in a peer's certificate and compares addresses."""
    if (found := layout(app)) is not None:
        urls = (found.peer_url.replace("{pod}", pod(app, number)) for number in range(MOST))
        return tuple(urlsplit(url).hostname or "" for url in urls)
    return tuple(host(app, pod(app, number)) for number in range(MOST))
