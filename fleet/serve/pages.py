"""Previews as pages, kept by the process that made them, at addresses that only their comments tell.

A page is the newest preview of one open pull request. It is made anew with its comment, also by a process that starts
later, so nothing needs to be stored; a name nobody can guess is what lets only readers of the pull request see it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Set
from dataclasses import dataclass, field

from aiohttp import web

PREFIX = "/previews/"
MOST = 64 << 20  # bytes of all pages; the largest goes first, which is hardly one of a person's
PART = 1 << 16  # bytes that are sent at a time
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
    _kept: dict[str, bytes] = field(default_factory=dict)  # by name

    def address(self, number: int) -> str:
        """Where the page of a pull request is, or will be; "" where there is none."""
        return f"{self.at.rstrip('/')}{PREFIX}{self._name(number)}" if self.at else ""

    def _name(self, number: int) -> str:
        return self._names.setdefault(number, secrets.token_urlsafe(24))

    def keep(self, number: int, text: str) -> str:
        """The address of the page; "" where there is none."""
        if not self.at:
            return ""
        name = self._name(number)
        self._kept.pop(name, None)  # what was made anew is not old
        self._kept[name] = text.encode(errors="replace")
        while sum(map(len, self._kept.values())) > MOST:
            del self._kept[max(self._kept, key=lambda one: len(self._kept[one]))]
        return self.address(number) if name in self._kept else ""

    def only(self, numbers: Set[int]) -> None:
        """The others are closed."""
        for number in self._names.keys() - numbers:
            self.forget(number)

    def forget(self, number: int) -> None:
        self._kept.pop(self._names.pop(number, ""), None)

    def find(self, path: str) -> bytes | None:
        return self._kept.get(path.removeprefix(PREFIX))


async def _parts(page: bytes) -> AsyncIterator[bytes]:
    """Yield a part at a time: a copy of the whole for each who reads slowly would fill the memory."""
    for begin in range(0, len(page), PART):
        yield page[begin : begin + PART]


def answered(page: bytes | None, *, leads: bool) -> web.Response:
    if page is not None:
        headers = {**HEADERS, "Content-Length": str(len(page))}
        return web.Response(body=_parts(page), content_type="text/html", charset="utf-8", headers=headers)
    if not leads:
        headers = {**HEADERS, "Connection": "close", "Retry-After": "1"}
        return web.Response(status=503, text=ELSEWHERE, content_type="text/html", headers=headers)
    return web.Response(status=404, text="there is no such preview: its pull request is closed, or it was too large")
