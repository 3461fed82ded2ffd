"""Operations of one app, as passes find and answer them. What people asked for is never in the way of the app."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from fleet.errors import FleetError
from fleet.kit.operate.engine import Engine
from fleet.kit.operations.operation import app_of
from fleet.kit.operations.queue import answer_all, list_operations, refuse_without_app
from fleet.kit.step import Decision, Delete, Object, Step
from fleet.kube.runtime import Name, NotLeadingError, Request
from fleet.kube.runtime.handlers import Mapping
from fleet_operator.core import kinds
from fleet_operator.core.execute import execute
from fleet_operator.core.sight import owned_if_seen

MOST_ANSWERS = 20  # in one pass; the next one goes on

log = logging.getLogger(__name__)


def operated_app(kind: str, group: str) -> Mapping:
    """Return the mapping from an Operation to its app, if that is of this kind."""

    def named(operation: dict[str, Any]) -> Iterable[Name]:
        named_group, named_kind, name = app_of(operation)
        if (named_group, named_kind) == (group, kind) and name:
            yield Name(operation["metadata"].get("namespace", ""), name)

    return named


def asked_of(request: Request) -> list[Object]:
    """Return the Operations of an app; none where they cannot be seen, or where the cluster does not know the kind."""
    return owned_if_seen(request, kinds.OPERATIONS)


async def answer(request: Request, engine: Engine[Any, Any], steps: Sequence[Step]) -> None:
    """Tell people what becomes of what they asked for. A failure is logged: the app is looked after all the same."""
    for step in steps[:MOST_ANSWERS]:
        try:
            await execute(request, engine, None, (step,))
        except NotLeadingError:
            raise
        except FleetError as error:
            log.warning("%s: what was asked for cannot be answered: %s", request.name, error.message)
            return


async def answer_unobserved(request: Request, engine: Engine[Any, Any], decision: Decision, now: Any) -> None:
    """Tell people that the app cannot even be looked at."""
    if asked := asked_of(request):
        await answer(request, engine, answer_all(list_operations(asked), decision, now))


async def answer_without_app(request: Request, engine: Engine[Any, Any], now: Any) -> None:
    """Refuse what is asked of an app that there is not."""
    if asked := asked_of(request):
        app = f"{engine.app.kind()} {request.name.name}"
        await answer(request, engine, refuse_without_app(list_operations(asked), app, now))


async def forget_operations(request: Request, engine: Engine[Any, Any]) -> None:
    """Delete the Operations of an app that goes."""
    await answer(request, engine, [Delete(found) for found in asked_of(request)])
