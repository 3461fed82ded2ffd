"""When certificates end, as the app's status says it, and when a renewal is late."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.secrets import secrets
from fleet.kit.credentials.certificates import Authority, Leaf
from fleet.kit.credentials.expiry import describe_overdue, list_conditions, list_expiries
from fleet.kit.observe.world import World, make_secret
from fleet.kit.order import decide
from fleet.kit.step import State
from fleet.model.app_settings import TLS
from tests.operator.etcd.observations import IMAGES, NOW, Drawing, app

DAY = datetime.timedelta(days=1)


def world(*lives: tuple[str, datetime.timedelta], now: datetime.datetime = NOW) -> World:
    """Return Secrets with certificates that were issued now and live so long."""
    authority, held = Authority.new("db", now=NOW), []
    for name, life in lives:
        pair = authority.issue(Leaf(name, server=True, lifetime=life), now=NOW)
        held.append(make_secret({"name": name}, {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem}))
    return World.of(held, None, now)


def test_the_condition_has_the_date_of_the_first_that_ends() -> None:
    expiries = list_expiries(world(("db-server", 90 * DAY), ("db-peer", 30 * DAY)), ["db-server", "db-peer"])
    assert list_conditions(expiries, NOW) == (
        ("CertificatesValid", "True", "Valid", "the first to end is that of db-peer, on 2026-01-31 12:00 UTC"),
    )


def test_a_condition_says_the_same_until_a_certificate_is_renewed() -> None:
    """A status is written only when it says something new."""
    expiries = list_expiries(world(("db-server", 90 * DAY)), ["db-server"])
    assert list_conditions(expiries, NOW) == list_conditions(expiries, NOW + 60 * DAY)


@pytest.mark.parametrize(
    ("life", "age", "overdue"),
    [
        (90 * DAY, 60 * DAY, False),  # it is due, and is made anew with this reconcile
        (90 * DAY, 60.9 * DAY, False),
        (90 * DAY, 61.1 * DAY, True),
        (90 * DAY, 100 * DAY, True),
        (datetime.timedelta(minutes=4), datetime.timedelta(minutes=1.5), False),  # its life began five minutes before
        (datetime.timedelta(minutes=4), datetime.timedelta(minutes=2), True),
    ],
)
def test_a_renewal_is_late_some_time_after_it_was_due(
    life: datetime.timedelta, age: datetime.timedelta, overdue: bool
) -> None:
    expiries = list_expiries(world(("db-server", life)), ["db-server"])
    assert bool(describe_overdue(expiries, NOW + age)) is overdue
    ((_, value, reason, message),) = list_conditions(expiries, NOW + age)
    assert (value, reason) == (("False", "Overdue") if overdue else ("True", "Valid"))
    if overdue:
        assert f"db-server {'ended' if age > life else 'ends'} on" in message


def test_others_renew_theirs_when_they_like() -> None:
    theirs = list_expiries(world(("db-connection", 90 * DAY)), ["db-connection"], are_ours=False)
    assert not describe_overdue(theirs, NOW + 80 * DAY)
    assert describe_overdue(theirs, NOW + 89.5 * DAY)


def test_what_is_not_there_or_cannot_be_read_has_no_date() -> None:
    odd = world()
    assert list_expiries(odd, ["db-server"]) == [] and list_conditions([], NOW) == ()
    broken = World.of([make_secret({"name": "db-server"}, {"tls.crt": b"x"})], None, NOW)
    assert list_expiries(broken, ["db-server"]) == []


def reported(drawing: Drawing, later: datetime.timedelta) -> tuple[Any, dict[str, Any]]:
    engine = EtcdEngine(IMAGES)
    seen = drawing.seen()
    held = {one["metadata"]["name"]: one for one in secrets(seen.app, World({}), NOW)}
    seen.world.objects["Secret"] = held  # type: ignore[index]
    object.__setattr__(seen.world, "now", NOW + later)
    conditions = {one[0]: one for one in engine.report(seen, None).conditions}
    return decide(engine.concerns(seen), engine.at_rest(seen)), conditions


def test_an_app_whose_certificates_are_not_renewed_is_degraded() -> None:
    decision, conditions = reported(Drawing(app=app()), DAY)
    assert decision.state is State.OK
    assert conditions["CertificatesValid"][1:3] == ("True", "Valid")
    decision, conditions = reported(Drawing(app=app()), 62 * DAY)
    assert (decision.state, decision.reason) == (State.DEGRADED, "CertificatesOverdue")
    assert "db-server ends on 2026-04-01" in decision.message
    assert conditions["CertificatesValid"][1:3] == ("False", "Overdue")


def test_an_app_without_tls_has_no_such_condition() -> None:
    plain = app(tls=TLS(enabled=False))
    _, conditions = reported(Drawing(app=plain, ran=plain), DAY)
    assert "CertificatesValid" not in conditions
