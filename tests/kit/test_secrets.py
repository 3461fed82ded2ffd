"""The Secrets of a type that is no etcd: one CA, two certificates of it, members that reload. Data alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from fleet import TLS
from fleet.kit.credentials.authorities import SPREADING
from fleet.kit.credentials.certificates import Authority
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.observe.world import Data, Object, World, make_secret
from tests.kit.cache_type import NOW, SERVER, cache, declared, metadata, pod

LEAF = {"ca.crt", "tls.crt", "tls.key"}


class App:
    """Reconciles of one app, each of which finds what the last one left."""

    def __init__(self, **options: Any) -> None:
        self.tls = declared(**options)
        self.secrets: dict[str, Object] = {}
        self.pods: list[Object] = []
        self.word = ""

    def certificates(self, loaded: dict[str, str] | None = None) -> Certificates[Any]:
        world = World.of([*self.pods, *self.secrets.values()], None, NOW)
        settings = TLS(authority=self.word)
        return Certificates(cache(), self.tls, settings, world, self.pods, loaded or {})

    def reconcile(self, now: datetime = NOW, **loaded: str) -> dict[str, Data]:
        kept = self.certificates({name.replace("_", "-"): trust for name, trust in loaded.items()}).kept(now)
        self.secrets |= {name: make_secret(metadata(name), data) for name, data in kept.items()}
        return kept

    def run(self) -> None:
        self.pods = [pod(ordinal, "hot-server", "hot-sentinel") for ordinal in range(2)]


def certificates_in(bundle: bytes) -> int:
    return bundle.count(b"BEGIN CERTIFICATE")


def test_a_type_with_one_ca_has_one_and_its_certificates_say_what_it_declares() -> None:
    made = App().reconcile()
    assert {name: set(data) for name, data in made.items()} == {
        "hot-ca": {"ca.crt", "ca.key"},
        "hot-server": LEAF,
        "hot-sentinel": LEAF,
        "hot-connection": LEAF,
    }
    authority = Authority.read(made["hot-ca"]["ca.crt"], made["hot-ca"]["ca.key"])
    assert all(authority.signed(made[name]["tls.crt"]) for name in ("hot-server", "hot-sentinel", "hot-connection"))
    names = x509.load_pem_x509_certificate(made["hot-server"]["tls.crt"]).extensions
    dns = names.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert dns == ["hot.shop.svc", "*.hot-peers.shop.svc"]


def test_what_is_good_is_left_as_it_is() -> None:
    app = App()
    assert app.reconcile() == app.reconcile()


def test_where_clients_need_no_certificate_they_are_given_none_and_know_whom_to_trust() -> None:
    made = App(client="none").reconcile()
    assert made["hot-connection"] == {"ca.crt": made["hot-ca"]["ca.crt"]}


def test_clients_are_given_nothing_before_members_serve_it() -> None:
    assert "hot-connection" not in App().certificates().kept(NOW, for_clients=False)


def test_the_names_of_all_keys_are_asked_for() -> None:
    assert App().certificates().names_of_keys == ("hot-ca", "hot-server", "hot-sentinel")


def test_a_type_without_certificates_of_members_has_a_ca_for_clients_alone() -> None:
    assert set(App(certificates=()).reconcile()) == {"hot-ca", "hot-connection"}


def test_members_that_reload_get_a_new_ca_without_a_restart_and_only_when_all_of_them_have_it() -> None:
    app = App()
    first = app.reconcile()
    app.run()
    app.word, later = "2032", NOW + SPREADING
    begun = app.reconcile()
    assert certificates_in(begun["hot-server"]["ca.crt"]) == 2
    assert begun["hot-server"]["tls.crt"] == first["hot-server"]["tls.crt"]
    trust = begun["hot-ca"]["trust"].decode()
    assert app.reconcile(later) == begun, "nothing is known of what members loaded"
    assert app.reconcile(later, hot_0=trust) == begun
    assert app.reconcile(later - timedelta(seconds=1), hot_0=trust, hot_1=trust) == begun, "clients do not have it yet"
    moved = app.reconcile(later, hot_0=trust, hot_1=trust)
    assert moved["hot-server"]["tls.crt"] != first["hot-server"]["tls.crt"]
    assert moved["hot-ca"]["ca.key"] == begun["hot-ca"]["next-ca.key"]
    assert certificates_in(moved["hot-connection"]["ca.crt"]) == 2
    assert app.reconcile(later) == moved, "and what is done stays done when nothing is known again"


@pytest.mark.parametrize("lost", ["hot-server", "hot-sentinel"])
def test_a_ca_that_is_lost_with_what_a_member_runs_with_is_asked_for(lost: str) -> None:
    app = App()
    app.reconcile()
    app.run()
    del app.secrets["hot-ca"], app.secrets[lost]
    assert app.reconcile() == {}
    decision = app.certificates().unsigned()
    assert decision is not None and decision.reason == "AuthorityLost" and lost in decision.message


def test_a_ca_that_is_lost_alone_has_a_successor_and_what_it_signed_stays_trusted() -> None:
    app = App()
    first = app.reconcile()
    app.run()
    del app.secrets["hot-ca"]
    began = app.reconcile()
    assert app.certificates().unsigned() is None and app.certificates().pair(SERVER) is not None
    assert began["hot-server"]["tls.crt"] == first["hot-server"]["tls.crt"]
    assert first["hot-ca"]["ca.crt"] in began["hot-server"]["ca.crt"]
    trust = began["hot-ca"]["trust"].decode()
    assert app.reconcile(NOW, hot_0=trust, hot_1=trust) == began
    moved = app.reconcile(NOW + SPREADING, hot_0=trust, hot_1=trust)
    assert moved["hot-server"]["tls.crt"] != first["hot-server"]["tls.crt"]
    assert certificates_in(moved["hot-sentinel"]["ca.crt"]) == 2


def test_a_short_life_is_renewed_in_time() -> None:
    app = App()
    first = app.reconcile()
    app.run()
    certificates = replace(app.certificates(), settings=TLS(lifetime="30d"))
    assert certificates.kept(NOW) == first, "another lifetime alone makes nothing due"
    renewed = certificates.kept(NOW + timedelta(days=61))
    assert renewed["hot-server"]["tls.crt"] != first["hot-server"]["tls.crt"]
    assert renewed["hot-ca"] == first["hot-ca"]
