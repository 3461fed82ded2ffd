"""etcd's knowledge: defaults, versions, what a change costs and what it means."""

from __future__ import annotations

from typing import Any

import pytest

import fleet.apps
from fleet import S3, TLS, Backup, Resources, Restore, Volume
from fleet.apps import Etcd
from fleet.apps.etcd import DRIVER, EtcdConfig
from fleet.apps.etcd.files import quota
from fleet.apps.etcd.versions import NEWEST
from fleet.apps.impact import explain, meanings
from fleet.apps.registry import driver, drivers, packages
from fleet.kit.driver import Impact, Refusal
from fleet.model.app import API_VERSION
from fleet.objects.desired import Key
from fleet.plan import Step, Verb
from fleet.plan.effect import Severity, effect_of, severity_of, update_effect
from tests.operator.existing_setups import SET_UPS

HELM = [{"manager": "helm", "fieldsV1": {"f:spec": {"f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}}}}]


def changed(found: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**found, "metadata": {**found["metadata"], **metadata}}


def resource(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made = {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": {"name": "db", "namespace": "shop"}}
    return {**made, "spec": {"version": "3.5", **spec}, **({"status": status} if status else {})}


def test_a_name_and_a_version_are_enough() -> None:
    db = Etcd("db", version="3.5")
    assert (db.members, db.storage, db.tls.enabled, db.backup, db.volume.on_delete) == (3, "8Gi", True, None, "keep")
    assert db.spec() == {"version": "3.5"}


def test_endpoint_and_connection_are_plain_values() -> None:
    db = Etcd("db", version="3.5", namespace="shop")
    assert db.endpoint == "db.shop.svc:2379"
    assert db.connection.url == "https://db.shop.svc:2379"
    assert Etcd("db", version="3.5", tls=TLS(enabled=False)).connection.url.startswith("http://")
    assert db.connection.secret_key("ca.crt") == {"secretKeyRef": {"name": "db-connection", "key": "ca.crt"}}


def test_a_spec_is_only_what_was_said_and_reads_back_as_it_was() -> None:
    db = Etcd(
        "db",
        version="3.5.21",
        namespace="shop",
        members=3,
        backup=Backup(schedule="@daily", to=S3("b/f", secret="s3")),
        restore_from=Restore(S3("b/old", secret="s3")),
        config=EtcdConfig(max_request="2Mi", options={"b": "1", "a": "2"}),
    )
    assert db.spec() == {
        "version": "3.5.21",
        "members": 3,
        "backup": {"schedule": "@daily", "to": {"s3": {"place": "b/f", "secret": "s3"}}},
        "restoreFrom": {"source": {"s3": {"place": "b/old", "secret": "s3"}}},
        "config": {"maxRequest": "2Mi", "options": {"a": "2", "b": "1"}},
    }
    manifest = {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": {"name": "db", "namespace": "shop"}}
    assert Etcd.from_manifest({**manifest, "spec": db.spec()}) == db


@pytest.mark.parametrize(
    ("current", "target", "hops"),
    [
        ("3.5", "3.5", []),
        ("3.5.16", "3.5", []),
        ("3.5.16", "3.5.21", ["3.5.16 → 3.5.21 patch"]),
        ("3.5.21", "3.5.16", ["3.5.21 → 3.5.16 patch"]),
        ("3.4.23", "3.5", ["3.4.23 → 3.5 upgrade"]),
        ("3.4", "3.6", ["3.4 → 3.5.26 upgrade", "3.5.26 → 3.6 upgrade"]),
        ("3.5.16", "3.6.1", ["3.5.16 → 3.5.26 patch", "3.5.26 → 3.6.1 upgrade"]),
        ("3.5.27", "3.6", ["3.5.27 → 3.6 upgrade"]),
        ("3.6.2", "3.5", ["3.6.2 → 3.5 downgrade"]),
    ],
)
def test_the_way_from_one_version_to_another(current: str, target: str, hops: list[str]) -> None:
    path = DRIVER.path(current, target)
    assert not isinstance(path, Refusal)
    assert [f"{hop} {hop.kind}" for hop in path] == hops


@pytest.mark.parametrize(
    ("current", "target"), [("3.5", "3.4"), ("3.5.21", "3.4.37"), ("3.6", "3.4"), ("3.6.1", "3.4.37"), ("3.5", "4.0")]
)
def test_where_there_is_no_way_back_the_reason_is_given(current: str, target: str) -> None:
    path = DRIVER.path(current, target)
    assert isinstance(path, Refusal)
    assert path.hint == "restore a backup into a new app"


def test_the_last_way_back_of_an_upgrade_is_known() -> None:
    first, second = DRIVER.path("3.4", "3.6")  # type: ignore[misc]
    assert (first.way_back, second.way_back) == ("restore", "downgrade")


@pytest.mark.parametrize(
    ("field", "impact"),
    [
        ("members", Impact.SCALE),
        ("version", Impact.UPGRADE),
        ("storage", Impact.GROW),
        ("resources.memory", Impact.RESTART),
        ("config.options", Impact.RESTART),
        ("backup.keep", Impact.NONE),
        ("volume.on_delete", Impact.NONE),
        ("volume.storage_class", Impact.IMMUTABLE),
        ("tls.lifetime", Impact.RELOAD),
        ("a_field_of_tomorrow", Impact.RESTART),
    ],
)
def test_what_a_changed_field_costs(field: str, impact: Impact) -> None:
    assert DRIVER.classify(field) is impact


@pytest.mark.parametrize(
    ("before", "after", "destroys"), [(False, True, True), (True, True, False), (True, False, False)]
)
def test_to_force_a_quorum_is_destructive(*, before: bool, after: bool, destroys: bool) -> None:
    live, wanted = resource(forceQuorum=before, paused=True), resource(forceQuorum=after)
    key = Key("fleet.dev", "Etcd", "a", "kv")
    effect = update_effect(key, live, wanted, (), explain("Etcd", live, wanted))
    step = Step(Verb.UPDATE, key, effect=effect)
    assert effect_of(step).destructive is destroys
    assert severity_of(step) is (Severity.LOSE if destroys else Severity.UPDATE), "what an approval allows"
    words = "force_quorum: where a majority is lost, goes on from one member; writes may be lost"
    assert (effect_of(step).words == words) is destroys
    assert (words in meanings("Etcd", live, wanted)) is destroys


def test_every_field_has_a_known_cost() -> None:
    fields = set(Etcd.model_fields) - {"name", "namespace", "opts"}
    assert fields == {name.partition(".")[0] for name in DRIVER.impacts}


RESTARTS = ["restarts 3 pods"]
UNKNOWN = (
    f"etcd 3.5.99 is not known to this release of fleet, whose newest of the series is {NEWEST['3.5']}: "
    f"if there is no image of it, no member starts with it (write '{NEWEST['3.5']}' if that is meant)"
)
ADOPTED = {"adopt": {"identity": "c1", "statefulSet": "kv"}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, resource(), ["etcd 3.5 with 3 members"]),
        (None, resource(members=1), ["etcd 3.5 with 1 member"]),
        (resource(), resource(), []),
        (resource(), resource(members=3, storage="8Gi"), []),
        (resource(), resource(members=5), ["scale 3 → 5"]),
        (resource(members=5), resource(members=3), ["scale 5 → 3"]),
        (resource(version="3.4"), resource(), ["upgrade 3.4 → 3.5", "restarts 3 pods"]),
        (
            resource(version="3.4"),
            resource(version="3.6"),
            ["upgrade 3.4 → 3.6 in 2 hops: 3.4 → 3.5.26 → 3.6", "restarts 3 pods, 2 times each"],
        ),
        (
            resource({"version": "3.4.23"}, version="3.4"),
            resource(version="3.5"),
            ["upgrade 3.4.23 → 3.5", "restarts 3 pods"],
        ),
        (resource({"version": "3.5.21"}), resource(version="3.5.21"), []),
        (None, resource(version="3.5.99"), ["etcd 3.5.99 with 3 members", UNKNOWN]),
        (resource(version="3.5.99"), resource(version="3.5.99", members=5), ["scale 3 → 5"]),
        (resource(version="3.5.99"), resource(version=NEWEST["3.5"]), [f"upgrade 3.5.99 → {NEWEST['3.5']}", *RESTARTS]),
        (
            resource({"version": "3.5.21"}),
            resource(version="3.5.99"),
            ["upgrade 3.5.21 → 3.5.99", UNKNOWN, "restarts 3 pods"],
        ),
        (None, resource(version="3.5.99", image="localhost/etcd:mine"), ["etcd 3.5.99 with 3 members"]),
        (resource(version="3.6"), resource(), ["downgrade 3.6 → 3.5", "restarts 3 pods"]),
        (resource(), resource(storage="10Gi"), ["grow volumes 8Gi → 10Gi"]),
        (resource(), resource(resources={"memory": "1Gi"}), ["restarts 3 pods (resources.memory)"]),
        (
            resource(members=1),
            resource(members=3, config={"logLevel": "warn"}),
            ["scale 1 → 3", "restarts 1 pod (config.log_level)"],
        ),
        (resource(resources={"memory": "1Gi"}), resource(resources={"memory": "1024Mi"}), []),
        (resource(resources={"cpuLimit": "1"}), resource(resources={"cpuLimit": "1000m"}), []),
        (resource(), resource(resources={"cpuLimit": "1"}), ["restarts 3 pods (resources.cpu_limit)"]),
        (resource(), resource(tls={"lifetime": "30d"}), ["reloads tls.lifetime without a restart"]),
        (resource(**ADOPTED, tls={"enabled": False}), resource(**ADOPTED), ["restarts 3 pods (tls.enabled)"]),
        (resource(), resource(backup={"schedule": "@daily", "to": {"claim": {"claim": "b"}}}), []),
    ],
)
def test_what_a_change_means(before: dict[str, Any] | None, after: dict[str, Any], said: list[str]) -> None:
    assert list(meanings("Etcd", before, after)) == said


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (resource(storage="10Gi"), resource(storage="9Gi"), "storage"),
        (resource(), resource(tls={"enabled": False}), "tls.enabled"),
        (resource(tls={"enabled": False}), resource(), "tls.enabled"),
        (resource(**ADOPTED), resource(**ADOPTED, tls={"enabled": False}), "tls.enabled"),
        (resource(), resource(volume={"storageClass": "fast"}), "volume.storage_class"),
        (resource(), resource(version="3.4"), "version"),
        (resource(), resource(restoreFrom={"source": {"claim": {"claim": "b"}}}), "restore_from"),
    ],
)
def test_a_change_that_cannot_be_is_refused_before_it_is_sent(
    before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    meaning = explain("Etcd", before, after)
    assert [problem.field for problem in meaning.problems] == [field]
    assert meaning.restarts == 0
    assert meanings("Etcd", before, after)[-1].startswith(f"refused: {field}: ")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({**ADOPTED, "tls": {"authority": "2"}}, "tls.authority"),
        ({**ADOPTED, "tls": {"lifetime": "30d"}}, "tls.lifetime"),
        ({**ADOPTED, "volume": {"onDelete": "delete"}}, "volume.on_delete"),
        ({**ADOPTED, "restoreFrom": {"source": {"claim": {"claim": "b"}}}}, "restore_from"),
    ],
)
def test_what_nothing_would_come_of_is_refused_of_a_new_app_too(spec: dict[str, Any], field: str) -> None:
    meaning = explain("Etcd", None, resource(**spec))
    assert [problem.field for problem in meaning.problems] == [field]
    assert all(problem.hint for problem in meaning.problems)
    assert meaning.texts == ()


RUNNING = SET_UPS["tls"].stateful("shop")
KV = Key("apps", "StatefulSet", "shop", "kv")


@pytest.mark.parametrize(
    ("spec", "found", "said"),
    [
        ({}, RUNNING, "adopt StatefulSet kv with 3 members as it runs: unchanged, restarts 0"),
        ({"members": 5}, RUNNING, "blocked: StatefulSet kv has 3 members, and git says 5"),
        ({"tls": {"enabled": False}}, RUNNING, "blocked: StatefulSet kv runs with TLS, and git says without"),
        ({"version": "3.6"}, RUNNING, "3.4 runs, and git says 3.6"),
        (
            {"resources": {"cpu": "1", "memory": "64Mi"}},
            RUNNING,
            "blocked: StatefulSet kv is otherwise than git says: cpu",
        ),
        ({"config": {"heartbeatMs": 50}}, RUNNING, "heartbeat-interval is 100, and git says 50"),
        ({"image": "mine:3.4"}, RUNNING, "3.4 runs, and git says mine:3.4"),
        (
            {},
            changed(RUNNING, generation=2) | {"status": {"observedGeneration": 1}},
            "blocked: StatefulSet kv has pods of",
        ),
        ({}, None, "blocked: there is no StatefulSet kv in shop"),
        ({}, changed(RUNNING, labels={"fleet.dev/stack": "x"}), "blocked: StatefulSet kv belongs to the stack x"),
        (
            {},
            changed(RUNNING, managedFields=HELM),
            "blocked: StatefulSet kv: how it updates its pods or keeps its volumes is managed by helm",
        ),
        (
            {"adopt": {**ADOPTED["adopt"], "takeFrom": ["helm"]}},
            changed(RUNNING, managedFields=HELM),
            "taken from helm",
        ),
    ],
)
def test_what_is_taken_over_is_compared_with_what_runs(
    spec: dict[str, Any], found: dict[str, Any] | None, said: str
) -> None:
    as_it_is = {"version": "3.4", "resources": {"cpu": "200m", "memory": "64Mi"}}
    wanted = resource(**{**as_it_is, **ADOPTED, **spec})
    (words,) = explain("Etcd", None, wanted, {KV: found}).texts
    assert said in words
    assert ("restarts 0" in words) == ("blocked" not in words)


def _rolled(found: dict[str, Any]) -> dict[str, Any]:
    template = found["spec"]["template"]
    labels = {**template["metadata"]["labels"], "fleet.dev/app": "kv"}
    return {**found, "spec": {**found["spec"], "template": {**template, "metadata": {"labels": labels}}}}


CHART = [{"manager": "helm", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {}}}}}, {"manager": "other"}]
BY_HELM = "the first roll waits until git says take_from=['helm']: helm manages the template"


