"""Records of what was observed and decided: they say nothing secret, and the same is decided from them again."""

from __future__ import annotations

import copy
import gzip
import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.layout import Layout
from fleet.apps.replay import replay
from fleet.errors import NotFoundError
from fleet.kit.members import MemberRecord
from fleet.kit.names import lay_out
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import secret_data
from fleet.kit.operate.explain import describe_decision, explain
from fleet.kit.operate.record import (
    MOST_TEXT,
    RecordError,
    list_classes,
    make_record,
    pack_record,
    read_observation,
    read_record,
    redact_texts,
    write_observation,
)
from fleet.kit.order import diagnose
from fleet.kit.step import State
from tests.kit.app_trial import AppTrial
from tests.kit.nats import NATS
from tests.kit.nats import app as nats
from tests.kit.pair import app as pair
from tests.kit.test_plain import PlainPair
from tests.operator.etcd.observations import IMAGES, Drawing, app, keys

SPECS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "5 members": {"members": 5},
    "1 member": {"members": 1},
    "other configuration": {"config": {"log_level": "warn"}},
    "3.6": {"version": "3.6"},
    "larger volumes": {"storage": "16Gi"},
}
TORN = '{"level":"panic","msg":"failed to read WAL, cannot be repaired","error":"wal: crc mismatch"}'
STATES: dict[str, Callable[[Drawing], object]] = {
    "well": lambda drawing: drawing,
    "one silent": lambda drawing: drawing.silence("db-2"),
    "no majority": lambda drawing: drawing.no_majority("db-1", "db-2"),
    "unreachable": lambda drawing: drawing.no_majority("db-0", "db-1", "db-2", ready=True),
    "full": lambda drawing: drawing.alarm("NOSPACE", 0xA0),
    "corrupt": lambda drawing: drawing.alarm("CORRUPT", 0xA1),
    "crashing": lambda drawing: drawing.crash("db-2", TORN),
    "a learner": lambda drawing: drawing.learner(2, started=True).place("db-2", MemberRecord("joining", "1a2")),
    "removed": lambda drawing: drawing.off_the_list("db-2"),
    "no pod": lambda drawing: drawing.remove_pod("db-1"),
}
CLASSES = ("fleet.kit", "fleet.apps.etcd")
ENGINE = EtcdEngine(IMAGES)
SETUP = {"kind": "Etcd", "group": "fleet.dev", "images": dict(IMAGES), "permissions": {}}


def record_of(observation: Observation[Any]) -> dict[str, Any]:
    concern, decision = diagnose(ENGINE.concerns(observation), ENGINE.at_rest(observation))
    said = {**describe_decision(decision), "explanation": explain(observation, concern, decision), "error": ""}
    entry = {**redact_texts(observation, said), "observation": write_observation(observation)}
    return make_record(SETUP, {"namespace": "shop", "name": "db"}, [entry])


def written(drawing: Drawing) -> dict[str, Any]:
    """As it comes out of a file."""
    return read_record(pack_record(record_of(drawing.seen())))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("spec", SPECS)
def test_the_same_is_decided_from_a_record(spec: str, state: str) -> None:
    drawing = Drawing(app=app(**SPECS[spec]), ran=app())
    STATES[state](drawing)
    (decision,) = replay(written(drawing))
    assert (decision.error, decision.differences) == ("", ())
    assert decision.replayed is not None and decision.replayed["explanation"] == decision.recorded["explanation"]


def test_what_is_read_is_what_was_written_but_for_secrets() -> None:
    seen = Drawing().silence("db-1").seen()
    again = read_observation(json.loads(json.dumps(write_observation(seen))), list_classes(*CLASSES))
    for name in ("app", "ledger", "role", "states", "silences", "agreement", "barred"):
        assert getattr(again, name) == getattr(seen, name), name
    for kind in ("Pod", "StatefulSet", "ConfigMap", "PersistentVolumeClaim"):
        assert again.world.objects[kind] == seen.world.objects[kind]
    assert (again.world.nodes, again.world.now) == (seen.world.nodes, seen.world.now)
    assert again.world.objects["Secret"].keys() == seen.world.objects["Secret"].keys()


