"""The list-and-watch loop with a server that answers in turn what a test says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fleet.errors import AccessError, NotFoundError
from fleet.kube.client.client import Client
from fleet.kube.client.limits import Patience
from fleet.kube.list_watch import Interruption, ListWatch, WatchEvent
from fleet.kube.objects import ObjectScope
from fleet.kube.resources import CONFIG_MAPS
from fleet.kube.watch import ChangedObject, ListedObjects, watch_changes
from tests.kube.client.test_client import answered_by

END = {"k8s.io/initial-events-end": "true"}
Answer = tuple[int, Any, dict[str, str]]


def item(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": str(version)}}


def listed(version: int, *items: dict[str, Any]) -> Answer:
    return 200, {"metadata": {"resourceVersion": str(version)}, "items": list(items)}, {}


def watched(*events: tuple[str, Any]) -> Answer:
    lines = [json.dumps({"type": kind, "object": found}) for kind, found in events]
    return 200, "".join(f"{line}\n" for line in lines), {}


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    return (
        status,
        {"kind": "Status", "message": message},
        {name.replace("_", "-"): text for name, text in headers.items()},
    )


def bookmark(version: int, **annotations: str) -> tuple[str, Any]:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}}


def follow(
    tmp_path: Path, count: int, *script: Answer, streams: bool = False, version: str = ""
) -> tuple[list[str], list[str], ListWatch]:
    """The first events as words, and what was asked: `list`, or the version that a watch began with."""
    asked: list[str] = []
    loops: list[ListWatch] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        is_watch = "watch" in request.query
        asked.append(f"watch {request.query.get('resourceVersion', 'streamed')}" if is_watch else "list")
        assert ("sendInitialEvents" in request.query) == (asked[-1] == "watch streamed")
        if len(asked) > len(script):
            await asyncio.sleep(30)
        status, body, headers = script[len(asked) - 1]
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, headers=headers, content_type="application/json")

    async def work(client: Client) -> list[str]:
        loop = ListWatch(client, ObjectScope(CONFIG_MAPS, "n"), 5, Patience(first=0.01, most=0.02), streams, version)
        loops.append(loop)
        return [words(event) async for event in _first(count, loop.events())]

    told = answered_by(handler, tmp_path, work)
    return told, asked, loops[0]


async def _first(
    count: int, events: AsyncIterator[WatchEvent | Interruption]
) -> AsyncIterator[WatchEvent | Interruption]:
    for _ in range(count):
        yield await asyncio.wait_for(anext(events), 10)


def words(event: WatchEvent | Interruption) -> str:
    if isinstance(event, Interruption):
        return f"{event.failures} {event.problem.message if event.problem else None}{' lasts' if event.lasts else ''}"
    name = event.object.get("metadata", {}).get("name", event.version)
    return f"{event.kind.name} {name}".strip()


def test_it_lists_and_then_goes_on_from_the_last_version_that_it_saw(tmp_path: Path) -> None:
    told, asked, loop = follow(
        tmp_path,
        9,
        listed(5, item("a", 3), item("b", 5)),
        watched(("ADDED", item("c", 6)), bookmark(8)),
        watched(("DELETED", item("a", 9)), ("MODIFIED", item("b", 10))),
        watched(("MODIFIED", item("b", 11))),
    )
    assert told == [
        "LISTING",
        "LISTED a",
        "LISTED b",
        "COMPLETE 5",
        "CHANGED c",
        "BOOKMARK 8",
        "DELETED a",
        "CHANGED b",
        "CHANGED b",
    ]
    assert asked == ["list", "watch 5", "watch 8", "watch 10"] and loop.version == "11"


def test_a_streamed_list_is_complete_when_the_server_says_so(tmp_path: Path) -> None:
    told, asked, _ = follow(
        tmp_path,
        5,
        watched(("ADDED", item("a", 3)), bookmark(4), bookmark(5, **END), ("MODIFIED", item("a", 6))),
        watched(bookmark(7)),
        streams=True,
    )
    assert told == ["LISTING", "LISTED a", "COMPLETE 5", "CHANGED a", "BOOKMARK 7"]
    assert asked[:2] == ["watch streamed", "watch 6"]


def test_a_streamed_list_that_breaks_off_begins_again(tmp_path: Path) -> None:
    told, asked, _ = follow(
        tmp_path, 6, watched(("ADDED", item("a", 3))), watched(bookmark(5, **END)), watched(bookmark(7)), streams=True
    )
    assert told == ["LISTING", "LISTED a", "1 None", "LISTING", "COMPLETE 5", "BOOKMARK 7"]
    assert asked == ["watch streamed", "watch streamed", "watch 5"]


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_cannot_stream_lists_is_asked_for_pages(tmp_path: Path, status: int) -> None:
    told, asked, loop = follow(tmp_path, 5, refused(status), listed(5), watched(("ADDED", item("a", 6))), streams=True)
    assert told == ["LISTING", "1 None", "LISTING", "COMPLETE 5", "CHANGED a"]
    assert asked == ["watch streamed", "list", "watch 5"] and not loop.streams_lists


@pytest.mark.parametrize("answer", [refused(410), watched(("ERROR", {"code": 410, "message": "too old"}))])
def test_a_point_that_the_server_has_forgotten_leads_to_a_new_list(tmp_path: Path, answer: Answer) -> None:
    told, asked, _ = follow(tmp_path, 3, answer, listed(9), version="7")
    assert told == ["1 None", "LISTING", "COMPLETE 9"] and asked == ["watch 7", "list"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refused(403, "no right"), "no right lasts"),
        (refused(404, "not served"), "not served lasts"),
        (refused(503, "later"), "later"),
        (refused(429, "too much"), "too much"),
        (watched(("ERROR", {"code": 500, "message": "etcd is away"})), "etcd is away"),
        (watched(("SURPRISE", item("a", 8))), "the watch has an event of type SURPRISE"),
        (watched(("ADDED", {})), "the watch has an event that is none"),
        (watched(("ADDED", None)), "the watch has an event that is none"),
        ((200, "[1]\n", {}), "the watch has an event that is none"),
        ((200, "no json\n", {}), "JSONDecodeError"),
    ],
)
def test_what_interrupts_a_watch_is_told_and_it_goes_on_from_where_it_was(
    tmp_path: Path, answer: Answer, said: str
) -> None:
    told, asked, _ = follow(tmp_path, 3, answer, answer, watched(("ADDED", item("a", 8))), version="7")
    assert told[2] == "CHANGED a" and asked == ["watch 7"] * 3
    assert [line[0] for line in told[:2]] == ["1", "2"]
    assert all(
        said.removesuffix(" lasts") in line and line.endswith(" lasts") == said.endswith(" lasts") for line in told[:2]
    )


def test_a_watch_that_is_refused_comes_again_when_the_server_says(tmp_path: Path) -> None:
    began = time.monotonic()
    told, _, _ = follow(
        tmp_path, 2, refused(429, "too much", Retry_After="1"), watched(("ADDED", item("a", 8))), version="7"
    )
    assert told[1] == "CHANGED a" and time.monotonic() - began >= 1.0


def test_a_watch_that_ends_at_once_and_brings_nothing_is_not_asked_for_without_a_pause(tmp_path: Path) -> None:
    told, asked, _ = follow(tmp_path, 3, *[watched()] * 3, version="7")
    assert told == ["1 None", "2 None", "3 None"] and asked == ["watch 7"] * 3


def changes(tmp_path: Path, count: int, *script: Answer) -> tuple[list[ListedObjects | ChangedObject], list[bool]]:
    turns: list[bool] = []
    answers = iter(script)

    async def handler(_: web.Request) -> web.StreamResponse:
        status, body, headers = next(answers)
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, headers=headers, content_type="application/json")

    async def work(client: Client) -> list[ListedObjects | ChangedObject]:
        events = watch_changes(client, ObjectScope(CONFIG_MAPS, "n"), silence=5, on_turn=turns.append)
        return [await asyncio.wait_for(anext(events), 10) for _ in range(count)]

    return answered_by(handler, tmp_path, work), turns


def test_a_reader_without_a_cache_gets_whole_lists_and_changes_and_learns_of_gaps(tmp_path: Path) -> None:
    seen, turns = changes(
        tmp_path,
        5,
        listed(5, item("a", 3)),
        watched(("MODIFIED", item("a", 6))),
        refused(503),
        watched(("DELETED", item("a", 7))),
        watched(("ERROR", {"code": 410})),
        listed(9, item("b", 8)),
        watched(("ADDED", item("c", 10))),
    )
    assert [type(event) for event in seen] == [
        ListedObjects,
        ChangedObject,
        ChangedObject,
        ListedObjects,
        ChangedObject,
    ]
    first, _, deleted, again, _ = seen
    assert isinstance(first, ListedObjects) and isinstance(again, ListedObjects) and isinstance(deleted, ChangedObject)
    assert [found["metadata"]["name"] for found in (*first.objects, *again.objects)] == ["a", "b"]
    assert all(found["kind"] == "ConfigMap" for found in (*first.objects, deleted.object)) and deleted.deleted
    assert turns == [False, True, False, True]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([refused(404, "not served")], NotFoundError),
        ([listed(5), refused(401), refused(401)], AccessError),
        ([listed(5), refused(404, "not served")], NotFoundError),
    ],
)
def test_a_refusal_that_will_not_pass_is_raised(tmp_path: Path, script: list[Answer], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        changes(tmp_path, 2, *script)
