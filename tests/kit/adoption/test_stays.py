"""What git cannot say of members that others set up."""

from __future__ import annotations

import pytest

from fleet.kit.adoption.stays import list_what_stays
from fleet.model.app_settings import TLS
from fleet.model.resource import Adopt, Options
from tests.kit.pair import app

ADOPTED = Options(adopt=Adopt(identity="c1"))


@pytest.mark.parametrize(
    ("tls", "field"),
    [(TLS(enabled=True, authority="2"), "tls.authority"), (TLS(enabled=True, lifetime="720h"), "tls.lifetime")],
)
def test_certificates_that_others_made_stay_theirs(tls: TLS, field: str) -> None:
    assert [problem.field for problem in list_what_stays(app(opts=ADOPTED), tls)] == [field]
    assert list(list_what_stays(app(), tls)) == []


def test_that_members_are_to_be_encrypted_can_be_said() -> None:
    assert list(list_what_stays(app(opts=ADOPTED), TLS(enabled=True))) == []