@pytest.mark.parametrize(
    ("spec", "around", "said"),
    [
        ({"members": 5}, {KV: RUNNING}, ["scale 3 → 5, after the first roll of 3 pods: `fleet roll db`"]),
        (
            {"members": 5, "config": {"logLevel": "warn"}},
            {KV: RUNNING},
            ["scale 3 → 5, after the first roll of 3 pods", "restarts 3 pods (config.log_level)"],
        ),
        (
            {"members": 5},
            {KV: changed(RUNNING, managedFields=CHART)},
            ["scale 3 → 5, after the first roll of 3 pods: `fleet roll db`", BY_HELM],
        ),
        ({"config": {"logLevel": "warn"}}, {KV: changed(RUNNING, managedFields=CHART)}, [..., BY_HELM]),
        (
            {"members": 5, "adopt": {**ADOPTED["adopt"], "takeFrom": ["helm"]}},
            {KV: changed(RUNNING, managedFields=CHART)},
            ["scale 3 → 5, after the first roll of 3 pods: `fleet roll db`"],
        ),
        ({"members": 5}, {KV: _rolled(changed(RUNNING, managedFields=CHART))}, ["scale 3 → 5"]),
        ({"members": 1}, {KV: changed(RUNNING, managedFields=CHART)}, ["scale 3 → 1"]),
        ({"members": 5}, {}, ["scale 3 → 5, after a first roll of members that others set up if there was none yet"]),
    ],
)
def test_a_resize_of_what_was_taken_over_says_what_comes_before_it(
    spec: dict[str, Any], around: dict[Key, Any], said: list[Any]
) -> None:
    live, wanted = resource(**ADOPTED), resource(**{**ADOPTED, **spec})
    meaning = explain("Etcd", live, wanted, around)
    assert list(meaning.texts)[-len(said) :][1:] == said[1:]
    assert said[0] is ... or meaning.texts[0] == said[0]
    if meaning.members:
        effect = update_effect(Key("fleet.dev", "Etcd", "shop", "db"), live, wanted, (), meaning)
        assert effect is not None
        assert meaning.texts[0] in effect.words


