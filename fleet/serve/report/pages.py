"""Pages of previews.

A page is the newest preview of one open pull request, kept by the process that made it, at an address that only its
comment names. It is made anew with its comment, also by a process that starts later, so nothing needs to be stored. Its
name cannot be guessed: so only readers of the pull request see it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Set
from dataclasses import dataclass, field

from aiohttp import web

PAGES_PREFIX = "/previews/"
MOST = 64 << 20  # bytes of all pages; the largest is dropped first: a user hardly writes one
PART = 1 << 16  # bytes that are sent at a time
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# Another process has the pages: the browser asks again, on a connection that may lead there.
ELSEWHERE = '<!doctype html><meta http-equiv="refresh" content="1"><title>fleet</title><p>One moment …'


@dataclass(slots=True)
class Pages:
    """Pages of one repository.

    `at` is the address at which users reach this process; "" if they cannot: then there is no page.
    """

    at: str = ""
    _names: dict[int, str] = field(default_factory=dict)  # of pull requests
    _kept: dict[str, bytes] = field(default_factory=dict)  # by name

    def address(self, number: int) -> str:
        """Return where the page of a pull request is, or will be; "" where there is none."""
        return f"{self.at.rstrip('/')}{PAGES_PREFIX}{self._name(number)}" if self.at else ""

    def _name(self, number: int) -> str:
        return self._names.setdefault(number, secrets.token_urlsafe(24))

    def keep(self, number: int, text: str) -> str:
        """Keep a page; return its address, or "" if it is not kept."""
        if not self.at:
            return ""
        name = self._name(number)
        self._kept.pop(name, None)  # a page made anew counts as the newest
        self._kept[name] = text.encode(errors="replace")
        while sum(map(len, self._kept.values())) > MOST:
            del self._kept[max(self._kept, key=lambda page: len(self._kept[page]))]
        return self.address(number) if name in self._kept else ""

    def only(self, numbers: Set[int]) -> None:
        """Forget the pages of all other pull requests: they are closed."""
        for number in self._names.keys() - numbers:
            self.forget(number)

    def forget(self, number: int) -> None:
        self._kept.pop(self._names.pop(number, ""), None)

    def find(self, path: str) -> bytes | None:
        return self._kept.get(path.removeprefix(PAGES_PREFIX))


async def _split_page(page: bytes) -> AsyncIterator[bytes]:
    """Yield a part at a time: a copy of the whole for each slow reader would fill the memory."""
    for start in range(0, len(page), PART):
        yield page[start : start + PART]


def page_response(page: bytes | None, *, leads: bool) -> web.Response:
    """Return the response with a page; without one, "not found", or "try again" if this process does not lead."""
    if page is not None:
        headers = {**HEADERS, "Content-Length": str(len(page))}
        return web.Response(body=_split_page(page), content_type="text/html", charset="utf-8", headers=headers)
    if not leads:
        headers = {**HEADERS, "Connection": "close", "Retry-After": "1"}
        return web.Response(status=503, text=ELSEWHERE, content_type="text/html", headers=headers)
    return web.Response(status=404, text="there is no such preview: its pull request is closed, or it was too large")
