"""The Secrets of an etcd: certificates as `tls` declares them, and what its clients need."""

from __future__ import annotations

import datetime

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.tls import DECLARED, SERVER
from fleet.kit import names as kit_names
from fleet.kit.credentials.authorities import Authorities
from fleet.kit.credentials.certificates import Pair
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.names import metadata
from fleet.kit.observe.world import Data, Object, World, make_secret
from fleet.kit.step import Decision


def secrets(app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
    """Return all of them, as they should be; none while a person is to say what becomes of lost ones."""
    if not names.certified(app):
        return [_connection(app, {})]
    kept = _certificates(app, world).kept(now, for_clients=names.encrypted(app))
    if not kept:
        return []
    given = kept.pop(names.connection_secret(app), {})
    return [*(make_secret(metadata(app, name), data) for name, data in kept.items()), _connection(app, given)]


def names_of_keys(app: Etcd) -> tuple[str, ...]:
    """Return the Secrets that must not be made anew because a cache does not show them."""
    return _certificates(app, World({})).names_of_keys if names.certified(app) else ()


def authorities(app: Etcd, world: World) -> Authorities | None:
    """Return its CAs as they are, if they have been made."""
    return _certificates(app, world).authorities()


def own_pair(app: Etcd, world: World) -> Pair | None:
    """Return what members let in beside what their CA signs anew, for when its key is lost: their own certificate."""
    return _certificates(app, world).pair(SERVER)


def unsigned(seen: EtcdObservation) -> Decision | None:
    """Return that neither the CA nor what it signed is there any more, if so."""
    return _certificates(seen.app, seen.world).unsigned() if names.certified(seen.app) else None


def certificates_as_found(app: Etcd, world: World) -> Data | None:
    """Return what lets a client in to an etcd that others set up with TLS; None while a part of it is not there."""
    kept = names.layout(app)
    if kept is None or not kept.tls:
        return None
    files = {"ca.crt": "ca", "tls.crt": "cert", "tls.key": "key"}
    found = {name: world.secret(kept.files[what][0]).get(kept.files[what][1], b"") for name, what in files.items()}
    return found if all(found.values()) else None


def connection_as_found(app: Etcd, world: World) -> Object:
    """Return what clients are given: the same as for any etcd, with the certificates that others made for it."""
    return _connection(app, certificates_as_found(app, world) or {})


def _certificates(app: Etcd, world: World) -> Certificates[Etcd]:
    return Certificates(app, DECLARED, app.tls, world, [pod for pod in world.all("Pod") if _is_member(app, pod)])


def _is_member(app: Etcd, pod: Object) -> bool:
    if names.layout(app) is not None:  # pods that others made do not have all of our labels
        return pod["metadata"]["name"] in [kit_names.pod(app, number) for number in range(names.MOST)]
    return bool(kit_names.selector(app).items() <= (pod["metadata"].get("labels") or {}).items())


def _connection(app: Etcd, certificates: Data) -> Object:
    connection = names.connection(app)
    members = ",".join(names.client_url(app, kit_names.pod(app, number)) for number in range(app.members))
    plain = {"host": connection.host, "port": str(connection.port), "url": connection.url, "endpoints": members}
    data = {**{name: value.encode() for name, value in plain.items()}, **certificates}
    return make_secret(metadata(app, names.connection_secret(app)), data)
