"""What git cannot say of members that others set up."""

from __future__ import annotations

import pytest

from fleet.kit.adoption.stays import list_what_stays
from fleet.model.app import App
from fleet.model.app_settings import TLS, Claim, Restore, Volume
from fleet.model.resource import Adopt, Options
from tests.kit import nats, pair
from tests.kit.backup.types import Postgres

ADOPTED = Options(adopt=Adopt(identity="c1"))


@pytest.mark.parametrize(
    ("app", "field"),
    [
        (pair.app(opts=ADOPTED, tls=TLS(enabled=True, authority="2")), "tls.authority"),
        (pair.app(opts=ADOPTED, tls=TLS(enabled=True, lifetime="720h")), "tls.lifetime"),
        (nats.app(opts=ADOPTED, volume=Volume(on_delete="delete")), "volume.on_delete"),
        (Postgres("db", namespace="shop", opts=ADOPTED, restore_from=Restore(source=Claim("shelf"))), "restore_from"),
    ],
)
def test_what_others_made_stays_theirs(app: App, field: str) -> None:
    assert [problem.field for problem in list_what_stays(app)] == [field]


def test_of_new_apps_and_of_what_is_not_said_nothing_stays() -> None:
    assert list(list_what_stays(nats.app(volume=Volume(on_delete="delete")))) == []
    assert list(list_what_stays(nats.app(opts=ADOPTED))) == []
    assert list(list_what_stays(pair.app(opts=ADOPTED, tls=TLS(enabled=True)))) == []