def test_the_roles_of_an_app_share_what_its_cluster_holds_also_when_they_are_read() -> None:
    seen = Drawing().seen()
    both = replace(seen, others=(replace(seen, role=replace(seen.role, name="proxy", votes=False)),))
    data = json.loads(json.dumps(write_observation(both)))
    again = read_observation(data, list_classes(*CLASSES))
    assert len(data["shared"]) == 2
    assert again.others[0].world is again.world and again.others[0].role.name == "proxy"
    assert [role.role.name for role in again.roles] == ["", "proxy"]


@pytest.mark.parametrize("spec", [nats(), pair()], ids=["one role", "two roles"])
def test_each_decision_in_the_life_of_another_type_is_made_again(spec: Any) -> None:
    cluster = AppTrial(NATS if spec.kind() == "Nats" else PlainPair(), spec)
    classes = list_classes("fleet.kit", type(spec).__module__)
    recorded = 0
    for members in (3, 5, 3):
        cluster.wants(**({"members": members} if spec.kind() == "Nats" else {}))
        for _ in range(40):
            decision = cluster.reconcile()
            text = json.dumps(write_observation(cluster.observed))
            again = read_observation(json.loads(text), classes)
            concern, replayed = diagnose(cluster.engine.concerns(again), cluster.engine.at_rest(again))
            assert describe_decision(replayed) == describe_decision(decision)
            assert (
                explain(again, concern, replayed)["members"] == explain(cluster.observed, concern, decision)["members"]
            )
            recorded += 1
            if decision.state is State.OK:
                break
    assert recorded > 5


def test_an_adopted_app_keeps_its_layout_in_a_record() -> None:
    layout = Layout("old", "main", "disk", "http://{pod}:2380", "http://{pod}:2379", 2379, files={"ca": ("tls", "ca")})
    seen = Drawing().seen()
    adopted = Observation(lay_out(app(), layout), seen.world, seen.ledger, seen.role)
    again = read_observation(json.loads(json.dumps(write_observation(adopted))), list_classes(*CLASSES))
    assert names.layout(again.app) == layout


def test_nothing_of_a_secret_is_in_a_record_also_where_a_program_printed_it() -> None:
    drawing = Drawing()
    secrets = copy.deepcopy(list(keys()))
    own = {
        "name": "db-user-shop",
        "namespace": "shop",
        "labels": {"fleet.dev/app": "db"},
        "annotations": {"n": "hunter2-x"},
    }
    password = {"username": b"shop", "password": b"hunter2-hunter2"}
    data = {name: b64encode(value).decode() for name, value in password.items()}
    drawing.keys = (*secrets, {"apiVersion": "v1", "kind": "Secret", "metadata": own, "data": data})
    drawing.crash("db-2", "panic: cannot log in with hunter2-hunter2")
    text = json.dumps(record_of(drawing.seen()))
    assert "cannot log in with" in text and "db-user-shop" in text and '"password"' in text
    assert "hunter2" not in text and "PRIVATE KEY" not in text
    for secret in secrets:
        for name, value in secret_data(secret).items():
            if name.endswith(".key"):
                body = value.decode().splitlines()[1]
                assert body not in text and b64encode(value).decode()[40:80] not in text


def test_a_mark_tells_values_apart_and_whether_there_is_one() -> None:
    drawing = Drawing()
    own = {"name": "s", "namespace": "shop"}
    data = {name: b64encode(value).decode() for name, value in {"a": b"1", "b": b"1", "c": b"2", "d": b""}.items()}
    drawing.keys = ({"apiVersion": "v1", "kind": "Secret", "metadata": own, "data": data},)
    world = write_observation(drawing.seen())["shared"]
    (secret,) = [found for shared in world for found in shared.get("objects", ()) if found["kind"] == "Secret"]
    marks = secret["marks"]
    assert marks["a"] == marks["b"] != marks["c"] and marks["d"] == "" and "data" not in secret


