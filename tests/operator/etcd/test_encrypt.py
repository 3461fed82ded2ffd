"""TLS is turned on for members that others set up without it: every stage, and what ends or disturbs it. Data alone."""

from __future__ import annotations

import copy
import datetime
from dataclasses import replace

import pytest

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.client import client
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.observe import EtcdObservation, members_by_pod, members_of, statuses_of
from fleet.kit.members import MemberRecord
from fleet.kit.observe.world import template_of
from fleet.kit.order import decide
from fleet.kit.step import Act, State
from tests.operator.etcd.observations import applied, decided, reobserved, said
from tests.operator.etcd.simulated_members import ON, Encrypting
from tests.operator.etcd.test_adoption import IMAGES
from tests.operator.existing_setups import SET_UPS, SetUp

PLAIN = [one for one in SET_UPS.values() if not one.tls]


@pytest.mark.parametrize("set_up", PLAIN, ids=[one.name for one in PLAIN])
def test_it_goes_from_plain_to_both_to_tls_alone(set_up: SetUp) -> None:
    found = Encrypting(set_up).turned_on()
    assert found.stage == ""
    opening = found.until(lambda: found.stage == "open")
    assert opening.count(f"apply StatefulSet {set_up.stateful_set}") == 5, (
        "one roll: the template, three members, and held again"
    )
    assert found.until(found.is_settled) == [], "it stays so until there is another roll"
    assert found.converged()[:2] == ("False", "NextRoll")
    found.roll = "now"
    closing = found.until(lambda: found.stage == "closed")
    assert closing.count(f"apply StatefulSet {set_up.stateful_set}") == 5, "one more"
    assert found.until(found.is_settled) == []
    assert found.converged()[0] == "True"
    assert {len(found.urls[pod]) for pod in found.pods} == {1}
    assert all(url.startswith("https://") for urls in found.urls.values() for url in urls)


