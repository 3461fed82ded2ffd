"""Gitea's REST API, as every Gitea shows it at /api/swagger; Forgejo's is the same."""

from __future__ import annotations

from fleet.forge.github import GitHub
from fleet.forge.http import Connection


class Gitea(GitHub):
    """The paths and answers are GitHub's; the owner of a token is asked otherwise, and parts are smaller."""

    longest_comment = 65_536  # Gitea has no limit of its own, and longer pages are no help to anybody
    longest_description = 255
    page_size = ("limit", 50)

    def _connected(self, token: str) -> Connection:
        headers = {"Accept": "application/json", "Authorization": f"token {token}"}
        return Connection(f"{self.repository.url}/api/v1", headers, token)

    async def me(self) -> str:
        if not self._me:
            what = "ask whose token it is"
            said = await self._connection.document(what, "GET", "/user")
            self._me = said.some_text("login")
        return self._me