def test_the_record_of_a_large_app_is_small() -> None:
    drawing = Drawing(app=app(members=7))
    assert len(pack_record(record_of(drawing.seen()))) < 32 << 10


def test_a_change_of_what_is_decided_is_named() -> None:
    record = written(Drawing().silence("db-2"))
    record["decisions"][0] |= {"reason": "MemberReplaced", "steps": [{"verb": "delete", "object": "Pod db-2"}]}
    (decision,) = replay(record)
    assert decision.differences == ("reason: MemberReplaced → MembersUnwell", "steps: delete Pod db-2 → none")


# Files of anybody


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no record"),
        (b'{"kind": "fleet explanation", "format": 99, "release": "9.9"}', "format 99"),
        (b'{"kind": "fleet explanation", "format": 1}', "lacks its engine"),
        (b'{"kind": "fleet explanation", "format": 1, "engine": {}, "app": {}, "decisions": []}', "kind and group"),
        (b" " * (MOST_TEXT + 1), "more than 16 MiB"),
        (gzip.compress(b" " * (MOST_TEXT + 1)), "more than 16 MiB"),
        (gzip.compress(b"{}")[:-12], "no JSON"),
        (b"\x1f\x8b\x00\x00\x00\x00\x00\x00", "compressed"),
    ],
    ids=range(10),
)
def test_what_is_no_record_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        read_record(content)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"$class": "subprocess:Popen", "args": "true"}, "no data of this app type"),
        ({"$class": "fleet.kit.observe.observation:Observation", "evil": 1}, "no field 'evil'"),
        ({"$class": "fleet.kit.observe.observation:Observation"}, "not as this release has it"),
        ({"$class": "fleet.kit.observe.world:World"}, "not as this release has it"),
        ({"$class": "fleet.apps.etcd.spec:Etcd", "name": "db"}, "not read as fields"),
        (
            {
                "$app": "fleet.apps.etcd.spec:Etcd",
                "manifest": {"apiVersion": "v1", "kind": "Etcd", "metadata": {"name": "db"}, "spec": {"x": 1}},
                "more": {},
            },
            "refused",
        ),
        ({"$omitted": "builtins:bytes"}, "could not be recorded"),
        ({"$same": 99}, "not as this release has it"),
        ({"$never": 1}, "does not know"),
        ({"$time": "yesterday"}, "not as this release has it"),
        (None, "no observation"),
    ],
)
def test_a_value_that_is_no_data_of_the_app_type_is_refused(value: Any, reason: str) -> None:
    record = written(Drawing())
    record["decisions"][0]["observation"] = value and {"shared": [], "observation": value}
    (decision,) = replay(record)
    assert decision.replayed is None and (reason in decision.error or "not in the record" in decision.error)


def test_values_that_lie_in_each_other_too_deep_are_refused() -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    record = written(Drawing())
    record["decisions"][0]["observation"] = {"shared": [], "observation": deep}
    (decision,) = replay(record)
    assert "too deep" in decision.error


def test_a_record_of_an_unknown_app_type_is_refused() -> None:
    record = written(Drawing())
    record["engine"]["kind"] = "Nothing"
    with pytest.raises(NotFoundError, match="no app type Nothing"):
        replay(record)


def test_observations_that_make_no_sense_are_an_error_of_the_record_alone() -> None:
    record = written(Drawing())
    shared = record["decisions"][0]["observation"]["shared"]
    for found in shared:
        for item in found.get("objects", ()):
            if item["kind"] == "StatefulSet":
                item["spec"] = "nothing"
    (decision,) = replay(record)
    assert decision.replayed is None and decision.error