def test_members_serve_both_first_and_are_told_of_as_before() -> None:
    found = Encrypting().at("open")
    for pod in found.pods:
        file = found.file(pod)
        assert file["listen-client-urls"] == "http://0.0.0.0:2379,https://0.0.0.0:2379"
        assert file["listen-peer-urls"] == "http://0.0.0.0:2380"
        assert file["advertise-client-urls"] == f"http://{pod}.etcd-headless:2379"
        assert file["client-transport-security"]["client-cert-auth"]
        assert file["peer-transport-security"]["trusted-ca-file"] == "/etc/fleet-peer/ca.crt"
    (container,) = found.made["etcd-0"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["port"] == 2379, "as found: what is plain is still served"
    assert {"fleet-server", "fleet-peer"} <= {one["name"] for one in container["volumeMounts"]}
    assert found.urls == {}, "peers are as they were"


def test_then_nothing_plain_is_left_and_probes_ask_where_nothing_is_encrypted() -> None:
    found = Encrypting().at("closed")
    for pod in found.pods:
        file = found.file(pod)
        assert file["listen-client-urls"] == "https://0.0.0.0:2379"
        assert file["listen-peer-urls"] == "https://0.0.0.0:2380"
        assert file["advertise-client-urls"] == f"https://{pod}.etcd-headless:2379"
        assert file["listen-metrics-urls"] == "http://0.0.0.0:2381"
        assert found.urls[pod] == (f"https://{pod}.etcd-headless:2380",)
    (container,) = found.made["etcd-0"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 2381, "scheme": "HTTP"}
    assert container["readinessProbe"]["periodSeconds"] == 2


def test_the_port_of_probes_is_one_that_nothing_in_the_pod_has() -> None:
    found = Encrypting()
    sidecar = {
        "name": "side",
        "image": "x",
        "ports": [{"containerPort": 2381}],
        "livenessProbe": {"tcpSocket": {"port": 2382}},
    }
    found.set["spec"]["template"]["spec"]["containers"].append(sidecar)
    found.made = {pod: copy.deepcopy(found.set["spec"]["template"]) for pod in found.pods}
    assert found.at("closed").kept.metrics == 2383


def test_probes_find_their_port_where_pods_have_addresses_of_the_other_kind_alone() -> None:
    kept = Encrypting().at("open").kept
    config = {**kept.config, "listen-client-urls": "http://127.0.0.1:2379,http://[::]:2379"}
    closing = secured.closing(replace(kept, config=config), {"spec": {"containers": []}})
    made = secured.settings(closing)
    assert made["listen-client-urls"] == "https://127.0.0.1:2379,https://[::]:2379"
    assert made["listen-metrics-urls"] == "http://[::]:2381"
    there = {**config, "listen-metrics-urls": "http://127.0.0.1:2381,http://0.0.0.0:9000"}
    closing = secured.closing(replace(kept, config=there), {"spec": {"containers": []}})
    assert closing.metrics == 9000
    assert "listen-metrics-urls" not in secured.settings(closing)


def test_while_it_closes_every_member_is_known_by_both_before_the_first_restarts() -> None:
    found = Encrypting().at("closing")
    trail = found.until(lambda: template_of(found.set) != template_of({"kind": "Pod", **found.made["etcd-0"]}))
    assert [one.split()[0] for one in trail] == ["readdress"] * 3 + ["apply"]
    assert found.urls["etcd-1"] == ("http://etcd-1.etcd-headless:2380", "https://etcd-1.etcd-headless:2380")
    assert set(found.seen().members) == set(found.pods)


def test_clients_are_given_certificates_only_when_every_member_serves_them() -> None:
    found = Encrypting().taken()
    assert set(found.secrets()) == {"kept-connection"}
    found.spec = {**found.spec, **ON}
    before = found.secrets()
    assert set(before) == {"kept-ca", "kept-server", "kept-peer", "kept-connection"}
    assert set(before["kept-connection"]) == {"host", "port", "url", "endpoints"}
    assert before["kept-connection"]["url"] == b"http://etcd.default.svc:2379"
    assert not names.encrypted(found.seen().app)
    found.until(lambda: found.stage == "open")
    given = found.secrets()["kept-connection"]
    assert given["url"] == b"https://etcd.default.svc:2379"
    assert given["endpoints"].startswith(b"https://etcd-0.etcd-headless:2379,")
    assert {"ca.crt", "tls.crt", "tls.key"} <= set(given)
    assert "--cacert=/etc/fleet-server/ca.crt" in client(found.seen().app).argv
    assert "--endpoints=https://{pod}.etcd-headless:2379" in client(found.seen().app).argv


@pytest.mark.parametrize("set_up", PLAIN, ids=[one.name for one in PLAIN])
def test_certificates_have_the_names_that_clients_and_members_use(set_up: SetUp) -> None:
    app = Encrypting(set_up).at("closed").seen().app
    known = set(names.server_names(app))
    pod = f"{set_up.stateful_set}-2"
    assert {names.host(app, pod), app.connection.host, app.connection.host.partition(".")[0], "localhost"} <= known
    assert f"{app.connection.host}.cluster.local" in known
    peers = {url.split("//")[1].partition(":")[0] for url in names.peer_urls(app, pod)}
    assert peers <= set(names.peer_names(app))


def test_git_says_what_is_pending_at_every_stage() -> None:
    found = Encrypting().turned_on()
    assert "members get certificates" in found.converged()[2]
    assert "pods get the app's labels" in found.converged()[2]
    found.until(lambda: found.stage == "opening")
    assert "members get certificates" in found.converged()[2]
    found.until(lambda: found.stage == "open")
    status, reason, words = found.converged()
    assert (status, reason) == ("False", "NextRoll")
    assert words.startswith("at the next roll (`fleet roll kept`): clients without TLS are still served")
    assert "labels" not in words
    found.roll = "1"
    found.until(lambda: found.stage == "closing")
    assert found.converged() == ("False", "Rolling", found.converged()[2])
    assert "clients without it are shut out" in found.converged()[2]
    found.until(lambda: found.stage == "closed")
    found.until(found.is_settled)
    assert found.converged()[:2] == ("True", "Rolled")


def test_backups_use_it_from_when_on_every_member_serves_it() -> None:
    to = {"backup": {"schedule": "@daily", "to": {"claim": {"claim": "b"}}}}
    found = Encrypting().turned_on()
    found.spec = {**found.spec, **to}
    found.until(lambda: found.stage == "opening")
    engine = EtcdEngine(IMAGES)
    assert "--endpoints=http://etcd.default.svc:2379" in str(engine.attachments(found.seen()))
    found.until(lambda: found.stage == "open")
    (job,) = engine.attachments(found.seen())
    assert "--endpoints=https://etcd.default.svc:2379" in str(job)
    assert "--cacert=/etc/etcd/client/ca.crt" in str(job)
    assert "'secretName': 'kept-connection'" in str(job)


def test_a_new_ca_is_trusted_by_all_members_before_it_is_used() -> None:
    """As for any app of fleet's: whoever does not trust it yet would be cut off."""
    found = Encrypting().at("closed")
    now = found.seen().world.now
    found.hold(now)
    found.hold(now + datetime.timedelta(days=365 * 8))
    held = found.secrets_held()
    assert "next-ca.crt" in held["kept-ca"]
    trust = held["kept-ca"]["trust"].decode()
    seen = found.seen()
    engine = EtcdEngine(IMAGES)
    manifest = applied(decide(engine.concerns(seen), engine.at_rest(seen)), "StatefulSet")
    assert manifest["spec"]["template"]["metadata"]["annotations"]["fleet.dev/trust"] == trust
    found.hold(now + datetime.timedelta(days=365 * 8))
    assert "next-ca.crt" in found.secrets_held()["kept-ca"], "not while members run that were started without"
    for template in found.made.values():
        template["metadata"]["annotations"]["fleet.dev/trust"] = trust
    found.hold(now + datetime.timedelta(days=365 * 8))
    assert "next-ca.crt" not in found.secrets_held()["kept-ca"]


def test_any_planned_roll_closes_and_nothing_else_does() -> None:
    found = Encrypting().at("open")
    found.spec = {**found.spec, "backup": None, "storage": "512Mi"}
    assert found.decision().reason == "Healthy"
    found.spec = {**found.spec, "config": {"heartbeatMs": 200, "electionMs": 2000}}
    assert found.until(lambda: found.stage == "closing") == ["apply ConfigMap kept-members"] * 2, "files, and the stage"
    found.until(lambda: found.stage == "closed")
    assert found.file("etcd-1")["heartbeat-interval"] == 200


def test_what_is_repeated_after_a_crash_leads_to_the_same_end() -> None:
    """Each decision is carried out twice, and of a write whose answer was lost nobody knows but the world."""
    found = Encrypting().turned_on()
    for wanted, word in (("open", ""), ("closed", "1")):
        found.roll = word
        for _ in range(80):
            if found.stage == wanted:
                break
            found.hold(found.seen().world.now)
            decision = found.decision()
            again = found.decision()
            assert [said(one) for one in again.steps] == [said(one) for one in decision.steps], "it is a pure function"
            for step in (*decision.steps, *decision.steps):
                found.carry_out(step)
        assert found.stage == wanted
    assert found.until(found.is_settled) == []


def test_a_change_of_mind_before_anything_was_restarted_is_no_change() -> None:
    found = Encrypting().turned_on()
    before = copy.deepcopy(found.set)
    found.spec = {**found.spec, "tls": {"enabled": False}}
    assert found.decision().reason == "Healthy"
    found.spec = {**found.spec, **ON}
    found.passed()
    assert found.stage == "opening"
    found.spec = {**found.spec, "tls": {"enabled": False}}
    found.passed()
    assert (found.stage, found.decision().reason) == ("", "Healthy")
    assert found.set == before


@pytest.mark.parametrize("stage", ["opening", "open", "closing", "closed"])
def test_a_change_of_mind_after_that_is_blocked_with_the_reason(stage: str) -> None:
    found = Encrypting().turned_on()
    found.until(lambda: found.stage == "opening" and template_of(found.set) != "")
    if stage != "opening":
        found.until(lambda: found.stage == "open")
        found.roll = "" if stage == "open" else "1"
        found.until(lambda: found.stage == stage)
    found.spec = {**found.spec, "tls": {"enabled": False}}
    decision = found.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "StaysEncrypted", ())
    assert "not turned off again" in decision.message
    assert names.encrypted(found.seen().app) == (stage != "opening")
    assert "kept-server" in found.secrets()