def test_what_nobody_looked_at_is_not_promised() -> None:
    (words,) = explain("Etcd", None, resource(**ADOPTED)).texts
    assert words == "adopt StatefulSet kv with 3 members as it runs: not compared with what is there"


def test_restore_from_may_be_taken_out_once_it_has_done_its_work() -> None:
    assert meanings("Etcd", resource(restoreFrom={"source": {"claim": {"claim": "b"}}}), resource()) == ()


def test_a_live_object_of_another_release_gives_no_false_certainty() -> None:
    (said,) = meanings("Etcd", resource(fieldOfTomorrow=1), resource())
    assert "restarts are possible" in said


def test_kinds_that_are_no_apps_mean_nothing() -> None:
    assert meanings("ConfigMap", None, {}) == ()
    assert driver("etcd") is None  # a kind is written as it is


def test_every_app_type_is_a_package_with_one_line_of_registration() -> None:
    assert [one.app.kind() for one in drivers()] == dir(fleet.apps)
    typed = open(fleet.apps.__file__, encoding="utf-8").read()  # noqa: PTH123, SIM115
    for one, package in zip(drivers(), sorted(packages().values()), strict=True):
        assert f"from {package} import {one.app.kind()} as {one.app.kind()}\n" in typed
        assert getattr(fleet.apps, one.app.kind()) is one.app


def test_settings_have_values_that_suit_a_first_try() -> None:
    assert Resources() == Resources(cpu="250m", memory="512Mi")
    assert Volume().on_scale_in == "delete"


@pytest.mark.parametrize(
    ("storage", "mebibytes"), [("256Mi", 64), ("1Gi", 512), ("2Gi", 1536), ("10Gi", 7680), ("100Gi", 8192)]
)
def test_the_database_leaves_room_for_its_logs(storage: str, mebibytes: int) -> None:
    assert quota(Etcd("db", namespace="shop", version="3.5", storage=storage)) == mebibytes * 2**20
