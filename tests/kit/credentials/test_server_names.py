"""The names in the certificates of servers."""

from __future__ import annotations

from fleet.kit.credentials.server_names import list_adopted_names, list_server_names
from fleet.kit.names import host, pod
from fleet.model.resource import Adopt, Options
from tests.kit.pair import app


def test_clients_reach_an_app_by_its_service_and_by_each_member() -> None:
    hosts = [host(app(), pod(app(), number)) for number in range(2)]
    assert list_server_names(app(), hosts) == (
        "cache.shop.svc",
        "cache.shop.svc.cluster.local",
        "cache.shop",
        "cache",
        "localhost",
        "cache-0.cache-peers.shop.svc",
        "cache-1.cache-peers.shop.svc",
    )


def test_what_others_named_is_reached_as_before_and_by_its_own_name() -> None:
    adopted = app(opts=Options(adopt=Adopt(identity="c1", service="redis")))
    names = list_adopted_names(adopted, ["redis-0.redis-headless.shop.svc"], ["redis-0"], "redis-headless")
    assert {"redis", "redis.shop.svc.cluster.local", "cache.shop", "redis-headless", "localhost"} <= {*names}
    assert {"redis-0.redis-headless", "redis-0.redis-headless.shop.svc.cluster.local"} <= {*names}
    assert len(names) == len({*names})


def test_members_without_a_service_in_their_names_have_the_names_that_they_have() -> None:
    names = list_adopted_names(app(), ["redis-0"], ["redis-0"], "")
    assert [name for name in names if "redis-0" in name] == ["redis-0"]
