"""What stays with whoever set members up, so that git cannot say otherwise of it: their certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.kit.driver import Problem
from fleet.model.app import App
from fleet.model.app_settings import TLS


def list_what_stays(app: App, tls: TLS) -> Iterator[Problem]:
    """Yield what git says about certificates of members that are taken over, and nothing would come of."""
    if app.adoption is None:
        return
    renews = "certificates of members that are taken over are made and renewed by whoever did before"
    for field in ("authority", "lifetime"):
        if getattr(tls, field) != getattr(TLS(), field):
            yield Problem(f"tls.{field}", renews, "leave it out")
