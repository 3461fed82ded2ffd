"""A word in git replaces an etcd's CAs on real nodes while clients write."""

from __future__ import annotations

from base64 import b64decode

import pytest

from fleet.kit.credentials.certificates import Authority
from tests.operator.app_on_nodes import App


def _authority(app: App) -> Authority:
    """That signs for clients now."""
    secret = app.api.get(f"/api/v1/namespaces/{app.namespace}/secrets/{app.name}-ca")
    return Authority.read(b64decode(secret["data"]["ca.crt"]), b64decode(secret["data"]["ca.key"]))


def test_an_authority_that_is_lost_is_replaced_without_cutting_anybody_off(app: App) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    before, pods = _authority(app), app.uids()
    with app.writer() as writer:  # with what it was given before
        fault = writer.strike("a lost CA", lambda: app.cluster.kubectl("delete", "secret", f"{app.name}-ca"))
        app.wait("certificates are of a new authority", lambda: _authority(app).pem != before.pem, 240)
        app.wait_ready(150)
        writer.goes_on()
        numbers = writer.stop()
    print(f"{fault.what}: writes stopped for {writer.outage(fault.at):.2f} s")
    restarted = app.uids()
    assert restarted.keys() == pods.keys() and not set(restarted.values()) & set(pods.values()), "all trust it"
    app.every_member_has_all(numbers)  # by clients that come with new certificates


@pytest.mark.full
def test_a_new_authority_comes_in_with_one_restart_of_each_member_and_old_clients_are_still_let_in(app: App) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    before, pods, served = _authority(app), app.uids(), app.certificate("registry-0")
    assert before.signed(served)
    with app.writer() as writer:  # with what it was given before
        fault = writer.strike("a new authority", lambda: app.change(tls={"authority": "2027"}))
        app.wait("certificates are of a new authority", lambda: _authority(app).pem != before.pem, 240)
        app.wait_ready(150)
        writer.goes_on()
        numbers = writer.stop()
    print(f"{fault.what}: writes stopped for {writer.outage(fault.at):.2f} s")
    after, restarted = _authority(app), app.uids()
    app.wait("members show them", lambda: all(after.signed(app.certificate(pod)) for pod in restarted), 150)
    assert restarted.keys() == pods.keys() and not set(restarted.values()) & set(pods.values())
    app.every_member_has_all(numbers)  # by clients that come with new certificates
    for pod in pods:
        said = [note for reason, note in app.events() if reason == "Restarting" and note.startswith(f"{pod} ")]
        assert len(said) == 1, "one restart is enough: it is trusted before it is used"
