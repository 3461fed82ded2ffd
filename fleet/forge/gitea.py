"""Client of Gitea's REST API, as every Gitea shows it at /api/swagger; Forgejo's is the same."""

from __future__ import annotations

from fleet.forge.github import GitHub
from fleet.forge.http import Connection


class Gitea(GitHub):
    """Variant of GitHub: paths and answers are the same; the token's owner is asked otherwise, pages are smaller."""

    longest_comment = 65_536  # Gitea has no limit of its own, and longer pages help no user
    longest_description = 255
    page_size = ("limit", 50)

    def _new_connection(self, token: str) -> Connection:
        headers = {"Accept": "application/json", "Authorization": f"token {token}"}
        return Connection(f"{self.repository.url}/api/v1", headers, token)

    async def me(self) -> str:
        if not self._me:
            what = "ask whose token it is"
            user = await self._connection.document(what, "GET", "/user")
            self._me = user.some_text("login")
        return self._me
