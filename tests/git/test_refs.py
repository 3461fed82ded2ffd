"""Which urls, revisions and refs reach git at all."""

from __future__ import annotations

import pytest

from fleet.errors import ConfigurationError, PolicyError
from fleet.git import refs


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("https://git.example.com/team/fleet.git", "https"),
        ("https://user:token@git.example.com:8443/fleet", "https"),
        ("ssh://git@git.example.com:2222/fleet.git", "ssh"),
        ("ssh://[::1]/fleet.git", "ssh"),
        ("git@git.example.com:team/fleet.git", "ssh"),
        ("host:fleet.git", "ssh"),
    ],
)
def test_https_and_ssh_are_for_everybody(url: str, protocol: str) -> None:
    assert refs.address(url, by_person=False).protocol == protocol


@pytest.mark.parametrize("url", ["/srv/fleet.git", "../fleet.git", "file:///srv/fleet.git", "./a:b", "C/x:y"])
def test_local_paths_are_only_for_remotes_that_a_person_configured(url: str) -> None:
    assert refs.address(url, by_person=True).protocol == "file"
    with pytest.raises(PolicyError, match="local path"):
        refs.address(url, by_person=False)


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost", "[::1]:80"])
def test_http_is_only_for_this_machine(host: str) -> None:
    assert refs.address(f"http://{host}/fleet", by_person=True).protocol == "http"
    with pytest.raises(PolicyError, match="without TLS"):
        refs.address(f"http://{host}/fleet", by_person=False)
    with pytest.raises(PolicyError, match="without TLS"):
        refs.address("http://git.example.com/fleet", by_person=True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x",
        "ext::sh -c touch% /tmp/x",
        "EXT::sh",
        "::x",
        "fd::17",
        "transport::https://example.com",
        "ext://sh -c x",
        "git://example.com/fleet",
        "ftp://example.com/fleet",
        "rsync://example.com/fleet",
        "ssh://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=x@host/x",
        "ssh://host/-x",
        "ssh://user@/path",
        "https:///path",
        "https://host:port/path",
        "-x@host:path",
        "host:-oProxyCommand=x",
        "https://host/a\nb",
        "https://ho st/a",
    ],
)
def test_what_could_run_a_program_or_be_an_option_is_refused_even_from_a_person(url: str) -> None:
    with pytest.raises(PolicyError):
        refs.address(url, by_person=True)


def test_a_password_in_a_url_is_never_shown() -> None:
    address = refs.address("https://me:hunter2@git.example.com/fleet", by_person=False)
    assert str(address) == "https://git.example.com/fleet"
    with pytest.raises(PolicyError) as refused:
        refs.address("ftp://me:hunter2@git.example.com/fleet", by_person=True)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "-x", "--output=/tmp/x", "main\n", "a\0b", "x" * 2000])
def test_a_revision_that_is_an_option_or_not_printable_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        refs.revision(text)


@pytest.mark.parametrize("name", ["fleet/status", "status", "team/fleet-status"])
def test_branch_names_become_full_refs(name: str) -> None:
    assert refs.branch_ref(name) == f"refs/heads/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "a/-b",
        "a..b",
        "a b",
        "a~1",
        "a:b",
        "x.lock",
        "x.lock/y",
        "a/",
        "/a",
        "a//b",
        ".a",
        "a/.b",
        "a@{1}",
        "*",
    ],
)
def test_what_git_calls_no_branch_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        refs.branch_ref(name)
