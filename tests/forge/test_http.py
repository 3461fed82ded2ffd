"""A forge that refuses, is busy, moves, talks without end or is not there."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from fleet.errors import AccessError, FleetError, NotFoundError, ResourceError
from fleet.forge import http
from fleet.forge.forge import Comment, ForgeRepository, connect
from fleet.forge.http import proxy_of, requested_wait
from tests.forge.server import Asked, Reply, serving

TOKEN = "token-that-nobody-sees"
COMMENT = {"id": 3, "body": "x", "user": {"login": "ann"}, "html_url": "https://example.com/3"}


def comment(url: str) -> Comment:
    async def made() -> Comment:
        async with connect(ForgeRepository("gitea", url, "team/fleet"), TOKEN) as forge:
            return await forge.create_comment(7, "x")

    return asyncio.run(made())


def look(url: str) -> list[Comment]:
    async def seen() -> list[Comment]:
        async with connect(ForgeRepository("gitea", url, "team/fleet"), TOKEN) as forge:
            return await forge.comments(7)

    return asyncio.run(seen())


def refused(reply: Reply) -> FleetError:
    with serving(lambda _: reply) as server, pytest.raises(FleetError) as caught:
        comment(server.url)
    assert TOKEN not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, AccessError, "does not accept the token"),
        (403, AccessError, "the token may not do that"),
        (404, NotFoundError, "does not have it, or hides it"),
        (410, NotFoundError, "does not have it, or hides it"),
        (422, ResourceError, "refuses it (422)"),
        (500, ResourceError, "answers with 500"),
    ],
)
def test_a_refusal_says_what_was_wanted_what_the_forge_says_and_what_to_do(
    status: int, kind: type[FleetError], words: str
) -> None:
    error = refused(Reply(status, {"message": f"no\nway for {TOKEN} " + "x" * 1000}))
    assert type(error) is kind
    assert error.message.startswith("cannot comment on pull request 7 of team/fleet: ")
    assert words in error.message
    assert "no way for … xxx" in error.message
    assert len(error.message) < 600
    assert error.hint or status == 422


def test_what_github_says_about_fields_and_gitlab_by_field_is_shown() -> None:
    details = [{"resource": "IssueComment", "field": "data", "code": "invalid", "message": "Body is too long"}, "more"]
    assert (
        "Validation Failed; Body is too long; more"
        in refused(Reply(422, {"message": "Validation Failed", "errors": details})).message
    )
    assert "note:can't be blank" in refused(Reply(400, {"message": {"note": ["can't be blank"]}})).message


def test_a_page_for_people_is_not_shown_as_an_error() -> None:
    assert "<html>" not in refused(Reply(404, b"<html><body>Not found")).message


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"{}", b'{"id": "3"}'])
def test_an_answer_that_is_no_answer_names_the_settings(body: bytes) -> None:
    error = refused(Reply(201, body))
    assert "cannot be read" in error.message
    assert "[forge] url" in (error.hint or "")


def test_a_redirect_on_the_same_forge_is_followed_with_the_same_request() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.target.startswith("/api/v1/repos/"):
            return Reply(307, headers={"Location": "/api/v1/repositories/9/comments"})
        return Reply(201, COMMENT)

    with serving(answer) as server:
        assert comment(server.url).id == 3
    assert [(one.method, one.json) for one in server.asked] == [("POST", {"body": "x"})] * 2


def test_a_redirect_to_another_host_is_not_followed() -> None:
    with serving(lambda _: Reply(200, COMMENT)) as other:
        error = refused(Reply(302, headers={"Location": f"{other.url}/steal?it=1"}))
    assert "which is not asked" in error.message
    assert not other.asked


def test_redirects_without_end_end() -> None:
    assert "from place to place" in refused(Reply(302, headers={"Location": "/again"})).message


def after(times: int, first: Reply, then: Reply) -> Callable[[Asked], Reply]:
    left = [first] * times
    return lambda _: left.pop() if left else then


def test_a_busy_forge_is_asked_again_for_what_may_be_sent_twice_and_only_for_that() -> None:
    with serving(after(2, Reply(502), Reply(200, [COMMENT]))) as server:
        assert len(look(server.url)) == 1
    assert len(server.asked) == 3
    with serving(after(2, Reply(502), Reply(201, COMMENT))) as server, pytest.raises(ResourceError, match="502"):
        comment(server.url)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "busy",
    [
        Reply(429, {"message": "slow down"}, {"Retry-After": "1"}),
        Reply(403, {"message": "secondary rate limit"}, {"retry-after": "1"}),
        Reply(403, {"message": "rate limit"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}),
    ],
)
def test_a_forge_that_asks_to_wait_is_waited_for(busy: Reply) -> None:
    with serving(after(1, busy, Reply(201, COMMENT))) as server:
        assert comment(server.url).id == 3
    assert len(server.asked) == 2


def test_a_forge_that_asks_to_wait_for_long_is_not() -> None:
    error = refused(Reply(429, {}, {"Retry-After": "3600"}))
    assert "takes no more requests for 3600 s" in error.message


def test_how_long_a_forge_wants_to_be_left_alone() -> None:
    assert requested_wait(403, {}, 0) is None
    assert requested_wait(200, {"retry-after": "5"}, 0) is None
    assert requested_wait(503, {"retry-after": "5"}, 0) == 5
    assert requested_wait(429, {}, 0) == 60
    assert requested_wait(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1030"}, 1000) == 30
    assert requested_wait(403, {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "1030"}, 1000) is None


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 100_000)
    with (
        serving(lambda _: Reply(200, b"[" + b" " * 200_000 + b"]")) as server,
        pytest.raises(ResourceError, match="over"),
    ):
        look(server.url)


def test_a_list_without_end_is_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_PAGES", 3)
    with (
        serving(lambda _: Reply(200, [COMMENT], {"Link": '<https://x/>; rel="next"'})) as server,
        pytest.raises(ResourceError, match="more than 3 pages"),
    ):
        look(server.url)


def test_a_forge_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_PAUSE", 0.01)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # bound, so that nobody else gets it, and never listening
        with pytest.raises(ResourceError, match="cannot be reached") as caught:
            comment(url)
    assert "is the forge up" in (caught.value.hint or "")


def test_a_forge_that_speaks_another_protocol() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            connection, _ = listener.accept()
            connection.recv(1024)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(ResourceError, match="broke off"):
            comment(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_netrc_and_cookies_change_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("home") / "netrc"
    file.write_text("default login eve password other\n")
    monkeypatch.setenv("NETRC", str(file))
    with serving(lambda _: Reply(200, [COMMENT], {"Set-Cookie": "a=b"})) as server:
        look(server.url)
        look(server.url)
    assert {one.headers["authorization"] for one in server.asked} == {f"token {TOKEN}"}
    assert not any("cookie" in one.headers for one in server.asked)


def test_a_proxy_is_taken_from_the_environment_except_for_the_network_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("no_proxy", "internal.example.com")
    assert proxy_of("https://github.com/x") == "http://proxy.example.com:3128"
    assert proxy_of("https://internal.example.com/x") is None
    assert proxy_of("https://10.1.2.3/x") is None
    assert proxy_of("https://localhost:8443/x") is None


def test_a_certificate_of_an_unknown_authority_is_refused_and_ssl_cert_file_names_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.forge.certificate import self_signed, with_tls

    certificate, key = self_signed(tmp_path_factory.mktemp("tls"))
    with serving(lambda _: Reply(200, [COMMENT]), wrap=with_tls(certificate, key)) as server:
        with pytest.raises(AccessError, match="is not trusted") as caught:
            look(server.url)
        assert "SSL_CERT_FILE" in (caught.value.hint or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert len(look(server.url)) == 1
