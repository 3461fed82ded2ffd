"""Leases as seen by somebody whose clock is another one.

What is stored stays true: a client that changes a Lease often sends a time back as it saw it (who renews keeps
`acquireTime`), and a shift that is stored and shown again would grow with every renewal.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import orjson

TIMES = ("acquireTime", "renewTime")
_REMEMBERED = 10_000


class LeaseClock:
    """Shifts what is shown, and knows again what it has shown."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}  # as shown → as stored

    def show(self, document: bytes, seconds: float) -> bytes:
        """A Lease, a list of them or an event of a watch, with times shifted. Anything else is left alone."""
        try:
            found = orjson.loads(document)
        except orjson.JSONDecodeError:
            return document
        for lease in found.get("items") or [found.get("object", found)]:
            spec = lease.get("spec") or {}
            for name in TIMES:
                if spec.get(name):
                    spec[name] = self._shift(spec[name], seconds)
        return orjson.dumps(found)

    def _shift(self, stored: str, seconds: float) -> str:
        moment = datetime.fromisoformat(stored.replace("Z", "+00:00")) + timedelta(seconds=seconds)
        shown = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._shown[shown] = stored
        if len(self._shown) > _REMEMBERED:
            del self._shown[next(iter(self._shown))]
        return shown

    def store(self, document: bytes) -> bytes:
        """What a client writes, with times that it only saw as they were. Anything but JSON is left alone."""
        try:
            written = orjson.loads(document)
        except orjson.JSONDecodeError:
            return document
        spec = written.get("spec") if isinstance(written, dict) else None
        if not isinstance(spec, dict) or not any(spec.get(name) in self._shown for name in TIMES):
            return document
        for name in TIMES:
            if spec.get(name) in self._shown:
                spec[name] = self._shown[spec[name]]
        return orjson.dumps(written)
