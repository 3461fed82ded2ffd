"""The certificates of an etcd, in Secrets: two authorities, what the ports present, and what a client needs.

Leaves are made anew after two thirds of their life; etcd reads them again with each handshake, so nothing restarts.
"""

from __future__ import annotations

import datetime
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

from fleet.apps.etcd import names
from fleet.apps.etcd.manifests import metadata
from fleet.apps.etcd.spec import Etcd
from fleet.model.types.duration import seconds
from fleet_operator.core.certificates import Authority, Leaf, Pair
from fleet_operator.core.world import Object, World

Data = dict[str, bytes]


def secrets(app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
    """All of them, as they should be; what is good is left as it is."""
    if not app.tls.enabled:
        return [_secret(app, names.connection_secret(app), _connection(app, {}))]
    held = _held(world, names.authority_secret(app))
    clients = _authority(held, "ca", f"{app.namespace}/{app.name}", now)
    peers = _authority(held, "peer-ca", f"{app.namespace}/{app.name} peers", now)
    life = timedelta(seconds=seconds(app.tls.lifetime))
    server = Leaf(app.name, names.server_names(app), ("127.0.0.1", "::1"), server=True, client=True, lifetime=life)
    peer = Leaf(f"{app.name}-peer", names.peer_names(app), server=True, client=True, lifetime=life)
    client = Leaf("client", client=True, lifetime=life)
    authorities = {
        "ca.crt": clients.pem,
        "ca.key": clients.key_pem,
        "peer-ca.crt": peers.pem,
        "peer-ca.key": peers.key_pem,
    }
    connection = _leaf(world, names.connection_secret(app), clients, client, now)
    return [
        _secret(app, names.authority_secret(app), authorities),
        _secret(app, names.server_secret(app), _leaf(world, names.server_secret(app), clients, server, now)),
        _secret(app, names.peer_secret(app), _leaf(world, names.peer_secret(app), peers, peer, now)),
        _secret(app, names.connection_secret(app), _connection(app, connection)),
    ]


def authority(app: Etcd, world: World) -> Authority | None:
    """That signs clients, if it has been made."""
    held = _held(world, names.authority_secret(app))
    return Authority.read(held["ca.crt"], held["ca.key"]) if "ca.key" in held else None


def _authority(held: Data, name: str, common_name: str, now: datetime.datetime) -> Authority:
    if f"{name}.key" in held:
        return Authority.read(held[f"{name}.crt"], held[f"{name}.key"])
    return Authority.new(common_name, now=now)


def _leaf(world: World, secret: str, signer: Authority, leaf: Leaf, now: datetime.datetime) -> Data:
    held = _held(world, secret)
    pair = Pair(held.get("tls.crt", b""), held.get("tls.key", b""))
    if signer.due(pair, leaf, now):
        pair = signer.issue(leaf, now=now)
    return {"ca.crt": signer.pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}


def _connection(app: Etcd, certificates: Data) -> Data:
    connection = app.connection
    members = ",".join(names.client_url(app, names.pod(app, number)) for number in range(app.members))
    plain = {"host": connection.host, "port": str(connection.port), "url": connection.url, "endpoints": members}
    return {**{name: value.encode() for name, value in plain.items()}, **certificates}


def _held(world: World, name: str) -> Data:
    found = world.get("Secret", name)
    return {key: b64decode(value) for key, value in (found or {}).get("data", {}).items()}


def _secret(app: Etcd, name: str, data: Data) -> Object:
    encoded: dict[str, Any] = {key: b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(app, name), "type": "Opaque", "data": encoded}
