"""What a cluster remembers a repository by: the same from every clone, another for every other repository."""

from __future__ import annotations

import pytest

from fleet.repository.repository import identity_of_url, repository_identity
from fleet.repository.values import check_fleet_name


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/team/fleet",
        "https://example.com/team/fleet.git",
        "https://EXAMPLE.com:443/Team/fleet.git/",
        "https://ci-token:secret@example.com/team/fleet.git",
        "https://x%40y:p%2Fw@example.com/team/fleet",
        "ssh://git@example.com:2222/team/fleet.git",
        "git@example.com:team/fleet.git",
        "example.com:/team/fleet",
    ],
)
def test_one_remote_is_one_however_it_is_reached(url: str) -> None:
    assert identity_of_url(url) == "example.com/team/fleet"


@pytest.mark.parametrize(
    ("url", "known_as"),
    [
        ("https://example.com:8443/team/fleet", "example.com:8443/team/fleet"),
        ("ssh://git@[::1]:22/team/fleet", "[::1]/team/fleet"),
        ("https://example.com/team/fleet2.git?token=secret#x", "example.com/team/fleet2"),
        ("file:///srv/My%20Team/fleet.git", "/srv/My Team/fleet"),
        ("/srv/fleet/.git", "/srv/fleet"),
        ("/home/me/work/../fleet.git", "/home/me/fleet"),
    ],
)
def test_different_places_are_different_and_no_password_is_kept(url: str, known_as: str) -> None:
    assert identity_of_url(url) == known_as
    assert check_fleet_name(known_as) == known_as, "what the hint says can be written into fleet.toml"


def test_the_name_in_the_settings_is_above_all() -> None:
    assert repository_identity("shop", remote="https://example.com/a", first_commit="1" * 40, below="deploy") == "shop"
    assert repository_identity("", remote="https://example.com/a", first_commit="1" * 40) == "example.com/a"
    assert repository_identity("", first_commit="1" * 40, below=".") == "commit-111111111111"
    assert repository_identity("") == ""


def test_fleets_in_one_repository_are_told_apart_by_their_directory() -> None:
    assert repository_identity("", remote="https://example.com/a", below="eu") != repository_identity(
        "", remote="https://example.com/a"
    )
    assert repository_identity("", below="eu") == ""
