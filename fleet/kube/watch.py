"""Everything of a kind, and then every change of it, for as long as somebody listens.

The loop that every controller needs: list in pages, watch from there with bookmarks, go on where a broken connection
left off, list again when the server has forgotten that point (410), and do not trust silence: bookmarks come each
minute, so a connection that says nothing for longer is dead, whatever TCP thinks.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from fleet.kube import backoff
from fleet.kube.client import Client, StreamRefusedError
from fleet.kube.discovery import Resource
from fleet.kube.lines import lines
from fleet.kube.objects import ListExpiredError, Scope, pages, without_others_fields

SILENCE = 150.0
GONE = 410


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects there are, as of one moment. It comes first, and again after a gap that could not be bridged."""

    objects: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Changed:
    object: dict[str, Any]
    deleted: bool = False


class _GoneError(Exception):
    """The server does not know the point to go on from any more."""


async def changes(
    client: Client, scope: Scope, *, silence: float = SILENCE, on_turn: Callable[[bool], None] = lambda works: None
) -> AsyncIterator[Listed | Changed]:
    """Endless; close it by leaving the loop. Raises only what will not pass: a missing right, a kind not served.

    `on_turn` hears when the connection breaks (False) and when it works again: meanwhile what is known may be old.
    """
    version, failures = "", 0
    while True:
        try:
            if not version:
                objects, version = await _list(client, scope)
                yield Listed(objects)
            async for event, seen in _watch(client, scope, version, silence):
                if failures:
                    on_turn(True)
                failures, version = 0, seen
                if event is not None:
                    yield event
        except (_GoneError, ListExpiredError):
            version = ""
        except StreamRefusedError as refused:
            if refused.status != backoff.OVERLOADED and refused.status not in backoff.UNSETTLED:
                raise refused.error from None
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # the connection broke: go on from the last version that was seen
        else:
            continue  # the server ended it, as it does every few minutes
        failures += 1
        if failures == 1:
            on_turn(False)
        await asyncio.sleep(backoff.delay(min(failures, 10)))


async def _list(client: Client, scope: Scope) -> tuple[list[dict[str, Any]], str]:
    objects, version = [], ""
    async for page in pages(client, scope):
        version = page["metadata"]["resourceVersion"]
        objects += [_named(scope.resource, item) for item in page["items"]]
    return objects, version


async def _watch(
    client: Client, scope: Scope, version: str, silence: float
) -> AsyncIterator[tuple[Changed | None, str]]:
    """Events with the version to go on from; None for a bookmark."""
    seconds = random.randint(240, 300)  # noqa: S311 - so that not all watches end at once
    path = scope.path(watch="1", allowWatchBookmarks="true", resourceVersion=version, timeoutSeconds=str(seconds))
    async with client.stream(path, silence=silence) as body:
        async for line in lines(body):
            event = orjson.loads(line)
            kind, found = event["type"], event["object"]
            if kind == "ERROR":
                if found.get("code") == GONE:
                    raise _GoneError
                raise aiohttp.ClientPayloadError(str(found.get("message")))
            version = found["metadata"]["resourceVersion"]
            yield (None if kind == "BOOKMARK" else Changed(_named(scope.resource, found), kind == "DELETED")), version


def _named(resource: Resource, item: dict[str, Any]) -> dict[str, Any]:
    return without_others_fields({**item, "apiVersion": resource.api_version, "kind": resource.kind})
