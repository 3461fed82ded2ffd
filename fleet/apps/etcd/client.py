"""etcdctl, beside a member. The member's own certificate is good for clients too."""

from __future__ import annotations

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.files import CERTIFICATES
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.programs import Client

_FILES_OF_CLIENTS = {
    f"ETCDCTL_{name}": f"{{directory}}/{file}"
    for name, file in (("CACERT", "ca.crt"), ("CERT", "tls.crt"), ("KEY", "tls.key"))
}


def client(app: Etcd) -> Client:
    if (kept := names.layout(app)) is not None:
        return _as_found(app, kept)
    endpoint = f"--endpoints={names.scheme(app)}://127.0.0.1:{names.CLIENT}"
    environment = {"ETCDCTL_ENDPOINTS": app.connection.url}
    if not app.tls.enabled:
        return Client("etcd", ("etcdctl", endpoint), environment)
    command = ("etcdctl", endpoint, *certificate_flags(CERTIFICATES["server"]))
    return Client("etcd", command, {**environment, **_FILES_OF_CLIENTS})


def etcdctl(kept: Layout) -> tuple[str, ...]:
    """Return etcdctl in the container of others: it ends at once where a variable says what a flag says, too."""
    hidden = [word for name in kept.shadows for word in ("-u", name)]
    return ("env", *hidden, "etcdctl") if hidden else ("etcdctl",)


def endpoint_of(kept: Layout) -> str:
    """Return where a member is reached beside it: a certificate of others may know it by its name only."""
    beside = f"{'https' if kept.tls or secured.is_offered(kept) else 'http'}://127.0.0.1:{kept.port}"
    return kept.client_url if "{pod}" in kept.client_url else beside


def certificate_flags(folder: str) -> tuple[str, ...]:
    """Return the flags with the files of a Secret of fleet's own."""
    return f"--cacert={folder}/ca.crt", f"--cert={folder}/tls.crt", f"--key={folder}/tls.key"


def flags_as_found(kept: Layout) -> tuple[str, ...]:
    """Return the flags with the files that others gave its members."""
    flags = {"ca": "--cacert", "cert": "--cert", "key": "--key"}
    return tuple(f"{flags[name]}={path}" for name, path in kept.paths.items())


def _as_found(app: Etcd, kept: Layout) -> Client:
    """Return etcdctl with the names and files of others."""
    plain = {"ETCDCTL_ENDPOINTS": names.connection(app).url}
    files = _FILES_OF_CLIENTS if names.encrypted(app) else {}
    command = (*etcdctl(kept), f"--endpoints={endpoint_of(kept)}", *flags_as_found(kept))
    return Client(kept.container, command, {**plain, **files})
