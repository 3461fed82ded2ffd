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
from fleet.kit.names import LAYOUT, pod
from fleet.model.app import Connection

CLIENT, PEER, METRICS = 2379, 2380, 2381
MOUNT = "/var/lib/etcd"
MEMBER_FILES = "/etc/etcd/members"
KEPT_FILES = "/etc/fleet-members"  # in pods that others described: nothing of theirs is there
MOST = 7


def layout(app: Etcd) -> Layout | None:
    """As it was found; None for an app that fleet made."""
    found: Layout | None = app.__dict__.get(LAYOUT)
    return found


def laid_out(app: Etcd, layout: Layout | None) -> Etcd:
    """The app with the names that it was found with."""
    if layout is None:
        return app
    made = app.model_copy()
    made.__dict__[LAYOUT] = layout
    return made


def client_port(app: Etcd) -> int:
    found = layout(app)
    return found.port if found else CLIENT


def host(app: Etcd, pod: str) -> str:
    """The name that members and the operator know a member by; no part of it changes with a restart."""
    if found := layout(app):
        known = next((url for url in (found.client_url, found.peer_url) if "{pod}" in url), found.peer_url)
        return urlsplit(known.replace("{pod}", pod)).hostname or pod
    return names.host(app, pod)


def encrypted(app: Etcd) -> bool:
    """Whether every member serves clients with TLS now, whatever git says of later."""
    found = layout(app)
    return (found.tls or secured.is_offered(found)) if found else app.tls.enabled


def certified(app: Etcd) -> bool:
    """Whether its certificates are of a CA of its own, which the operator keeps."""
    found = layout(app)
    return (bool(found.secured) or (app.tls.enabled and not found.tls)) if found else app.tls.enabled


def scheme(app: Etcd) -> str:
    return "https" if encrypted(app) else "http"


def connection(app: Etcd) -> Connection:
    """As clients can have it now."""
    return replace(app.connection, scheme=scheme(app))


def peer_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.peer_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{PEER}"


def peer_urls(app: Etcd, pod: str) -> tuple[str, ...]:
    """All that a member is known by: two while peers change to TLS, since either may be the one that it listens on."""
    found, url = layout(app), peer_url(app, pod)
    changing = found is not None and found.secured == "closing" and secured.secures_peers(found)
    return secured.both(url) if changing else (url,)


def client_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.client_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{CLIENT}"


def pod_of_peer_url(app: Etcd, url: str) -> str | None:
    """The pod behind a peer URL; None when it is none of this app's."""
    found = layout(app)
    either = found is not None and bool(found.secured)  # as it was found, and with TLS
    for number in range(64):
        known = peer_url(app, pod(app, number))
        if url == known or (either and url in secured.both(known)):
            return pod(app, number)
    return None


def token(app: Etcd) -> str:
    return f"{app.namespace}-{app.name}"


def authority_secret(app: Etcd) -> str:
    return f"{app.name}-ca"


def server_secret(app: Etcd) -> str:
    return f"{app.name}-server"


def peer_secret(app: Etcd) -> str:
    return f"{app.name}-peer"


def connection_secret(app: Etcd) -> str:
    return f"{app.name}-connection"


def server_names(app: Etcd) -> tuple[str, ...]:
    """Under which a client may reach the client port: the Service, and every member that there can be."""
    if layout(app) is not None:
        return _found_names(app)
    service = f"{app.name}.{app.namespace}.svc"
    members = (host(app, pod(app, number)) for number in range(MOST))
    return (service, f"{service}.cluster.local", f"{app.name}.{app.namespace}", app.name, "localhost", *members)


def _found_names(app: Etcd) -> tuple[str, ...]:
    """Of what others named: its Services by every name that DNS has for them, members by the URL that they have."""
    headless = host(app, "{pod}").removeprefix("{pod}").removeprefix(".").partition(".")[0]
    given = (app.adoption.service if app.adoption else None) or app.name
    services = [one for name in dict.fromkeys((given, app.name, headless)) if name for one in _of_service(app, name)]
    members = [pod(app, number) for number in range(MOST)]
    known = [host(app, one) for one in members]
    by_service = [f"{one}.{name}" for one in members for name in _of_service(app, headless) if headless]
    return tuple(dict.fromkeys((*services, "localhost", *known, *by_service)))


def _of_service(app: Etcd, name: str) -> tuple[str, ...]:
    full = f"{name}.{app.namespace}.svc"
    return name, f"{name}.{app.namespace}", full, f"{full}.cluster.local"


def peer_names(app: Etcd) -> tuple[str, ...]:
    """Each member by name: etcd looks up the names in a peer's certificate and compares addresses."""
    if (found := layout(app)) is not None:
        urls = (found.peer_url.replace("{pod}", pod(app, number)) for number in range(MOST))
        return tuple(urlsplit(url).hostname or "" for url in urls)
    return tuple(host(app, pod(app, number)) for number in range(MOST))
