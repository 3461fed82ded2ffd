"""What stays with whoever set members up, so that git cannot say otherwise of it: certificates, volumes, data. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.kit.driver import Problem
from fleet.model.app import App
from fleet.model.app_settings import TLS


def list_what_stays(app: App) -> Iterator[Problem]:
    """Yield what a spec says of members that are taken over, and nothing would come of."""
    if app.adoption is None:
        return
    spec: Any = app
    renews = "certificates of members that are taken over are made and renewed by whoever did before"
    for field in ("authority", "lifetime"):
        if (tls := getattr(spec, "tls", None)) is not None and getattr(tls, field) != getattr(TLS(), field):
            yield Problem(f"tls.{field}", renews, "leave it out")
    if getattr(getattr(spec, "volume", None), "on_delete", "keep") == "delete":
        kept = "volumes of members that are taken over are kept when the app goes"
        yield Problem("volume.on_delete", kept, "leave it out, and delete the claims by hand")
    if getattr(spec, "restore_from", None) is not None:
        yield Problem("restore_from", "members that are taken over have their data", "leave it out")
