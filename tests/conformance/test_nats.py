"""A type with nothing but a declaration passes the conformance suite in memory, by inherited behaviour alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.testing.conformance import Case, cases, declared_subject
from fleet.testing.conformance.subject import change_spec
from tests.kit.nats import NATS, app
from tests.kit.test_adoption import broker
from tests.kit.test_adoption_killed import as_applied

DECLARED = declared_subject(NATS, app(storage="2Gi"))
RESTARTS = change_spec("a setting", interrupts=True, maxPayload=2048)
RELOADS = change_spec("a setting that needs no restart", debug=True)
MINDS = (*DECLARED.minds, ("a setting", "version 2.11"))
SUBJECT = replace(
    DECLARED, changes=(*DECLARED.changes, RESTARTS, RELOADS), minds=MINDS, as_found=(as_applied(broker()),)
)


@pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
def test_nats_conforms(case: Case) -> None:
    case.run()
