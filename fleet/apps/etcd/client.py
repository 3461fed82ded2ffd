"""etcdctl, beside a member. The member's own certificate is good for clients too."""

from __future__ import annotations

from fleet.apps.client import Client
from fleet.apps.etcd import names
from fleet.apps.etcd.spec import Etcd

_FILES = "/etc/etcd/server"


def client(app: Etcd) -> Client:
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
