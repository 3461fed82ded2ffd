"""Users and settings that need no restart, as every engine with a half that acts has them by its declaration."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.kit.credentials.users import User
from fleet.kit.decide.credentials import USERS_READY
from fleet.kit.decide.settings import IN_FORCE
from fleet.kit.members import LEDGER, Ledger, read, read_annotations
from fleet.kit.operate.explain import describe_decision, explain
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.operate.record import list_classes, read_observation, write_observation
from fleet.kit.order import Concern, diagnose
from fleet.kit.step import State
from fleet.testing.conformance import Case, Subject, Trial, cases
from fleet.testing.conformance.plain_servers import PlainServers
from tests.kit.keeper import KEEPER, SUBJECT, KeeperEngine, KeeperServers, KeeperType, app


def installed(**spec: Any) -> Trial:
    trial = SUBJECT.make_trial(**spec)
    trial.settle()
    trial.members.acts.clear()
    trial.moves.clear()
    return trial


def plain_subject(app_type: KeeperType) -> Subject:
    return replace(SUBJECT, make_servers=PlainServers, make_engine=lambda servers: PlainEngine(app_type, {}))


def secret(trial: Trial, name: str) -> dict[str, str]:
    found = trial.cluster.get("Secret", name)
    assert found is not None
    return {key: b64decode(value).decode() for key, value in found["data"].items()}


def condition(trial: Trial, kind: str) -> tuple[str, str, str]:
    report = KeeperEngine(trial.members).report(trial.observe(), None)
    (found,) = [one[1:] for one in report.conditions if one[0] == kind]
    return found


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_it_conforms(case: Case) -> None:
    case.run()


def test_users_are_made_with_the_app_and_clients_find_theirs_in_the_connection_secret() -> None:
    trial = installed()
    password = secret(trial, "db-user-app")["password"]
    assert secret(trial, "db-connection")["password"] == password
    assert secret(trial, "db-connection")["username"] == "app"
    assert {user for server in trial.members.servers.values() for user in server.accepts} == {"app", "peer", "fleet"}
    assert all(server.accepts["app"] == {password} for server in trial.members.servers.values())
    assert condition(trial, USERS_READY) == ("True", "Settled", "all members accept app, peer, fleet")
    keys = KeeperEngine(trial.members).keys(app(), trial.cluster.world())
    assert keys == ("store-user-app", "store-user-peer", "store-user-fleet")


def test_a_container_starts_with_the_password_of_its_user_and_with_its_own_name() -> None:
    trial = installed()
    pod = trial.cluster.get("Pod", "db-0")
    assert pod is not None
    environment = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
    reference = {"secretKeyRef": {"name": "db-user-fleet", "key": "password"}}
    assert environment["KEEPER_OPERATOR"]["valueFrom"] == reference
    assert environment["KEEPER_NAME"]["value"] == "$(POD_NAME)"


def test_another_word_gives_new_passwords_and_for_a_day_both_are_accepted() -> None:
    trial = installed()
    before = secret(trial, "db-user-app")["password"]
    trial.change(passwords={"rotation": "2031"})
    trial.settle()
    after = secret(trial, "db-connection")["password"]
    assert after != before
    assert all(server.accepts["app"] == {before, after} for server in trial.members.servers.values())
    status, reason, message = condition(trial, USERS_READY)
    assert (status, reason) == ("True", "Rotating")
    assert "the old password of app is accepted until 2026-01-02T" in message
    trial.cluster.now += timedelta(days=2)
    trial.settle()
    assert all(server.accepts["app"] == {after} for server in trial.members.servers.values())
    assert condition(trial, USERS_READY)[1] == "Settled"
    assert not any(move.startswith("delete Pod") for move in trial.moves), "no member restarted for it"


def test_nobody_is_told_of_users_while_one_member_cannot_be_asked() -> None:
    trial = installed()
    trial.members.silent.add("db-1")
    trial.change(passwords={"rotation": "2031"})
    for _ in range(8):
        trial.reconcile_once()
        trial.tick()
    assert trial.members.acts == []
    assert condition(trial, USERS_READY)[:2] == ("Unknown", "NotAsked")
    trial.members.silent.clear()
    trial.settle()
    assert ("user", "app") in trial.members.acts


def test_the_decision_about_a_user_is_explained_without_a_password() -> None:
    trial = installed()
    trial.change(passwords={"rotation": "2031"})
    engine, decisions = KeeperEngine(trial.members), []
    for _ in range(40):
        observed = trial.observe()
        concern, decision = diagnose(engine.concerns(observed), engine.at_rest(observed))
        if concern is Concern.CREDENTIALS:
            said = explain(observed, concern, decision)
            assert said["about"] == "the users of members and their passwords"
            decisions.append(str((describe_decision(decision), said)))
        trial.reconcile_once()
        trial.tick()
    told = " ".join(decisions)
    assert "'object': 'user app'" in told and "app gets a second password" in told
    known = [secret(trial, f"db-user-{name}") for name in ("app", "peer", "fleet")]
    assert not [text for one in known for key, text in one.items() if key.endswith("password") and text in told]


def test_what_was_decided_about_users_is_decided_again_from_a_record_that_has_no_password() -> None:
    trial = installed()
    trial.change(passwords={"rotation": "2031"}, entries=7)
    engine, classes, seen = KeeperEngine(trial.members), list_classes("fleet.kit", "tests.kit.keeper"), set()
    for number in range(60):
        observed = trial.observe()
        concern, decision = diagnose(engine.concerns(observed), engine.at_rest(observed))
        record = write_observation(observed)
        assert not any(text in str(record) for text in _passwords(trial))
        read = read_observation(record, classes)
        again, replayed = diagnose(engine.concerns(read), engine.at_rest(read))
        assert (again, describe_decision(replayed)) == (concern, describe_decision(decision)), f"reconcile {number}"
        seen.add(decision.message)
        trial.reconcile_once()
        trial.tick()
        trial.cluster.now += timedelta(hours=3)
    assert any("is accepted no more" in message for message in seen)


def _passwords(trial: Trial) -> set[str]:
    secrets = [secret(trial, f"db-user-{name}") for name in ("app", "peer", "fleet")]
    return {text for one in secrets for key, text in one.items() if key.endswith("password")}


def test_a_secret_that_nobody_can_read_is_for_a_person_and_members_are_looked_after() -> None:
    trial = installed()
    found = trial.cluster.get("Secret", "db-user-app")
    assert found is not None
    trial.cluster.apply({**found, "data": {"password": ""}})
    trial.reconcile_once()
    assert (trial.decisions[-1].state, trial.decisions[-1].reason) == (State.BLOCKED, "PasswordUnreadable")
    assert condition(trial, USERS_READY)[:2] == ("False", "PasswordMissing")
    trial.cluster.kill_pod("db-1")
    trial.cluster.tick()
    assert trial.cluster.get("Pod", "db-1") is not None


# Settings


def test_settings_reach_members_while_they_run_and_the_file_for_their_next_start() -> None:
    trial = installed()
    trial.change(entries=500, verbose=True)
    trial.settle()
    assert trial.members.acts == [("reload", "db-0"), ("reload", "db-1"), ("reload", "db-2")]
    expected = {"entries": "500", "verbose": "true", "threads": "2"}
    assert all(server.in_force == expected for server in trial.members.servers.values())
    assert condition(trial, IN_FORCE) == ("True", "InForce", "members run with the settings that git says")
    trial.cluster.kill_pod("db-0")
    trial.settle()
    assert trial.members.servers["db-0"].in_force == expected


def test_a_reload_that_was_lost_is_asked_for_again() -> None:
    trial = installed()
    trial.members.deaf.add("db-1")
    trial.change(entries=500)
    for _ in range(6):
        trial.reconcile_once()
        trial.tick()
    assert trial.members.acts.count(("reload", "db-1")) > 1
    assert condition(trial, IN_FORCE) == (
        "False",
        "Reloading",
        "db-1 is about to take entries; db-2 is about to take entries",
    )
    trial.members.deaf.clear()
    trial.settle()
    assert all(server.in_force["entries"] == "500" for server in trial.members.servers.values())


def test_what_no_reload_brings_waits_for_a_restart_and_that_is_said() -> None:
    trial = installed()
    trial.change(threads=8)
    trial.settle()
    assert trial.members.acts == []
    assert not any(move.startswith("delete Pod") for move in trial.moves)
    status, reason, message = condition(trial, IN_FORCE)
    assert (status, reason) == ("False", "WaitsForRestart")
    assert message.startswith("threads of db-0 waits for a restart; ")
    trial.change(version="1.1")
    trial.settle()
    assert condition(trial, IN_FORCE)[1] == "InForce"


def test_members_that_do_not_say_what_is_in_force_are_asked_for_no_reload() -> None:
    trial = installed()
    for server in trial.members.servers.values():
        server.in_force.clear()
    trial.change(entries=500)
    trial.settle()
    assert trial.members.acts == []
    report = KeeperEngine(trial.members).report(trial.observe(), None)
    assert IN_FORCE not in [one[0] for one in report.conditions]


def test_a_request_that_only_begins_something_is_awaited_in_the_next_observation() -> None:
    trial = installed()
    trial.members.slow = True
    trial.change(entries=500)
    trial.settle()
    assert trial.members.acts == [("reload", "db-0"), ("reload", "db-1"), ("reload", "db-2")]
    assert all(server.in_force["entries"] == "500" for server in trial.members.servers.values())


# Patience


def upgraded(patience: float, recovering: str = "") -> Trial:
    """Return a trial four minutes after an upgrade with which a member starts, and serves nobody."""

    class Typed(KeeperType):
        roles = (replace(KEEPER.roles[0], patience=patience),)

    subject = replace(SUBJECT, make_engine=lambda servers: KeeperEngine(servers, Typed()))
    trial = subject.make_trial()
    trial.settle()
    trial.members.hung.add("docker.io/library/keeper:1.1.0")
    trial.members.recovering = recovering
    trial.change(version="1.1")
    for _ in range(240):
        trial.reconcile_once()
        trial.tick()
    return trial


def test_a_role_says_how_long_its_members_may_take_to_come_back() -> None:
    impatient, patient = upgraded(60.0), upgraded(600.0)
    assert impatient.decisions[-1].reason == "RollFailed"
    assert all(impatient.members.is_ready(f"db-{number}") for number in range(3)), "it went back"
    assert patient.decisions[-1].state is State.PROGRESSING
    assert not any(decision.reason == "RollingBack" for decision in patient.decisions)


def test_no_patience_ends_for_a_member_that_says_how_far_it_is() -> None:
    trial = upgraded(60.0, recovering="it reads its log, 40 %")
    assert not any(decision.reason in ("RollFailed", "RollingBack") for decision in trial.decisions)
    serve_again(trial)
    trial.settle()
    assert {server.version for server in trial.members.servers.values()} == {"1.1.0"}


def serve_again(trial: Trial) -> None:
    """Let the member that recovers say that it serves, a moment before its kubelet calls it ready."""
    trial.members.hung.clear()
    trial.members.servers["db-2"].hangs = False


def busy_notes(trial: Trial) -> dict[str, str]:
    found = trial.cluster.get("ConfigMap", "db-members")
    assert found is not None
    ledger = read_annotations(found["metadata"]["annotations"])
    assert ledger is not None
    return dict(ledger.busy)


def test_patience_begins_when_a_member_stops_being_busy() -> None:
    trial = upgraded(60.0, recovering="it reads its log, 40 %")
    assert list(busy_notes(trial)) == ["db-2"]
    trial.members.recovering = ""  # it is silent from now on, and serves nobody
    begun = trial.cluster.now
    while trial.decisions[-1].reason != "RollFailed" and trial.cluster.now - begun < timedelta(seconds=120):
        trial.reconcile_once()
        trial.tick()
    passed = (trial.cluster.now - begun).total_seconds()
    assert 60.0 * 3 / 4 <= passed <= 62.0, "it is given up all the same, after its patience"
    for _ in range(60):
        trial.reconcile_once()
        trial.tick()
    assert trial.decisions[-1].reason == "RollFailed" and busy_notes(trial) == {}
    assert {server.version for server in trial.members.servers.values()} == {"1.0.0"}


def test_a_release_that_knows_no_notes_reads_the_ledger() -> None:
    ledger = Ledger("1", busy={"db-2": "2031-05-01T00:00:00+00:00"})
    assert read_annotations(ledger.annotations) == ledger
    assert read(ledger.annotations[LEDGER]) == replace(ledger, busy={})
    assert list(replace(ledger, busy={}).annotations) == [LEDGER]
    for wrong in ("[1]", '{"db-2": "soon"}', '{"db-2": "2031-05-01T00:00:00"}'):
        with pytest.raises((ValueError, TypeError)):
            read_annotations({**ledger.annotations, "fleet.dev/busy": wrong})


def test_that_a_member_is_busy_is_noted_no_oftener_than_it_must_be_and_forgotten_with_the_roll() -> None:
    trial = upgraded(60.0, recovering="it reads its log, 40 %")
    written = [move for move in trial.moves if move == "apply ConfigMap db-members"]
    quick = upgraded(600.0)
    others = [move for move in quick.moves if move == "apply ConfigMap db-members"]
    assert len(written) - len(others) <= 240 / 15
    serve_again(trial)
    trial.settle()
    assert busy_notes(trial) == {}


# Types whose members are asked nothing


def test_a_type_without_a_half_that_acts_has_passwords_that_stay() -> None:
    class Fixed(KeeperType):
        users = (User("app", rotates=False),)
        roles = (replace(KEEPER.roles[0], environment={"KEEPER_PASSWORD": "{password:app}"}),)

    trial = plain_subject(Fixed()).make_trial()
    trial.settle()
    password = secret(trial, "db-user-app")["password"]
    assert secret(trial, "db-connection")["password"] == password
    trial.change(members=4)
    trial.settle()
    assert secret(trial, "db-user-app")["password"] == password
    with pytest.raises(ConfigurationError, match="passwords of Keeper are to rotate"):
        PlainEngine(KEEPER, {})


def test_a_role_names_only_users_that_the_type_has() -> None:
    class Wrong(KeeperType):
        users = (User("app", rotates=False),)

    with pytest.raises(ValueError, match="has no user 'fleet', whose password KEEPER_OPERATOR is to be"):
        plain_subject(Wrong()).make_trial().settle()


def test_a_type_that_names_no_client_says_so_to_whoever_wants_to_connect() -> None:
    with pytest.raises(ConfigurationError, match="Keeper does not say which program connects to its members"):
        KEEPER.client(app())


def test_servers_of_the_subject_are_made_anew_for_each_trial() -> None:
    assert SUBJECT.make_trial().members is not SUBJECT.make_trial().members
    assert isinstance(SUBJECT.make_trial().members, KeeperServers)
