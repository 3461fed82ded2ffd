"""The Secret with an app's CA is gone while members run. Data alone.

Members trust the CA that they were started with and no other, so whatever is done about it must leave them certificates
of that one until all of them trust another.
"""

from __future__ import annotations

import copy
from base64 import b64decode
from datetime import UTC, datetime

import pytest

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.observe import make_observation
from fleet.apps.etcd.engine.secrets import certificates, unsigned
from fleet.apps.etcd.tls import DECLARED
from fleet.kit import names as kit_names
from fleet.kit.credentials.authorities import Authorities
from fleet.kit.credentials.certificates import Authority
from fleet.kit.credentials.tls import PEERS, TRUST
from fleet.kit.observe.world import Object, World
from fleet.kit.step import State
from tests.operator.etcd.observations import IMAGES, Drawing, app, decided
from tests.operator.etcd.simulated_members import Encrypting

NOW = datetime(2026, 1, 1, 13, tzinfo=UTC)
CA, SERVER, PEER, CONNECTION = "db-ca", "db-server", "db-peer", "db-connection"
APP = app()
Held = dict[str, dict[str, bytes]]


class Life:
    """Passes over the Secrets of an etcd with its members, each of which finds what the last one left."""

    def __init__(self) -> None:
        self.drawing = Drawing()
        self.kept: dict[str, Object] = {one["metadata"]["name"]: copy.deepcopy(one) for one in self.drawing.keys}
        self.first = self.held()

    @property
    def world(self) -> World:
        return World.of([*self.drawing.pods.values(), *self.kept.values()], None, NOW)

    def passed(self) -> Held:
        made = EtcdEngine(IMAGES).surroundings(APP, self.world, NOW)
        self.kept |= {one["metadata"]["name"]: one for one in made if one["kind"] == "Secret"}
        return self.held()

    def held(self) -> Held:
        return {
            name: {key: b64decode(text) for key, text in one["data"].items()} for name, one in sorted(self.kept.items())
        }

    def lose(self, *secrets: str) -> Life:
        for secret in secrets:
            del self.kept[secret]
        return self

    def restart(self, *pods: str, trust: str) -> None:
        for pod in pods:
            self.drawing.pods[pod]["metadata"].setdefault("annotations", {})[TRUST] = trust

    def authorities(self) -> Authorities:
        found = Authorities.read(self.held()[CA], DECLARED.authorities)
        assert found is not None
        return found

    def is_blocked(self) -> bool:
        return unsigned(make_observation(APP, self.world, self.drawing.ledger)) is not None


def trusted_by(held: Held, secret: str) -> list[bytes]:
    return held[secret]["ca.crt"].split(b"-----END CERTIFICATE-----\n")[:-1]


@pytest.mark.parametrize("keys", [None, ("ca.key",), ("peer-ca.key", "peer-ca.crt")])
def test_members_keep_their_certificates_until_all_of_them_trust_a_new_authority(keys: tuple[str, ...] | None) -> None:
    life = Life()
    if keys is None:
        life.lose(CA)
    else:
        for key in keys:
            del life.kept[CA]["data"][key]
    began = life.passed()
    for secret in (SERVER, PEER, CONNECTION):
        assert began[secret]["tls.crt"] == life.first[secret]["tls.crt"], "what members trust"
        assert trusted_by(life.first, secret)[0] in trusted_by(began, secret), "they are told to trust it still"
        assert len(trusted_by(began, secret)) == 2, "and the one that comes"
    trust = life.authorities().trust
    assert trust, "members restart for it"
    assert life.passed() == began, "and nothing more happens until then"
    life.restart("db-2", "db-1", trust=trust)
    assert life.passed() == began
    life.restart("db-0", trust=trust)
    moved = life.passed()
    assert life.authorities().is_whole
    for secret, signer in ((SERVER, life.authorities().clients), (PEER, life.authorities().signers[PEERS])):
        assert signer.current is not None and signer.current.signed(moved[secret]["tls.crt"])
        assert trusted_by(life.first, secret)[0] in trusted_by(moved, secret), "clients come with old ones for a while"
    assert life.passed() == moved