def test_it_is_not_called_unchanged_while_a_member_has_it_from_a_roll_that_was_given_up() -> None:
    """The template is as it was found again, and one that came through stays as it is."""
    found = Encrypting().turned_on()
    before = copy.deepcopy(found.set)
    found.until(lambda: found.made["etcd-2"] != before["spec"]["template"])
    found.set = before
    found.spec = {**found.spec, "tls": {"enabled": False}}
    assert (found.decision().reason, found.stage) == ("StaysEncrypted", "opening")
    assert "kept-server" in found.secrets(), "its certificates are renewed"
    found.made["etcd-2"] = copy.deepcopy(before["spec"]["template"])
    found.passed()
    assert found.stage == ""


@pytest.mark.parametrize("version", ["3.4.23", "3.5.7"])
def test_releases_that_mix_up_plain_and_encrypted_clients_are_upgraded_first(version: str) -> None:
    series = version.rpartition(".")[0]
    found = Encrypting(version=version).turned_on()
    decision = found.decision()
    assert (decision.reason, decision.steps) == ("NeedsUpgrade", ())
    assert version in decision.message
    assert "after an upgrade" in found.converged()[2]
    assert found.converged()[1] == "NextRoll", "labels come with any"
    found.spec = {**found.spec, "version": "3.5" if series == "3.4" else "3.5.16"}
    found.until(lambda: found.set["status"]["currentRevision"] != "before" and template_of(found.set) != "")
    found.until(lambda: found.made["etcd-0"] == found.set["spec"]["template"])
    assert found.stage == "", "the upgrade goes first"
    found.version = "3.5.16"
    found.until(lambda: found.stage == "open")


