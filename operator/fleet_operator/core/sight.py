"""Kinds that passes go on without: a cluster may not know them, and an operator's rights may be of a release before.

A required kind that cannot be seen stops all passes in its namespace; of these, an app misses what it asked for alone.
"""

from __future__ import annotations

from fleet.errors import FleetError
from fleet.kit.step import Object
from fleet.kube.runtime import NoRightsError, Request
from fleet.model.app import App
from fleet.model.network_settings import network_of
from fleet.objects.resource import Resource
from fleet_operator.core import kinds


def owned_if_seen(request: Request, resource: Resource) -> list[Object]:
    """Return the app's objects of a kind; none where they cannot be seen."""
    try:
        return request.owned(resource)
    except FleetError:
        return []


def hidden_at_end(request: Request, app: App) -> FleetError | None:
    """Return why it cannot be seen yet what an app leaves behind; None if it can, or if the app never asked for it.

    Lists that come late are waited for by every app: git may have asked until a moment ago.
    """
    try:
        request.owned(kinds.NETWORK_POLICIES)
    except NoRightsError as problem:
        return problem if network_of(app).access is not None else None
    except FleetError as problem:
        return problem
    return None
