"""The Secrets with an app's keys that no cache shows: one that lost its labels, or was given back and is needed again.

A cache tells what carries our labels, and nothing about what does not. Keys that are made anew because of that would
replace those that members run with, so these few are asked for by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fleet.kit.adoption.giveback import RELEASED
from fleet.kit.step import Object
from fleet.kube import objects
from fleet.kube.runtime import Request
from fleet.model.app import ADOPTION
from fleet_operator.core import kinds


async def unseen(request: Request, names: Sequence[str], shown: Sequence[Object]) -> list[Object]:
    """Return those of `names` that are not among `shown`, if they are there and the app's. AccessError as for any of
    them."""
    seen = {one["metadata"]["name"] for one in shown}
    namespace = request.name.namespace
    asked = (objects.get(request.client, kinds.SECRETS, namespace, name) for name in names if name not in seen)
    found = await asyncio.gather(*asked)
    return [one for one in found if one is not None and (_is_ours(request, one) or given_back(request, one))]


def _is_ours(request: Request, found: Object) -> bool:
    """Tell whether it was made a moment ago, and the cache has not heard of it yet."""
    labels, kind = found["metadata"].get("labels") or {}, (request.object or {}).get("kind")
    return (labels.get("fleet.dev/app"), labels.get("fleet.dev/kind")) == (request.name.name, kind)


def given_back(request: Request, found: Object) -> bool:
    """Tell whether it was given back by an app of the same name, which takes over again what it gave back."""
    app = request.object or {}
    whose = (found["metadata"].get("annotations") or {}).get(RELEASED)
    return ADOPTION in app.get("spec", {}) and whose == f"{app.get('kind')}/{request.name.name}"
