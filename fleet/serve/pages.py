"""Previews as pages, kept by the process that made them, at addresses that only their comments tell.

A page is the newest preview of one open pull request. It is made anew with its comment, also by a process that starts
later, so nothing needs to be stored; a name nobody can guess is what lets only readers of the pull request see it.
"""

from __future__ import annotations

import secrets
from collections.abc import Set
from dataclasses import dataclass, field

from aiohttp import web

PREFIX = "/previews/"
MOST = 64 << 20  # characters of all pages; the oldest go first
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# Another process has the pages: a browser asks again, by a connection that may lead there.
ELSEWHERE = '<!doctype html><meta http-equiv="refresh" content="1"><title>fleet</title><p>One moment …'


@dataclass(slots=True)
class Pages:
    """Of one repository. `at` is how people reach this process; "" if they cannot, and then there is no page."""

    at: str = ""
    _names: dict[int, str] = field(default_factory=dict)  # of pull requests
    _kept: dict[str, str] = field(default_factory=dict)  # by name

    def address(self, number: int) -> str:
        """Where the page of a pull request is, or will be; "" where there is none."""
        return f"{self.at.rstrip('/')}{PREFIX}{self._name(number)}" if self.at else ""

    def _name(self, number: int) -> str:
        return self._names.setdefault(number, secrets.token_urlsafe(24))

    def keep(self, number: int, text: str) -> str:
        """The address of the page; "" where there is none."""
        if not self.at or len(text) > MOST:
            return ""
        name = self._name(number)
        self._kept.pop(name, None)
        self._kept[name] = text
        while sum(map(len, self._kept.values())) > MOST:
            del self._kept[next(iter(self._kept))]
        return self.address(number)

    def only(self, numbers: Set[int]) -> None:
        """The others are closed."""
        for number in self._names.keys() - numbers:
            self.forget(number)

    def forget(self, number: int) -> None:
        self._kept.pop(self._names.pop(number, ""), None)

    def find(self, path: str) -> str | None:
        return self._kept.get(path.removeprefix(PREFIX))


def answered(text: str | None, *, leads: bool) -> web.Response:
    if text is not None:
        return web.Response(text=text, content_type="text/html", headers=HEADERS)
    if not leads:
        headers = {**HEADERS, "Connection": "close", "Retry-After": "1"}
        return web.Response(status=503, text=ELSEWHERE, content_type="text/html", headers=headers)
    return web.Response(status=404, text="there is no such preview, or its pull request is closed")
