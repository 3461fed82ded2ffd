"""The certificates of an etcd, in Secrets: what the ports present, and what a client needs. Leaves are made anew after
two thirds of their life; etcd reads them again with each handshake, so nothing restarts. CAs are in `authorities`.

A CA is never made anew beside members that trust another. One whose key is gone is replaced as by a word in git, and
the certificates that it signed stay until then. Where these are gone too, a person must say that all may restart.
"""

from __future__ import annotations

import datetime
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.authorities import CLIENTS, PEERS, Authorities, Signer, read_signer
from fleet.apps.etcd.engine.seen import Seen
from fleet.apps.etcd.manifests import TRUST, metadata
from fleet.apps.etcd.spec import Etcd
from fleet.kit.certificates import Leaf, Pair
from fleet.kit.step import Decision, blocked
from fleet.kit.world import Object, World
from fleet.model.app_settings import LONGEST_LIFE, SHORTEST_LIFE
from fleet.times import seconds

Data = dict[str, bytes]


def secrets(app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
    """All of them, as they should be; what is good is left as it is. None while a person is to say what becomes."""
    if not names.certified(app):
        return [_secret(app, names.connection_secret(app), _connection(app, {}))]
    if _lost(app, world):
        return []
    life = timedelta(seconds=min(max(seconds(app.tls.lifetime), SHORTEST_LIFE), LONGEST_LIFE))
    authorities = _authorities(app, world, now, life)
    server = Leaf(app.name, names.server_names(app), ("127.0.0.1", "::1"), server=True, client=True, lifetime=life)
    peer = Leaf(f"{app.name}-peer", names.peer_names(app), server=True, client=True, lifetime=life)
    client = Leaf("client", client=True, lifetime=life)
    clients, peers = authorities.clients, authorities.peers
    # Not before members serve it: whoever is given certificates uses them.
    connection = _leaf(world, names.connection_secret(app), clients, client, now) if names.encrypted(app) else {}
    return [
        _secret(app, names.authority_secret(app), authorities.write()),
        _secret(app, names.server_secret(app), _leaf(world, names.server_secret(app), clients, server, now)),
        _secret(app, names.peer_secret(app), _leaf(world, names.peer_secret(app), peers, peer, now)),
        _secret(app, names.connection_secret(app), _connection(app, connection)),
    ]


def names_of_keys(app: Etcd) -> tuple[str, ...]:
    """The Secrets that must not be made anew because a cache does not show them."""
    if not names.certified(app):
        return ()
    return names.authority_secret(app), names.server_secret(app), names.peer_secret(app)


def authorities(app: Etcd, world: World) -> Authorities | None:
    """As they are, if they have been made."""
    return Authorities.read(_held(world, names.authority_secret(app)))


def own_pair(app: Etcd, world: World) -> Pair | None:
    """What members let in beside what their CA signs anew, for when its key is lost: their own certificate."""
    held = _held(world, names.server_secret(app))
    return Pair(held["tls.crt"], held["tls.key"]) if _is_whole(held) else None


def unsigned(seen: Seen) -> Decision | None:
    """Neither the CA nor what it signed is there any more: no new one can be brought in without an outage."""
    gone = _lost(seen.app, seen.world) if names.certified(seen.app) else []
    if not gone:
        return None
    return blocked(
        "AuthorityLost",
        f"the keys of its CA are gone (Secret {names.authority_secret(seen.app)}), and so is what members run with "
        f"({', '.join(gone)}). Put the Secrets back from a backup; or delete all pods of its members at once, which "
        "start again with their data and new certificates",
    )


def _authorities(app: Etcd, world: World, now: datetime.datetime, life: timedelta) -> Authorities:
    name, word = f"{app.namespace}/{app.name}", app.tls.authority
    held, relied = authorities(app, world), _relied(app, world)
    if held is not None and (held.is_whole or relied):
        return held.advanced(name, word, now=now, life=life, trusted=_trusted(app, world))
    if not relied:  # nothing runs: whoever starts trusts whatever is there
        return Authorities.made(name, word, now)
    trusted = {key: _held(world, secret)["ca.crt"] for key, secret in relied.items()}
    return Authorities.replaced(_held(world, names.authority_secret(app)), trusted, name, word, now)


def _relied(app: Etcd, world: World) -> dict[str, str]:
    """The Secrets that a member runs with, by the CA that signed what is in them."""
    running = [pod for pod in world.all("Pod") if pod.get("status", {}).get("phase") == "Running"]
    mounted = {
        (volume.get("secret") or {}).get("secretName") for pod in running for volume in pod["spec"].get("volumes") or ()
    }
    signed = {CLIENTS: names.server_secret(app), PEERS: names.peer_secret(app)}
    return {key: secret for key, secret in signed.items() if secret in mounted}


def _lost(app: Etcd, world: World) -> list[str]:
    """The Secrets that members run with and that are gone, together with the key that could make them again."""
    held = _held(world, names.authority_secret(app))
    return [
        secret
        for key, secret in _relied(app, world).items()
        if ((signer := read_signer(held, key)) is None or signer.current is None)
        and not _is_whole(_held(world, secret))
    ]


def _is_whole(held: Data) -> bool:
    return all(held.get(name) for name in ("ca.crt", "tls.crt", "tls.key"))


def certificates_as_found(app: Etcd, world: World) -> Data | None:
    """Of an etcd that others set up, with TLS: what lets a client in; None while a part of it is not there."""
    kept = names.layout(app)
    if kept is None or not kept.tls:
        return None
    files = {"ca.crt": "ca", "tls.crt": "cert", "tls.key": "key"}
    found = {name: _held(world, kept.files[what][0]).get(kept.files[what][1], b"") for name, what in files.items()}
    return found if all(found.values()) else None


def connection_as_found(app: Etcd, world: World) -> Object:
    """What clients are given: the same as for any etcd, with the certificates that others made for it."""
    return _secret(app, names.connection_secret(app), _connection(app, certificates_as_found(app, world) or {}))


def _trusted(app: Etcd, world: World) -> frozenset[str]:
    """The sets of CAs that the members which run were started with."""
    pods = (pod for pod in world.all("Pod") if _is_member(app, pod))
    return frozenset(str((pod["metadata"].get("annotations") or {}).get(TRUST, "")) for pod in pods)


def _is_member(app: Etcd, pod: Object) -> bool:
    if names.layout(app) is not None:  # pods that others made do not have all of our labels
        return pod["metadata"]["name"] in [names.pod(app, number) for number in range(names.MOST)]
    return bool(names.selector(app).items() <= pod["metadata"]["labels"].items())


def _leaf(world: World, secret: str, signer: Signer, leaf: Leaf, now: datetime.datetime) -> Data:
    held = _held(world, secret)
    pair = Pair(held.get("tls.crt", b""), held.get("tls.key", b""))
    if signer.current is not None and signer.current.due(pair, leaf, now):
        pair = signer.current.issue(leaf, now=now)
    return {"ca.crt": signer.bundle, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}


def _connection(app: Etcd, certificates: Data) -> Data:
    connection = names.connection(app)
    members = ",".join(names.client_url(app, names.pod(app, number)) for number in range(app.members))
    plain = {"host": connection.host, "port": str(connection.port), "url": connection.url, "endpoints": members}
    return {**{name: value.encode() for name, value in plain.items()}, **certificates}


def _held(world: World, name: str) -> Data:
    found = world.get("Secret", name)
    return {key: b64decode(value) for key, value in (found or {}).get("data", {}).items()}


def _secret(app: Etcd, name: str, data: Data) -> Object:
    encoded: dict[str, Any] = {key: b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(app, name), "type": "Opaque", "data": encoded}
