"""A type with nothing but a declaration passes the conformance suite in memory, by inherited behaviour alone."""

from __future__ import annotations

import pytest

from fleet.kit.app_engine import AppEngine
from fleet.testing.conformance import Case, Subject, cases
from fleet.testing.conformance.plain_servers import PlainServers
from fleet.testing.conformance.subject import change_spec, kill_pod
from tests.kit.nats import Nats, NatsType

IMAGES = {"nats": "nats:{version}"}

SUBJECT = Subject(
    kind=Nats.kind(),
    spec={"version": "2.10", "storage": "2Gi"},
    make_servers=PlainServers,
    make_engine=lambda servers: AppEngine(NatsType(), IMAGES),
    changes=(  # one member: whoever restarts it interrupts its clients
        change_spec("upgrade", interrupts=True, version="2.11"),
        change_spec("a setting", interrupts=True, maxPayload=2048),
        change_spec("a setting that needs no restart", debug=True),
        change_spec("storage", storage="4Gi"),
        kill_pod(0, interrupts=True),
    ),
    minds=(("upgrade", "a setting"), ("a setting", "upgrade"), ("storage", "a setting")),
    bad_image="nats:2.11.10",
    bad_spec={"version": "2.11"},
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_nats_conforms(case: Case) -> None:
    case.run()