def test_meanwhile_the_operator_is_let_in_with_what_members_themselves_have() -> None:
    life = Life().lose(CA)
    life.passed()
    pair = certificates(APP, life.world).pair(DECLARED.certificates[0])
    assert pair is not None
    assert Authority.read(life.first[CA]["ca.crt"], life.first[CA]["ca.key"]).signed(pair.cert_pem)


@pytest.mark.parametrize("secret", [SERVER, PEER])
def test_where_certificates_are_gone_with_their_authority_nothing_is_made_and_a_person_is_asked(secret: str) -> None:
    life = Life().lose(CA, secret)
    before = life.held()
    assert life.passed() == before
    assert life.is_blocked()


@pytest.mark.parametrize("secret", [SERVER, PEER])
def test_certificates_that_are_lost_while_a_new_authority_comes_are_asked_for_too(secret: str) -> None:
    life = Life().lose(CA)
    life.passed()
    before = life.lose(secret).held()
    assert life.passed() == before
    assert life.is_blocked()


def test_it_says_what_to_do_before_anything_about_members_that_do_not_answer() -> None:
    drawing = Drawing().no_majority("db-0", "db-1", "db-2")
    drawing.keys = ()
    decision = decided(drawing.seen())
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "AuthorityLost", ())
    assert "db-ca" in decision.message and "db-server, db-peer" in decision.message


@pytest.mark.parametrize("lost", [(CA,), (CA, SERVER), (CA, SERVER, PEER)])
def test_when_no_member_runs_all_is_made_anew(lost: tuple[str, ...]) -> None:
    """A person deleted all pods: those that come wait for their certificates."""
    life = Life().lose(*lost)
    for pod in life.drawing.pods.values():
        pod["status"]["phase"] = "Pending"
    assert not life.is_blocked()
    made, held = life.passed(), life.authorities()
    assert held.is_whole and held.clients.current is not None
    assert held.clients.current.signed(made[SERVER]["tls.crt"])
    assert len(trusted_by(made, SERVER)) == 1
    assert life.passed() == made


def test_one_that_was_being_replaced_is_made_anew_at_once_when_no_member_runs_any_more() -> None:
    life = Life().lose(CA)
    life.passed()
    life.lose(SERVER, PEER)
    for pod in life.drawing.pods.values():
        pod["status"]["phase"] = "Pending"
    made = life.passed()
    assert life.authorities().is_whole and life.passed() == made


def test_what_is_lost_and_can_be_signed_again_is_signed_again() -> None:
    life = Life().lose(SERVER, PEER, CONNECTION)
    made = life.passed()
    assert made[CA] == life.first[CA] and made[SERVER]["ca.crt"] == life.first[SERVER]["ca.crt"]


def test_a_certificate_that_can_be_signed_again_is_while_another_ca_is_lost() -> None:
    life = Life().lose(SERVER)
    for key in ("peer-ca.key", "peer-ca.crt"):
        del life.kept[CA]["data"][key]
    made = life.passed()
    assert Authority.read(life.first[CA]["ca.crt"], life.first[CA]["ca.key"]).signed(made[SERVER]["tls.crt"])
    assert made[PEER]["tls.crt"] == life.first[PEER]["tls.crt"]
    assert life.passed() == made


@pytest.mark.parametrize("stage", ["open", "closing", "closed"])
def test_members_that_others_set_up_keep_theirs_too(stage: str) -> None:
    found = Encrypting().at(stage)
    found.hold(NOW)
    first, secret = found.secrets_held(), kit_names.secret(found.app, "server")
    found.written = [one for one in found.written if one["metadata"]["name"] != kit_names.secret(found.app, "ca")]
    found.hold(NOW)
    again = found.secrets_held()
    mounted = any("fleet-server" in str(one["spec"]["volumes"]) for one in found.made.values())
    assert mounted and again[secret]["tls.crt"] == first[secret]["tls.crt"]
    assert trusted_by(first, secret)[0] in trusted_by(again, secret)
