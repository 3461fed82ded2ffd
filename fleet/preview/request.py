"""A pull request that is to be previewed: what it is, and how deep one may look for it.

Whoever can open a pull request from a fork is nobody's colleague yet. Its code is evaluated in the sandbox, as that of
any head is, and no cluster is asked for it until somebody who may write to the repository names that very commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import ConfigurationError
from fleet.forge.approval import approval
from fleet.forge.client import Forge
from fleet.forge.model import PullRequest


@dataclass(frozen=True, slots=True)
class Request:
    pull_request: PullRequest
    live: bool = False  # the clusters may be asked
    withheld: bool = False  # they would have been, if this commit of a fork were approved
    approver: str = ""  # of this commit of a fork
    doubt: str = ""  # why it could not be told whether it is approved


async def consult(forge: Forge, number: int, *, live: bool = False) -> Request:
    """What the forge says about it now. One that is not open is refused: it will not be merged."""
    found = await forge.pull_request(number)
    if not found.is_open:
        raise ConfigurationError(
            f"pull request {number} of {forge.repository.path} is {'merged' if found.merged else 'closed'}",
            hint="previews are for open ones; reopen it first",
        )
    if not live or not found.fork:
        return Request(found, live)
    word = await approval(forge, number, found.head_sha)
    return Request(found, live=bool(word.by), withheld=not word.by, approver=word.by, doubt=word.doubt)
