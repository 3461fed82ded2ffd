"""When a view can be relied on, and what is said when it cannot."""

from __future__ import annotations

import time

import pytest

import fleet.kube.runtime as kube
from fleet.errors import AccessError, ConfigurationError, FleetError, NotFoundError, ResourceError
from fleet.kube.client.client import Client
from fleet.kube.runtime.cache import Cache
from fleet.kube.runtime.informer import Informer
from fleet.kube.runtime.views import GRACE, PATIENCE, View
from tests.kube.runtime.greeter import CONFIG_MAPS, greet

SECRETS = kube.Resource("", "v1", "Secret", "secrets", namespaced=True)
NODES = kube.Resource("", "v1", "Node", "nodes", namespaced=False)


def follower(resource: kube.Resource, *, synced: bool, problem: FleetError | None = None) -> Informer:
    cache = Cache(resource)
    cache.synced = synced
    return Informer(Client(), cache, problem=problem, since=time.monotonic())


def view(*followers: Informer) -> View:
    return View("orders", {one.cache.resource: one for one in followers}, time.monotonic())


def test_what_is_complete_is_ready_at_once() -> None:
    one = view(follower(CONFIG_MAPS, synced=True), follower(SECRETS, synced=True))
    assert one.ready_in() == 0 and one.blocked() is None
    assert one.cache(SECRETS) is one.followers[SECRETS].cache


def test_lists_under_way_have_more_time_than_lists_that_fail_and_rights_a_moment_to_come() -> None:
    now = time.monotonic()
    under_way = view(follower(CONFIG_MAPS, synced=True), follower(SECRETS, synced=False))
    assert PATIENCE - 1 < under_way.ready_in() <= PATIENCE
    assert under_way.ready_in(now + PATIENCE + 1) == 0
    refused = view(follower(SECRETS, synced=False, problem=AccessError("no")))
    assert GRACE - 1 < refused.ready_in() <= GRACE
    assert refused.ready_in(now + GRACE + 1) == 0


def test_missing_rights_name_the_namespace_the_kinds_and_what_the_server_said() -> None:
    one = view(
        follower(CONFIG_MAPS, synced=False, problem=AccessError("configmaps is forbidden", hint="try this")),
        follower(SECRETS, synced=False, problem=AccessError("secrets is forbidden")),
        follower(NODES, synced=False, problem=ResourceError("busy")),
    )
    blocked = one.blocked()
    assert isinstance(blocked, kube.NoRightsError) and blocked.hint == "try this"
    assert (blocked.namespace, blocked.kinds) == ("orders", ("configmaps", "secrets"))
    assert blocked.message == (
        "no right to list and watch configmaps, secrets in namespace orders: configmaps is forbidden"
    )


def test_other_reasons_are_no_matter_of_rights() -> None:
    blocked = view(follower(SECRETS, synced=False, problem=NotFoundError("no such kind"))).blocked()
    assert isinstance(blocked, kube.NotSeenError) and "secrets in namespace orders: no such kind" in blocked.message


def test_a_cache_that_could_not_be_filled_is_not_given_and_the_others_are() -> None:
    one = view(follower(CONFIG_MAPS, synced=True), follower(SECRETS, synced=False, problem=AccessError("no")))
    assert len(one.cache(CONFIG_MAPS)) == 0
    with pytest.raises(kube.NoRightsError, match="secrets in namespace orders"):
        one.cache(SECRETS)


def test_a_complete_cache_outlives_broken_connections_but_not_a_right_that_was_taken_away() -> None:
    later = time.monotonic() + 10 * GRACE
    assert view(follower(SECRETS, synced=True, problem=ResourceError("cut off"))).blocked(later) is None
    denied = view(follower(SECRETS, synced=True, problem=AccessError("no")))
    assert denied.blocked() is None, "credentials that are being renewed are refused for a moment"
    assert isinstance(denied.blocked(later), kube.NoRightsError)


def test_a_kind_without_namespaces_cannot_be_followed_by_namespaces() -> None:
    with pytest.raises(ConfigurationError, match="Node has none"):
        kube.Controller("nodes", NODES, greet, per_namespace=True)


def test_nothing_waits_for_a_kind_that_is_optional_and_its_cache_is_not_given_while_it_is_not_seen() -> None:
    followers = [
        follower(CONFIG_MAPS, synced=True),
        follower(SECRETS, synced=False, problem=NotFoundError("no such kind")),
    ]
    one = View("orders", {each.cache.resource: each for each in followers}, optional=frozenset({SECRETS}))
    assert one.blocked() is None and one.ready_in() == 0
    with pytest.raises(kube.NotSeenError, match="no such kind"):
        one.cache(SECRETS)
