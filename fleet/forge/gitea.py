"""Gitea, and Forgejo, which is the same: the client of the REST API, as every Gitea shows it at /api/swagger, its CI
and its webhooks. GitHub's were their model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fleet.forge.forge import CiJob, ForgeKind
from fleet.forge.github import GitHub, parse_event, read_actions_job
from fleet.forge.http import ForgeConnection
from fleet.forge.webhook import is_digest, is_equal, sign_body


class Gitea(GitHub):
    """Variant of GitHub: paths and answers are the same; the token's owner is asked otherwise, pages are smaller."""

    longest_comment = 65_536  # Gitea has no limit of its own, and longer pages help no user
    longest_description = 255
    page_size = ("limit", 50)

    def _new_connection(self, token: str) -> ForgeConnection:
        headers = {"Accept": "application/json", "Authorization": f"token {token}"}
        return ForgeConnection(f"{self.repository.url}/api/v1", headers, token)

    async def me(self) -> str:
        if not self._me:
            what = "ask whose token it is"
            user = await self._connection.document(what, "GET", "/user")
            self._me = user.some_text("login")
        return self._me


_SIGNATURE = "x-gitea-signature"


def _read_job(environment: Mapping[str, str]) -> CiJob | None:
    return read_actions_job("gitea", environment) if environment.get("GITHUB_ACTIONS") == "true" else None


def _may_be_signed(headers: Mapping[str, str], _: str) -> bool:
    return is_digest(headers.get(_SIGNATURE, ""))


def _is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    return is_equal(sign_body(body, secret), headers.get(_SIGNATURE, ""))


GITEA = ForgeKind(
    name="gitea",
    connect=Gitea,
    hosts={"codeberg.org": "codeberg.org", "gitea.com": "gitea.com"},
    head_ref="refs/pull/{number}/head",
    token_variable="GITEA_TOKEN",  # noqa: S106 - the name of the variable
    token_rights="one with the scopes write:issue, write:repository and read:user",  # noqa: S106
    job_variables=("GITEA_ACTIONS", "FORGEJO_ACTIONS"),
    job_token="GITHUB_TOKEN",  # noqa: S106
    read_job=_read_job,
    event_header="x-gitea-event",
    may_be_signed=_may_be_signed,
    is_signed=_is_signed,
    parse_event=partial(parse_event, "gitea"),
)
