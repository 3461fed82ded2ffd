"""What a change of an app's custom resource means for the app, in the words of its driver: "scale 3 → 5"."""

from __future__ import annotations

from typing import Any


def meanings(app: str, live: dict[str, Any] | None, manifest: dict[str, Any]) -> tuple[str, ...]:
    return ()
