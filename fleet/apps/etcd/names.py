"""What the parts of an etcd are called, and where its members are reached. The same for ever: data hangs on it.

An etcd that others set up keeps the names that it was found with: its `Layout` is asked first.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fleet.apps.etcd.layout import ATTRIBUTE, Layout
from fleet.apps.etcd.spec import Etcd

CLIENT, PEER, METRICS = 2379, 2380, 2381
DATA = "data"  # the claim template, and the directory on the volume
MOUNT = "/var/lib/etcd"
MEMBER_FILES = "/etc/etcd/members"
KEPT_FILES = "/etc/fleet-members"  # in pods that others described: nothing of theirs is there
MOST = 7


def layout(app: Etcd) -> Layout | None:
    """As it was found; None for an app that fleet made."""
    found: Layout | None = app.__dict__.get(ATTRIBUTE)
    return found


def laid_out(app: Etcd, layout: Layout | None) -> Etcd:
    """The app with the names that it was found with."""
    if layout is None:
        return app
    made = app.model_copy()
    made.__dict__[ATTRIBUTE] = layout
    return made


def stateful_set(app: Etcd) -> str:
    found = layout(app)
    return found.stateful_set if found else app.name


def pod(app: Etcd, ordinal: int) -> str:
    return f"{stateful_set(app)}-{ordinal}"


def ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def claim(app: Etcd, pod: str) -> str:
    found = layout(app)
    return f"{found.claim if found else DATA}-{pod}"


def client_port(app: Etcd) -> int:
    found = layout(app)
    return found.port if found else CLIENT


def peers_service(app: Etcd) -> str:
    return f"{app.name}-peers"


def host(app: Etcd, pod: str) -> str:
    """The name that members and the operator know a member by; no part of it changes with a restart."""
    if found := layout(app):
        known = next((url for url in (found.client_url, found.peer_url) if "{pod}" in url), found.peer_url)
        return urlsplit(known.replace("{pod}", pod)).hostname or pod
    return f"{pod}.{peers_service(app)}.{app.namespace}.svc"


def scheme(app: Etcd) -> str:
    return "https" if app.tls.enabled else "http"


def peer_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.peer_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{PEER}"


def client_url(app: Etcd, pod: str) -> str:
    if found := layout(app):
        return found.client_url.replace("{pod}", pod)
    return f"{scheme(app)}://{host(app, pod)}:{CLIENT}"


def pod_of_peer_url(app: Etcd, url: str) -> str | None:
    """The pod behind a peer URL; None when it is none of this app's."""
    for number in range(64):
        if peer_url(app, pod(app, number)) == url:
            return pod(app, number)
    return None


def token(app: Etcd) -> str:
    return f"{app.namespace}-{app.name}"


def members_map(app: Etcd) -> str:
    return f"{app.name}-members"


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
    service = f"{app.name}.{app.namespace}.svc"
    members = (host(app, pod(app, number)) for number in range(MOST))
    return (service, f"{service}.cluster.local", f"{app.name}.{app.namespace}", app.name, "localhost", *members)


def peer_names(app: Etcd) -> tuple[str, ...]:
    """Each member by name: etcd looks up the names in a peer's certificate and compares addresses."""
    return tuple(host(app, pod(app, number)) for number in range(MOST))


def labels(app: Etcd) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "etcd",
        "app.kubernetes.io/instance": app.name,
        "app.kubernetes.io/managed-by": "fleet-operator",
        "fleet.dev/app": app.name,
        "fleet.dev/kind": "Etcd",
    }


def selector(app: Etcd) -> dict[str, str]:
    return {"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": app.name}
