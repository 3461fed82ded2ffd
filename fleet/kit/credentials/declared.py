"""The Secrets of an app by the declaration of its type: passwords of users, certificates, what clients are given.

Pure, but for the keys and passwords that are made.
"""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppType
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.credentials.users import Users
from fleet.kit.observe.world import Object, World, make_secret
from fleet.model.app import App
from fleet.model.app_settings import TLS

A = TypeVar("A", bound=App)


def make_secrets(app_type: AppType[A], app: A, world: World, now: datetime.datetime) -> list[Object]:
    """Return the Secrets of an app as they should be.

    A Secret with a password is among them only if there is none. The one for clients is not, while what is to be in it
    is not known to be kept: clients keep what they have.
    """
    users, certificates = users_of(app_type, app, world), certificates_of(app_type, app, world)
    kept = certificates.kept(now) if certificates is not None else {}
    given = kept.pop(certificates.connection_secret, {}) if certificates is not None else {}
    made = [*users.missing(), *(make_secret(names.metadata(app, name), data) for name, data in kept.items())]
    texts = users.connection()
    if texts is None or (certificates is not None and not given):
        return made
    data = {**{name: text.encode() for name, text in texts.items()}, **given}
    return [*made, make_secret(names.metadata(app, app_type.connection(app).secret), data)]


def list_keys(app_type: AppType[A], app: A, world: World) -> tuple[str, ...]:
    """Return the Secrets that must not be made anew because a cache does not show them."""
    certificates = certificates_of(app_type, app, world)
    return (
        *users_of(app_type, app, world).names_of_keys,
        *(certificates.names_of_keys if certificates is not None else ()),
    )


def users_of(app_type: AppType[A], app: A, world: World) -> Users:
    """Return the users of an app, of those roles of which it has pods, among what the cluster holds of it."""
    present = {role.name for role in app_type.roles_of(app)}
    return Users(
        app.name,
        [user for user in app_type.users_of(app) if user.role in present],
        world,
        lambda name: names.metadata(app, name),
        app_type.connection_texts(app),
        app_type.password_word(app),
    )


def read_passwords(app_type: AppType[A], app: A, world: World) -> dict[str, dict[str, str]]:
    """Return the passwords that each user may have now by their marks, the one to log in with first."""
    return {name: kept.passwords for name, kept in users_of(app_type, app, world).secrets().items()}


def certificates_of(app_type: AppType[A], app: A, world: World) -> Certificates[A] | None:
    """Return the certificates of an app among what the cluster holds of it; None for one that is not encrypted."""
    settings: Any = getattr(app, "tls", None)
    if app_type.tls is None or not isinstance(settings, TLS) or not app_type.is_encrypted(app):
        return None
    own = [names.selector(app, role.name).items() for role in app_type.roles]
    pods = [pod for pod in world.all("Pod") if _labels(pod) and any(items <= _labels(pod).items() for items in own)]
    return Certificates(app, app_type.tls, settings, world, pods)


def _labels(found: Object) -> dict[str, str]:
    return found["metadata"].get("labels") or {}
