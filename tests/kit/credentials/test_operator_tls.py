"""How the operator is let in by members: with a certificate of their CA, with their own, with files of others."""

from __future__ import annotations

import datetime
import ssl
from typing import Any

from fleet.kit.credentials.operator_tls import WITHOUT_TLS, files_as_found, operator_tls, operator_tls_as_found
from fleet.kit.credentials.secrets import Certificates
from fleet.kit.observe.world import World, make_secret
from fleet.model.app_settings import TLS
from tests.kit.pair import PAIR, Pair, app

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


POD = {
    "kind": "Pod",
    "metadata": {"name": "cache-0"},
    "spec": {"volumes": [{"secret": {"secretName": "cache-server"}}]},
    "status": {"phase": "Running"},
}


def certificates(data: dict[str, dict[str, bytes]], *pods: dict[str, Any]) -> Certificates[Pair]:
    world = World.of([*pods, *(make_secret({"name": name}, held) for name, held in data.items())], None, NOW)
    assert PAIR.tls is not None
    return Certificates(app(), PAIR.tls, TLS(), world)


def test_the_operator_signs_a_certificate_for_itself_as_long_as_the_ca_has_its_key() -> None:
    (server,) = certificates({}).tls.certificates
    assert operator_tls(certificates({}), server) is None
    kept = certificates({}).kept(NOW)
    tls = operator_tls(certificates(kept), server)
    assert tls is not None and tls.make is not None
    assert isinstance(tls.make(), ssl.SSLContext)


def test_where_the_key_of_the_ca_is_lost_the_members_own_certificate_lets_it_in() -> None:
    (server,) = certificates({}).tls.certificates
    kept = certificates({}).kept(NOW)
    before = operator_tls(certificates(kept), server)
    server_pair = {"cache-server": kept["cache-server"]}
    again = certificates(server_pair, POD).kept(NOW)  # of members that run, and that trust the CA that is lost
    tls = operator_tls(certificates(again), server)
    assert tls is not None and tls.make is not None and before is not None
    assert tls.mark != before.mark and tls.mark.startswith(kept["cache-server"]["tls.crt"])
    assert isinstance(tls.make(), ssl.SSLContext)
    assert operator_tls(certificates({"cache-ca": again["cache-ca"]}), server) is None


def test_files_of_others_are_whole_or_none() -> None:
    kept = certificates({}).kept(NOW)["cache-server"]
    places = {"ca": ("theirs", "root"), "cert": ("theirs", "pair"), "key": ("theirs", "secret")}
    theirs = {"root": kept["ca.crt"], "pair": kept["tls.crt"], "secret": kept["tls.key"]}
    files = files_as_found(World.of([make_secret({"name": "theirs"}, theirs)], None, NOW), places)
    assert files == {name: kept[name] for name in ("ca.crt", "tls.crt", "tls.key")}
    tls = operator_tls_as_found(files)
    assert tls is not None and tls.make is not None and isinstance(tls.make(), ssl.SSLContext)
    del theirs["secret"]
    part = files_as_found(World.of([make_secret({"name": "theirs"}, theirs)], None, NOW), places)
    assert part is None and operator_tls_as_found(part) is None


def test_without_tls_there_is_nothing_to_make() -> None:
    assert WITHOUT_TLS.make is None
