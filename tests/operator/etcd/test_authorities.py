"""How an app's CAs are replaced while members run: trusted first, then used, then forgotten. Data alone."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta

import pytest

from fleet import TLS
from fleet.apps.etcd import names
from fleet.apps.etcd.engine.authorities import Authorities, Signer
from fleet.apps.etcd.engine.secrets import secrets
from fleet.apps.etcd.manifests import TRUST
from fleet.kit.certificates import Authority
from fleet.kit.world import Object, World
from tests.operator.etcd.observations import Drawing, app

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
LIFE = timedelta(days=90)


def held(word: str = "") -> Authorities:
    return Authorities(Signer(Authority.new("ca", now=NOW)), Signer(Authority.new("peers", now=NOW)), word)


def read(held: dict[str, bytes]) -> Authorities:
    found = Authorities.read(held)
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
    return signs(found.clients).pem, signs(found.peers).pem


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
    for signer, old in zip((begun.clients, begun.peers), pems(found), strict=True):
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
    assert begun.clients.coming is not None and begun.peers.coming is not None
    moved = after(begun, "2032", begun.trust)
    assert pems(moved) == (begun.clients.coming.pem, begun.peers.coming.pem)
    assert (moved.clients.coming, moved.peers.coming) == (None, None)
    assert (moved.word, moved.coming_word, moved.trust) == ("2032", "", begun.trust)
    assert moved.until == (NOW + LIFE).isoformat(timespec="seconds")
    for signer, old in zip((moved.clients, moved.peers), pems(found), strict=True):
        assert old in signer.bundle and signs(signer).pem in signer.bundle


def test_the_old_authority_is_forgotten_when_no_certificate_of_it_can_be_in_use_and_nobody_restarts_for_it() -> None:
    begun = after(held(), "2032", "")
    moved = after(begun, "2032", begun.trust)
    assert after(moved, "2032", begun.trust, at=NOW + LIFE).write() == moved.write()
    forgotten = after(moved, "2032", begun.trust, at=NOW + LIFE + timedelta(seconds=1))
    assert [certificates(one.bundle) for one in (forgotten.clients, forgotten.peers)] == [1, 1]
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


def test_the_secrets_of_an_app_go_the_same_way_by_what_its_pods_were_started_with() -> None:
    """Members restart for the set of CAs that their template names; leaves are of the new one only when all have."""
    wanted = app(tls=TLS(authority="2032"))
    drawing = Drawing(app=wanted, ran=app())

    def passed(found: list[Object]) -> tuple[Authorities, dict[str, bytes], list[Object]]:
        pods = list(drawing.pods.values())
        made = secrets(wanted, World.of([*pods, *found], None, NOW), NOW)
        data = {one["metadata"]["name"]: _data(one) for one in made}
        return read(data[names.authority_secret(wanted)]), data[names.server_secret(wanted)], made

    first = secrets(app(), World.of([], None, NOW), NOW)
    begun, leaf, kept = passed(first)
    assert begun.clients.coming is not None and certificates(leaf["ca.crt"]) == 2
    assert signs(begun.clients).signed(leaf["tls.crt"])
    for pod in ("db-2", "db-1"):
        drawing.pods[pod]["metadata"].setdefault("annotations", {})[TRUST] = begun.trust
        waiting, leaf, kept = passed(kept)
        assert waiting.write() == begun.write() and signs(begun.clients).signed(leaf["tls.crt"])
    drawing.pods["db-0"]["metadata"].setdefault("annotations", {})[TRUST] = begun.trust
    moved, leaf, kept = passed(kept)
    assert signs(moved.clients).pem == begun.clients.coming.pem
    assert signs(moved.clients).signed(leaf["tls.crt"]) and certificates(leaf["ca.crt"]) == 2


def _data(secret: Object) -> dict[str, bytes]:
    return {name: b64decode(value) for name, value in secret["data"].items()}
