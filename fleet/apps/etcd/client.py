"""etcdctl, beside a member. The member's own certificate is good for clients too."""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.client import Client

_FILES = "/etc/etcd/server"


def client(app: Etcd) -> Client:
    if (kept := names.layout(app)) is not None:
        return _as_found(app, kept)
    endpoint = f"--endpoints={names.scheme(app)}://127.0.0.1:{names.CLIENT}"
    environment = {"ETCDCTL_ENDPOINTS": app.connection.url}
    if not app.tls.enabled:
        return Client("etcd", ("etcdctl", endpoint), environment)
    certificates = (f"--cacert={_FILES}/ca.crt", f"--cert={_FILES}/tls.crt", f"--key={_FILES}/tls.key")
    files = {"ETCDCTL_CACERT": "ca.crt", "ETCDCTL_CERT": "tls.crt", "ETCDCTL_KEY": "tls.key"}
    return Client(
        "etcd",
        ("etcdctl", endpoint, *certificates),
        {**environment, **{name: f"{{directory}}/{file}" for name, file in files.items()}},
    )


def etcdctl(kept: Layout) -> tuple[str, ...]:
    """In the container of others: it ends at once where a variable says what a flag says, too."""
    hidden = [word for name in kept.shadows for word in ("-u", name)]
    return ("env", *hidden, "etcdctl") if hidden else ("etcdctl",)


def _as_found(app: Etcd, kept: Layout) -> Client:
    """With the names and files of others: a certificate of theirs may know a member by its name only."""
    flags = {"ca": "--cacert", "cert": "--cert", "key": "--key"}
    certificates = tuple(f"{flags[name]}={path}" for name, path in kept.paths.items())
    here = kept.client_url if "{pod}" in kept.client_url else f"{names.scheme(app)}://127.0.0.1:{kept.port}"
    plain = {"ETCDCTL_ENDPOINTS": names.connection(app).url}
    given = {"ETCDCTL_CACERT": "ca.crt", "ETCDCTL_CERT": "tls.crt", "ETCDCTL_KEY": "tls.key"}
    files = given if names.encrypted(app) else {}
    environment = {**plain, **{name: f"{{directory}}/{file}" for name, file in files.items()}}
    return Client(kept.container, (*etcdctl(kept), f"--endpoints={here}", *certificates), environment)
