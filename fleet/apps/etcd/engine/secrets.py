"""The Secrets of an etcd: certificates as `tls` declares them, and what its clients need."""

from __future__ import annotations

import datetime

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.observe import EtcdObservation
from fleet.apps.etcd.spec import Etcd
from fleet.apps.etcd.tls import DECLARED, SERVER
from fleet.kit import names as kit_names
from fleet.kit.credentials.operator_tls import (
    WITHOUT_TLS,
    OperatorTls,
    files_as_found,
    operator_tls,
    operator_tls_as_found,
)
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.names import metadata
from fleet.kit.observe.world import Data, Object, World, make_secret
from fleet.kit.step import Decision


def secrets(app: Etcd, world: World, now: datetime.datetime) -> list[Object]:
    """Return all of them, as they should be; none while a person is to say what becomes of lost ones."""
    if not names.certified(app):
        return [_connection(app, {})]
    kept = certificates(app, world).kept(now, for_clients=names.encrypted(app))
    if not kept:
        return []
    given = kept.pop(kit_names.secret(app, "connection"), {})
    return [*(make_secret(metadata(app, name), data) for name, data in kept.items()), _connection(app, given)]


def certificates(app: Etcd, world: World) -> Certificates[Etcd]:
    """Return its CAs and certificates as they are."""
    return Certificates(app, DECLARED, app.tls, world, [pod for pod in world.all("Pod") if _is_member(app, pod)])


def find_tls(app: Etcd, world: World) -> OperatorTls | None:
    """Return how its members let the operator in; None while there are no certificates for that."""
    if (kept := names.layout(app)) is not None and kept.tls:
        return operator_tls_as_found(files_as_found(world, kept.files))
    return operator_tls(certificates(app, world), SERVER) if names.encrypted(app) else WITHOUT_TLS


def unsigned(observation: EtcdObservation) -> Decision | None:
    """Return that neither the CA nor what it signed is there any more, if so."""
    app = observation.app
    return certificates(app, observation.world).unsigned() if names.certified(app) else None


def connection_as_found(app: Etcd, world: World) -> Object:
    """Return what clients are given: the same as for any etcd, with the certificates that others made for it."""
    kept = names.layout(app)
    files = files_as_found(world, kept.files) if kept is not None and kept.tls else None
    return _connection(app, files or {})


def _is_member(app: Etcd, pod: Object) -> bool:
    if names.layout(app) is not None:  # pods that others made do not have all of our labels
        return pod["metadata"]["name"] in [kit_names.pod(app, number) for number in range(names.MOST)]
    return bool(kit_names.selector(app).items() <= (pod["metadata"].get("labels") or {}).items())


def _connection(app: Etcd, files: Data) -> Object:
    texts = {name: text.encode() for name, text in DRIVER.connection_texts(app).items()}
    return make_secret(metadata(app, names.connection(app).secret), {**texts, **files})
