"""What an etcd does with certificates.

Members read their own again with each handshake, so nothing restarts for a new one; whom they trust they read when they
start. Clients are let in with a certificate alone.
"""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.spec import Etcd
from fleet.kit.credentials.tls import CLIENTS, PEERS, DeclaredCertificate, Tls

SERVER: DeclaredCertificate[Etcd] = DeclaredCertificate(
    "server", CLIENTS, lambda app: app.name, names.server_names, ("127.0.0.1", "::1"), client=True
)
PEER: DeclaredCertificate[Etcd] = DeclaredCertificate(
    "peer", PEERS, lambda app: f"{app.name}-peer", names.peer_names, client=True
)
DECLARED: Tls[Etcd] = Tls(
    certificates=(SERVER, PEER),
    authorities=(CLIENTS, PEERS),
    client="required",
    reads="handshake",
    reads_authorities="start",
)
