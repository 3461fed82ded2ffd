"""What can be said of an etcd and nothing would come of it: refused with the reason, before anything is made. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.apps.etcd.spec import Etcd
from fleet.kit.driver import Problem
from fleet.model.app_settings import TLS


def unserved(app: Etcd) -> Iterator[Problem]:
    """Of an app whose members others set up."""
    if app.adoption is not None:
        yield from _as_found(app)


def _as_found(app: Etcd) -> Iterator[Problem]:
    """Certificates of members that were taken over stay with whoever made them."""
    renews = "certificates of members that are taken over are made and renewed by whoever did before"
    for field in ("authority", "lifetime"):
        if getattr(app.tls, field) != getattr(TLS(), field):
            yield Problem(f"tls.{field}", renews, "leave it out")
