"""What runs already and is to be taken over: where it is, and whose it was. What it is like is read from itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.base import Model
from fleet.model.types import Many, Name

Manager = Annotated[str, Field(min_length=1, max_length=128)]


class Adopt(Model, frozen=True):
    """Something that runs already, given as `opts=Options(adopt=Adopt(…))`. `fleet adopt` writes it."""

    identity: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """What the engine itself calls the members' cluster, as `fleet adopt` shows it; another one is never touched."""
    stateful_set: Name | None = None
    """The StatefulSet of the members; called as the app unless given."""
    service: Name | None = None
    """The Service that clients use; called as the app unless given."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port of that Service; the engine's usual one unless given."""
    take_from: Annotated[Many[Manager], Field(max_length=16)] = ()
    """Whose fields are taken away, by field manager: "helm", "kubectl-client-side-apply". Others keep theirs."""
