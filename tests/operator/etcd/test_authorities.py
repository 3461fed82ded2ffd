"""How the CAs of an etcd are replaced by what its pods were started with. Data alone; the rest is in tests/kit."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime

from fleet import TLS
from fleet.apps.etcd.engine.secrets import secrets
from fleet.apps.etcd.tls import DECLARED
from fleet.kit import names as kit_names
from fleet.kit.credentials.authorities import Authorities, Signer
from fleet.kit.credentials.certificates import Authority
from fleet.kit.credentials.tls import TRUST
from fleet.kit.observe.world import Object, World
from tests.operator.etcd.observations import Drawing, app

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


def read(held: dict[str, bytes]) -> Authorities:
    found = Authorities.read(held, DECLARED.authorities)
    assert found is not None
    return found


def signs(signer: Signer) -> Authority:
    assert signer.current is not None
    return signer.current


def certificates(bundle: bytes) -> int:
    return bundle.count(b"BEGIN CERTIFICATE")


def test_the_secrets_of_an_app_go_the_same_way_by_what_its_pods_were_started_with() -> None:
    """Members restart for the set of CAs that their template names; leaves are of the new one only when all have."""
    wanted = app(tls=TLS(authority="2032"))
    drawing = Drawing(app=wanted, ran=app())

    def passed(found: list[Object]) -> tuple[Authorities, dict[str, bytes], list[Object]]:
        pods = list(drawing.pods.values())
        made = secrets(wanted, World.of([*pods, *found], None, NOW), NOW)
        data = {one["metadata"]["name"]: _data(one) for one in made}
        return read(data[kit_names.secret(wanted, "ca")]), data[kit_names.secret(wanted, "server")], made

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


def test_its_secrets_are_called_as_they_always_were_and_hold_what_they_always_held() -> None:
    made = {one["metadata"]["name"]: (one["type"], set(one["data"])) for one in secrets(app(), World({}), NOW)}
    leaf = {"ca.crt", "tls.crt", "tls.key"}
    assert made == {
        "db-ca": ("Opaque", {"ca.crt", "ca.key", "peer-ca.crt", "peer-ca.key"}),
        "db-server": ("Opaque", leaf),
        "db-peer": ("Opaque", leaf),
        "db-connection": ("Opaque", {*leaf, "host", "port", "url", "endpoints"}),
    }
