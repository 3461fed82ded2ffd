"""What follows from a declaration: what the driver can do, what a change costs, what the engine is."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apps.etcd import DRIVER, Etcd, EtcdConfig
from fleet.apps.impact import explain
from fleet.kit.app_type import AppType, Remedy, Setting
from fleet.kit.driver import Capabilities, Impact, Refusal
from tests.kit import nats, pair
from tests.kit.nats import NATS, Nats
from tests.kit.pair import PAIR, Pair


def test_no_type_claims_more_than_it_declares() -> None:
    assert NATS.caps == Capabilities(upgrade=True, downgrade=True, adopt=True), "one server, no backups"
    assert PAIR.caps == Capabilities(scale=True, upgrade=True)
    assert DRIVER.caps == Capabilities(scale=True, upgrade=True, downgrade=True, backup=True, restore=True, adopt=True)


@pytest.mark.parametrize("app_type", [DRIVER, PAIR], ids=["etcd", "pair"])
def test_what_lies_in_members_is_a_certificate_that_is_declared(app_type: AppType[Any]) -> None:
    assert app_type.tls is not None
    declared = {certificate.name for certificate in app_type.tls.certificates}
    assert {purpose for role in app_type.roles for purpose in role.certificates} == declared


def test_fields_for_backups_without_a_plan_are_no_backups() -> None:
    class Planless(type(DRIVER)):  # type: ignore[misc]
        backup_plan = AppType.backup_plan

    assert not Planless().caps.backup and not Planless().caps.restore


def test_what_it_cannot_do_is_refused() -> None:
    (problem,) = PAIR.validate(pair.app(), pair.app(version="8"))
    assert "cannot go back from 8 to 7" in str(problem)
    assert NATS.validate(nats.app(version="2.11"), nats.app()) == []
    assert NATS.validate(nats.app(), nats.app(version="2.11")) == []


def test_what_an_engine_is_follows_from_its_roles_and_versions() -> None:
    assert (NATS.meta.name, NATS.meta.versions, NATS.meta.ports) == (
        "NATS",
        ("2.10", "2.11"),
        {"client": 4222, "metrics": 8222},
    )
    assert PAIR.meta.ports == {"client": 6379, "sentinel": 26379}
    assert (PAIR.members(pair.app(members=5)), NATS.members(nats.app())) == (5, 1)


@pytest.mark.parametrize(
    ("app_type", "field", "impact"),
    [
        (NATS, "max_payload", Impact.RESTART),
        (NATS, "debug", Impact.RELOAD),
        (NATS, "options.write_deadline", Impact.RELOAD),
        (NATS, "options.max_pending", Impact.RESTART),
        (NATS, "options", Impact.RESTART),
        (NATS, "storage", Impact.GROW),
        (NATS, "volume.storage_class", Impact.IMMUTABLE),
        (PAIR, "memory", Impact.RELOAD),
        (PAIR, "failover_seconds", Impact.RESTART),
        (PAIR, "tls.lifetime", Impact.RELOAD),
        (PAIR, "a_field_of_tomorrow", Impact.RESTART),
        (DRIVER, "config.options.max-txn-ops", Impact.RESTART),
    ],
)
def test_what_a_changed_field_costs(app_type: AppType[Any], field: str, impact: Impact) -> None:
    assert app_type.classify(field) is impact


def test_a_field_that_several_settings_follow_costs_what_the_dearest_costs() -> None:
    class Both(pair.PairType):
        settings = (
            Setting[Pair]("memory-for-data", lambda app: app.memory, field="memory"),
            Setting[Pair]("maxmemory", lambda app: app.memory, costs=Impact.RELOAD, field="memory"),
        )

    assert Both().classify("memory") is Impact.RESTART


def test_only_fields_that_the_app_has_are_listed_with_what_they_cost() -> None:
    assert {name.partition(".")[0] for name in NATS.impacts} <= {*Nats.model_fields}
    assert "members" not in NATS.impacts


def test_entries_of_a_map_are_changes_of_their_own() -> None:
    before = nats.app(options={"write_deadline": "2s", "max_pending": "1", "gone": "x"})
    after = nats.app(options={"write_deadline": "5s", "max_pending": "1", "new": "y"})
    assert [*NATS.changed(before, after)] == ["options.gone", "options.new", "options.write_deadline"]
    assert [*NATS.changed(before, before)] == []


def test_a_plan_names_the_option_that_costs_a_restart() -> None:
    def resource(**options: str) -> dict[str, Any]:
        app = Etcd("db", namespace="shop", version="3.5", config=EtcdConfig(options=options))
        own = {"name": app.name, "namespace": app.namespace}
        return {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": own, "spec": app.spec()}

    meaning = explain("Etcd", resource(a="1", b="2"), resource(a="1", b="3"))
    assert meaning.texts == ("restarts 3 pods (config.options.b)",)


def test_an_image_is_the_operators_the_official_one_or_the_users() -> None:
    assert NATS.image(nats.app(), {}) == "docker.io/library/nats:2.10.29"
    assert NATS.image(nats.app(version="2.11.3"), {"nats": "lab/nats:{tag}"}) == "lab/nats:2.11.3"
    assert NATS.version_in("lab/nats:2.11.3", {"nats": "lab/nats:{tag}"}) == "2.11.3"
    assert NATS.image(nats.app(), {}, "docker.io/library/nats:2.10.4") == "docker.io/library/nats:2.10.4"


def test_a_release_that_is_not_known_is_said() -> None:
    assert NATS.unknown_release(nats.app(version="2.10.99")).startswith("NATS 2.10.99 is not known to this release")
    assert NATS.unknown_release(nats.app(version="2.10.1")) == ""


def test_an_upgrade_whose_image_members_have_is_none() -> None:
    status = {"version": "2.10.29", "imageTemplate": "lab/nats:{series}", "members": [{"image": "lab/nats:2.10"}]}
    assert "members have already" in NATS.stays(nats.app(version="2.10.30"), status)
    assert NATS.stays(nats.app(version="2.11"), status) == ""


def test_the_way_between_versions_is_that_of_the_declaration() -> None:
    (hop,) = NATS.path("2.10.29", "2.11")  # type: ignore[misc]
    assert (str(hop), hop.way_back) == ("2.10.29 → 2.11", "roll")
    assert not isinstance(NATS.path("2.11.10", "2.10"), Refusal)


def test_what_may_lose_data_is_for_git_to_allow() -> None:
    remedies = (Remedy("defragment", "full", "act", "slow"), Remedy("discard", "corrupt", "act", "loses"))
    assert [remedy.needs_consent for remedy in remedies] == [False, True]


def test_a_role_that_there_is_not_is_an_error() -> None:
    assert PAIR.role("sentinel").port("sentinel") == 26379
    with pytest.raises(KeyError):
        PAIR.role("proxy")
