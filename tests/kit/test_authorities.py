"""How an app's CAs are replaced while members run: trusted first, then used, then forgotten. Data alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet.kit.credentials.authorities import Authorities, Signer, trusted_sets
from fleet.kit.credentials.certificates import Authority
from fleet.kit.credentials.tls import CLIENTS, PEERS, TRUST, DeclaredAuthority, DeclaredCertificate, Tls
from tests.kit.cache_type import SERVER, Cache, declared, names_of, pod

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
LIFE = timedelta(days=90)
SPREADING = timedelta(minutes=10)
BOTH = (CLIENTS, PEERS)
KEPT = json.loads((Path(__file__).parent / "authorities.json").read_text(encoding="utf-8"))


def held(word: str = "") -> Authorities:
    return Authorities.made(BOTH, "shop/db", word, NOW)


def read(held: dict[str, bytes]) -> Authorities:
    found = Authorities.read(held, BOTH)
    assert found is not None
    return found


def after(found: Authorities, word: str, *trusted: str, at: datetime = NOW) -> Authorities:
    """The next state, kept as a Secret in between."""
    kept = read(found.write())
    return kept.advanced("shop/db", word, now=at, life=LIFE, trusted=frozenset(trusted))


def signs(signer: Signer) -> Authority:
    assert signer.current is not None
    return signer.current


def pems(found: Authorities) -> tuple[bytes, bytes]:
    return signs(found.clients).pem, signs(found.signers[PEERS]).pem


def certificates(bundle: bytes) -> int:
    return bundle.count(b"BEGIN CERTIFICATE")


def test_with_the_same_word_nothing_changes() -> None:
    found = held("2031")
    assert after(found, "2031", "").write() == found.write()


def test_a_new_word_makes_new_authorities_that_are_trusted_and_sign_nothing_yet() -> None:
    found = held()
    begun = after(found, "2032", "")
    assert pems(begun) == pems(found), "the old ones sign"
    assert (begun.word, begun.coming_word) == ("", "2032")
    assert begun.trust, "pods that trust them are told by it from those that do not"
    for signer, old in zip((begun.clients, begun.signers[PEERS]), pems(found), strict=True):
        assert signer.coming is not None
        assert old in signer.bundle and signer.coming.pem in signer.bundle


@pytest.mark.parametrize("running", [("",), ("", "{new}"), ("{new}", "another")])
def test_certificates_do_not_move_while_a_member_runs_that_does_not_trust_the_new_authority(
    running: tuple[str, ...],
) -> None:
    begun = after(held(), "2032", "")
    trusted = [one.format(new=begun.trust) for one in running]
    waiting = after(begun, "2032", *trusted, at=NOW + timedelta(days=400))
    assert waiting.write() == begun.write(), "however long it takes"


def test_a_word_that_changes_again_meanwhile_waits_for_its_turn() -> None:
    begun = after(held(), "2032", "")
    assert after(begun, "2033", "").write() == begun.write()
    moved = after(begun, "2033", begun.trust)
    assert moved.word == "2032"
    again = after(moved, "2033", begun.trust)
    assert (again.word, again.coming_word) == ("2032", "2033")
    assert again.trust != begun.trust


def test_certificates_move_when_every_member_trusts_the_new_authority_and_the_old_one_stays_trusted() -> None:
    found = held()
    begun = after(found, "2032", "")
    clients, peers = begun.clients.coming, begun.signers[PEERS].coming
    assert clients is not None and peers is not None
    moved = after(begun, "2032", begun.trust)
    assert pems(moved) == (clients.pem, peers.pem)
    assert (moved.clients.coming, moved.signers[PEERS].coming) == (None, None)
    assert (moved.word, moved.coming_word, moved.trust) == ("2032", "", begun.trust)
    assert moved.until == (NOW + LIFE).isoformat(timespec="seconds")
    for signer, old in zip((moved.clients, moved.signers[PEERS]), pems(found), strict=True):
        assert old in signer.bundle and signs(signer).pem in signer.bundle


def test_the_old_authority_is_forgotten_when_no_certificate_of_it_can_be_in_use_and_nobody_restarts_for_it() -> None:
    begun = after(held(), "2032", "")
    moved = after(begun, "2032", begun.trust)
    assert after(moved, "2032", begun.trust, at=NOW + LIFE).write() == moved.write()
    forgotten = after(moved, "2032", begun.trust, at=NOW + LIFE + timedelta(seconds=1))
    assert [certificates(one.bundle) for one in (forgotten.clients, forgotten.signers[PEERS])] == [1, 1]
    assert pems(forgotten) == pems(moved)
    assert (forgotten.trust, forgotten.until) == (moved.trust, "")
    assert after(forgotten, "2032", begun.trust, at=NOW + 2 * LIFE).write() == forgotten.write()


def test_an_authority_that_ages_is_replaced_without_a_word() -> None:
    late = NOW + timedelta(days=3000)
    begun = after(held(), "", "", at=late)
    assert begun.clients.coming is not None and begun.trust
    moved = after(begun, "", begun.trust, at=late)
    assert moved.word == "" and signs(moved.clients).expires > late + timedelta(days=3000)


def test_when_nothing_runs_the_new_authority_is_used_at_once() -> None:
    found = held()
    fresh = after(found, "2032")
    assert set(pems(fresh)).isdisjoint(pems(found))
    assert (fresh.word, fresh.clients.coming, fresh.trust, certificates(fresh.clients.bundle)) == ("2032", None, "", 1)


# What is stored: written by the release before, for an etcd


@pytest.mark.parametrize("moment", sorted(KEPT))
def test_a_secret_that_an_earlier_release_wrote_is_read_and_written_again_to_the_byte(moment: str) -> None:
    held = {name: text.encode() for name, text in KEPT[moment].items()}
    assert read(held).write() == held


def test_the_secret_has_the_keys_that_it_always_had() -> None:
    first = Authorities.made(BOTH, "shop/db", "2031", NOW)
    begun = after(first, "2032", "")
    moved = after(begun, "2032", begun.trust)
    kept = first.write()
    without_a_key = {name: text for name, text in kept.items() if not name.startswith("ca")}
    relied = {CLIENTS: kept["ca.crt"], PEERS: kept["peer-ca.crt"]}
    lost = Authorities.replaced(BOTH, without_a_key, relied, name="shop/db", word="2031", now=NOW)
    made = {"made": first, "begun": begun, "moved": moved, "lost": lost}
    assert {moment: set(found.write()) for moment, found in made.items()} == {
        moment: set(data) for moment, data in KEPT.items()
    }


def test_what_an_earlier_release_began_is_brought_to_its_end() -> None:
    begun = read({name: text.encode() for name, text in KEPT["begun"].items()})
    assert after(begun, "2032", "").write() == begun.write()
    moved = after(begun, "2032", "9b9502bfe6")
    assert moved.write()["ca.crt"] == KEPT["begun"]["next-ca.crt"].encode()
    assert moved.write()["until"] == KEPT["moved"]["until"].encode()


# As many CAs as a type declares


@pytest.mark.parametrize("authorities", [(CLIENTS,), BOTH, (*BOTH, DeclaredAuthority("agent-ca", "agents"))])
def test_all_that_a_type_declares_are_replaced_together(authorities: tuple[DeclaredAuthority, ...]) -> None:
    first = Authorities.made(authorities, "shop/hot", "", NOW)
    begun = first.advanced("shop/hot", "2032", now=NOW, life=LIFE, trusted=frozenset({""}))
    moved = begun.advanced("shop/hot", "2032", now=NOW, life=LIFE, trusted=frozenset({begun.trust}))
    for authority in authorities:
        coming = begun.signers[authority].coming
        assert coming is not None and signs(moved.signers[authority]).pem == coming.pem
    assert Authorities.read(moved.write(), authorities) is not None
    assert len(set(moved.write()) & {"peer-ca.key", "agent-ca.key"}) == len(authorities) - 1


def test_one_that_is_declared_and_not_there_is_missed() -> None:
    assert Authorities.read(Authorities.made((CLIENTS,), "shop/hot", "", NOW).write(), BOTH) is None


def test_a_declaration_that_cannot_hold_is_refused() -> None:
    unsigned: DeclaredCertificate[Cache] = DeclaredCertificate("peer", PEERS, lambda app: app.name, names_of)
    with pytest.raises(ValueError, match="no CA that is declared signs 'peer'"):
        Tls(certificates=(unsigned,))
    with pytest.raises(ValueError, match="two Secrets of one name"):
        Tls(certificates=(SERVER, SERVER))
    with pytest.raises(ValueError, match="clients trust no CA"):
        Tls(authorities=(PEERS,))


# How it is known what members trust


@pytest.mark.parametrize(("reads", "rolls"), [("start", True), ("reload", False), ("handshake", False)])
def test_members_restart_for_a_ca_only_if_they_read_it_when_they_start(reads: str, rolls: bool) -> None:
    assert declared(reads_authorities=reads).rolls_for_trust is rolls
    assert not declared(reads_authorities=reads, client="none").rolls_for_trust, "they check nobody"
    peers = {"authorities": BOTH, "client": "none", "reads_authorities": reads}
    assert declared(**peers).rolls_for_trust is rolls, "but for each other"


def test_members_that_read_at_their_start_trust_what_they_were_started_with() -> None:
    through, behind = pod(0), pod(1)
    through["metadata"]["annotations"] = {TRUST: "new"}
    assert trusted_sets(declared(reads_authorities="start"), [through, behind], "new") == {"new", ""}


def test_members_that_reload_trust_what_the_engine_proved_of_them_and_else_nothing() -> None:
    pods = [pod(0), pod(1)]
    assert trusted_sets(declared(), pods, "new") == {""}
    assert trusted_sets(declared(), pods, "new", {"hot-0": "new"}) == {"new", ""}
    assert trusted_sets(declared(), pods, "new", {"hot-0": "new", "hot-1": "new"}) == {"new"}


def test_members_that_read_with_each_handshake_trust_what_is_there_unless_their_node_may_be_cut_off() -> None:
    tls = declared(reads_authorities="handshake")
    assert trusted_sets(tls, [pod(0), pod(1)], "new") == {"new"}
    assert trusted_sets(tls, [pod(0), pod(1, ready=False)], "new") == {"new", ""}


def test_members_that_check_nobody_need_not_trust_a_new_ca() -> None:
    assert trusted_sets(declared(client="none"), [pod(0)], "new") == {"new"}
    assert trusted_sets(declared(client="none"), [], "new") == frozenset(), "and none that run are none"


def test_where_nobody_restarts_clients_have_time_to_learn_of_the_new_ca_before_it_is_shown() -> None:
    def later(found: Authorities, minutes: int) -> Authorities:
        known = Authorities.read(found.write(), (CLIENTS,))
        assert known is not None
        now = NOW + timedelta(minutes=minutes)
        trusted = frozenset({known.trust})
        return known.advanced("shop/hot", "2032", now=now, life=LIFE, trusted=trusted, spreading=SPREADING)

    begun = later(Authorities.made((CLIENTS,), "shop/hot", "", NOW), 0)
    assert begun.is_changing and begun.since == NOW.isoformat()
    assert later(begun, 9).write() == begun.write()
    moved = later(begun, 10)
    assert (moved.is_changing, moved.since, moved.word) == (False, "", "2032")
