"""Further attacks on the service by strangers, authors of forks, members and forges: each is held, and others go on."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from fleet.errors import ResourceError
from fleet.forge import http
from fleet.forge.forge import Action, CommentEvent, ForgeRepository, PullRequest, PullRequestEvent, connect
from fleet.forge.http import error_text
from fleet.git import status
from fleet.kube.runtime.metrics import Counter
from fleet.kube.runtime.operator import serving
from fleet.objects.compare import Change
from fleet.plan.views.escape import escape_markdown
from fleet.plan.views.text import change_line
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import FollowedRepository
from fleet.serve.options import ServeOptions
from fleet.serve.report import pages
from fleet.serve.report.pages import Pages, page_response
from fleet.serve.report.previews import Previews
from tests.forge.server import Asked, Reply
from tests.forge.server import serving as forge_serving
from tests.git.test_page import WELL
from tests.serve.forks import Fork

AT = "https://fleet.example.com"
TOKEN = "token-that-nobody-sees"
MIB = 1 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_many_that_read_a_large_page_slowly_are_given_no_copies_of_it() -> None:
    """Whoever opened the pull request knows the address. 60 copies of it are 480 MiB."""

    async def attacked() -> int:
        kept = Pages(AT)
        path = kept.keep(1, "x" * (8 * MIB)).removeprefix(AT)

        async def answer(request: web.BaseRequest) -> web.Response:
            return page_response(kept.find(request.path), leads=True)

        async with serving(("127.0.0.1", 0), answer) as address:
            before, strangers = resident(), list[socket.socket]()
            for _ in range(60):
                one = socket.create_connection(address)
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.send(f"GET {path} HTTP/1.1\r\nHost: fleet\r\n\r\n".encode())
                strangers.append(one)
            await asyncio.sleep(1.0)
            grown = resident() - before
            reader, writer = await asyncio.open_connection(*address)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.read()).endswith(b"x" * (8 * MIB)), "others are sent all of it"
            writer.close()
            for one in strangers:
                one.close()
            return grown

    assert asyncio.run(attacked()) < 120 * MIB


def test_large_pages_of_some_do_not_take_the_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 1000)
    kept = Pages(AT)
    others = [kept.keep(number, "x" * 50) for number in range(4)]
    for number in range(10, 20):
        kept.keep(number, "y" * 500)
    assert all(kept.find(one.removeprefix(AT)) for one in others)


def test_letters_of_a_page_are_counted_as_the_bytes_that_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 1000)
    assert Pages(AT).keep(1, "🛑" * 300) == ""


def previews() -> Previews:
    return Previews(
        FollowedRepository("https://git.example.com/team/fleet"),
        ServeOptions(public_url=AT),
        CurrentCommit(),
        Counter("c", "", ("a", "b"), registry=None),
    )


def test_a_pull_request_that_another_repository_closed_is_not_closed_here() -> None:
    """An event is a reason to ask: one secret may be that of many repositories."""
    made = previews()
    address = made.pages.keep(7, "a preview")
    found = PullRequest(7, "", "ann", "", "main", "", "change", "a" * 40, fork=True, is_open=False)
    made.hear(PullRequestEvent(ForgeRepository("gitea", "https://git.example.com", "other/one"), found, Action.CLOSED))
    assert made.pages.find(address.removeprefix(AT)) == b"a preview"
    assert len(made._queue) == 1, "the forge is asked"


def test_a_number_that_nobody_has_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue tries again what failed, at first after two seconds at most."""
    monkeypatch.setenv("FLEET_FORGE_TOKEN", TOKEN)

    def answer(asked: Asked) -> Reply:
        return Reply(404, {"message": "not found"}) if "999" in asked.target else Reply(200, [])

    async def followed(fork: Fork, requests: list[Asked]) -> None:
        made = Previews(
            FollowedRepository(str(fork.remote.path)),
            ServeOptions(),
            CurrentCommit(fork.base),
            Counter("c", "", ("a", "b"), registry=None),
        )
        running = asyncio.create_task(made.run(fork.mirror))
        for command in ("/fleet preview", f"/fleet preview {'a' * 40}"):
            made.hear(
                CommentEvent(ForgeRepository("gitea", "https://git.example.com", "other/one"), 999, "ann", command, 1)
            )
        async with asyncio.timeout(20):
            while not any("999" in asked.target for asked in requests):  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.05)
        await asyncio.sleep(3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert len(made._queue) == 0

    with forge_serving(answer) as server:
        where = f'[forge]\nkind = "gitea"\nurl = "{server.url}"\nrepository = "team/fleet"\n'
        asyncio.run(followed(Fork.make(tmp_path, where), server.asked))
        assert [asked.target for asked in server.asked if "999" in asked.target] == [
            "/api/v1/repos/team/fleet/pulls/999"
        ]


def look(url: str) -> int:
    async def seen() -> int:
        async with connect(ForgeRepository("gitea", url, "team/fleet"), TOKEN) as forge:
            return len(await forge.comments(7))

    return asyncio.run(seen())


COMMENT = {"id": 3, "body": "x" * 60_000, "user": {"login": "ann"}, "html_url": "https://example.com/3"}
NEXT = {"Link": '<x>; rel="next"'}
FORGES: Mapping[str, tuple[Reply, str]] = {
    "comments of a stranger, 60 KiB each, page for page": (Reply(200, [COMMENT] * 10, NEXT), "bytes of it"),
    "a small answer that unfolds": (
        Reply(200, gzip.compress(b" " * (16 * MIB) + b"[]"), {"Content-Encoding": "gzip"}),
        "is compressed",
    ),
    "a redirect to a port that there is not": (Reply(302, None, {"Location": "http://x:99999/"}), "no address"),
    "a redirect to half an address": (Reply(302, None, {"Location": "http://[::1"}), "no address"),
}


@pytest.mark.parametrize(("reply", "words"), FORGES.values(), ids=FORGES)
def test_an_answer_of_a_forge_is_refused(reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_LIST_BYTES", 4 * MIB, raising=False)
    monkeypatch.setattr(http, "MOST_PAGES", 20)
    with forge_serving(lambda _: reply) as server, pytest.raises(ResourceError) as caught:
        look(server.url)
    assert words in caught.value.message
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("before", [0, 290, 595, 5000])
def test_no_part_of_a_token_is_told_wherever_an_answer_is_cut(before: int) -> None:
    for gap in (" ", "x"):
        assert TOKEN[:4] not in error_text((gap * before + TOKEN + " and more").encode(), TOKEN)


def test_a_change_far_inside_a_long_value_is_shown() -> None:
    long = "registry.example.com/" + "very-" * 40
    line = change_line(Change("spec.image", f"{long}good:1", f"{long}evil:1"))
    assert "good:1" in line
    assert "evil:1" in line
    assert len(line) < 200
    hidden = change_line(Change("spec.a", "a\u200b", "a\u200c")).partition(": ")[2].split(" → ")
    assert hidden[0] != hidden[1], "letters that nobody sees are told apart"


REFERENCES = ("!1", "team/other!1", "$1", "~bug", "&1", '%"1.0"', "GH-26", "gh-26", ":white_check_mark:", "a:+1:b")


@pytest.mark.parametrize("text", REFERENCES)
def test_no_reference_of_any_forge_comes_out_of_a_name(text: str) -> None:
    """Forges look for them in what Markdown has made, so entities do not help."""
    read = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), escape_markdown(text))
    assert read.replace("\u200b", "") == text
    assert not re.search(r'[!$~&%][\w"]|gh-\d|:[\w+-]+:', read, re.IGNORECASE)


@pytest.mark.parametrize("version", ["https://evil.example/x", "www.evil.example", "@everybody", "!1", "#1"])
def test_what_a_member_says_is_its_version_is_no_link_on_the_status_page(version: str) -> None:
    sick = replace(WELL.apps[0], version=version, name="www.evil.example", health="Degraded", message="x")
    text = status.render_page([replace(WELL, apps=(sick,), health="Degraded")]).decode()
    read = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text)
    assert not re.search(r"://|www\.|@\w|!\d|#\d", read)
    assert version in read.replace("\u200b", "")