def test_other_concerns_come_first() -> None:
    found = Encrypting().turned_on()
    seen = found.seen()
    assert decided(reobserved(seen, statuses={}), IMAGES).reason != "Encrypting"
    found.silent = frozenset({"etcd-1"})
    assert found.decision().reason not in ("Encrypting", "Rolling")
    assert found.decision().steps == ()


@pytest.mark.parametrize("stage", ["open", "closing"])
def test_a_lost_member_is_replaced_at_any_stage_and_joins_under_names_that_the_others_have(stage: str) -> None:
    found = Encrypting().at(stage)
    found.passed()  # when it closes, one of them is known by two URLs by now, and the others are not
    seen = found.seen()
    listed = members_of(seen) or ()
    gone = reobserved(seen, members=[one for one in listed if one.name != "etcd-2"])
    marked = {**(gone.ledger.places if gone.ledger else {}), "etcd-2": MemberRecord("settled", "12", spoiled="gone")}
    assert gone.ledger is not None
    answering = {pod: state for pod, state in gone.states.items() if pod != "etcd-2"}
    gone = replace(gone, ledger=replace(gone.ledger, places=marked), states=answering)
    (announced,) = decided(gone, IMAGES).steps
    assert isinstance(announced, Act)
    plain, encrypted = "http://etcd-2.etcd-headless:2380", "https://etcd-2.etcd-headless:2380"
    urls = plain if stage == "open" else f"{plain},{encrypted}"
    assert said(announced, gone.app) == f"add {urls}"
    learner = replace(
        next(one for one in listed if one.name == "etcd-2"),
        peer_urls=tuple(urls.split(",")),
        is_learner=True,
        name="",
    )
    joins = reobserved(gone, members=(*(members_of(gone) or ()), learner))
    text = applied(decided(joins, IMAGES), "ConfigMap")["metadata"]["annotations"]["fleet.dev/members"]
    known_as = [f"{pod}={url}" for pod, member in sorted(members_by_pod(joins).items()) for url in member.peer_urls]
    assert all(f'"{one}"' in text for one in known_as)


def test_a_member_that_does_not_come_back_takes_it_back_and_both_are_served_still() -> None:
    found = Encrypting().at("closing")
    found.until(lambda: found.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 2)

    def crashing(seen: EtcdObservation) -> EtcdObservation:
        pods = {**seen.world.objects["Pod"]}
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        status = {"containerStatuses": [{"name": "etcd", "restartCount": 9, "state": waiting}], "conditions": []}
        pods["etcd-2"] = {**pods["etcd-2"], "status": status}
        statuses = {pod: one for pod, one in statuses_of(seen).items() if pod != "etcd-2"}
        world = replace(seen.world, objects={**seen.world.objects, "Pod": pods})
        return reobserved(seen, world, statuses, members_of(seen))

    assert decided(crashing(found.seen()), IMAGES).reason == "RollFailed"
    for step in decided(crashing(found.seen()), IMAGES).steps:
        found.carry_out(step)
    (back,) = decided(crashing(found.seen()), IMAGES).steps
    found.carry_out(back)
    found.made["etcd-2"] = copy.deepcopy(found.set["spec"]["template"])
    assert found.decision().reason == "RollFailed"
    assert found.stage == "closing"
    assert names.encrypted(found.seen().app)
    assert found.file("etcd-2")["listen-client-urls"] == "http://0.0.0.0:2379,https://0.0.0.0:2379"
    found.roll = "2"
    found.until(lambda: found.stage == "closed")


def test_members_that_were_found_with_tls_keep_what_they_have() -> None:
    found = Encrypting(SET_UPS["tls"])
    found.taken()
    assert found.decision().reason == "Healthy"
    found.roll = "1"
    found.until(lambda: template_of(found.set) != "")
    found.until(found.is_settled)
    assert found.stage == ""
    assert found.converged()[0] == "True"
    assert set(found.secrets()) == {"kept-connection"}


def test_a_ledger_of_before_reads_as_one_without() -> None:
    found = Encrypting().taken()
    text = found.written[0]["metadata"]["annotations"]["fleet.dev/members"]
    assert "secured" not in text
    assert "known_as" not in text
    assert found.stage == ""
