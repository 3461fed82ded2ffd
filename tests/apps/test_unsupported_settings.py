"""What a driver says that it cannot do is refused, whichever driver it is."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.driver import DRIVER
from fleet.kit.driver import Capabilities, Driver, EngineMeta, Path, Problem
from fleet.model.app_settings import Backup, Claim, Restore
from fleet.model.resource import Adopt, Options

NIGHTLY = Backup(schedule="0 3 * * *", to=Claim("backups"))
TAKEN = Options(adopt=Adopt(identity="1f"))
SPEC = Etcd("db", version="3.5")


class Poor(Driver[Etcd]):
    """An engine that runs, and for which nothing else is written yet: it says nothing of what it can do."""

    app = Etcd
    meta: EngineMeta = replace(DRIVER.meta, name="poor", most=5)

    def path(self, current: str, target: str) -> Path:
        return ()


def fields(problems: list[Problem]) -> list[str]:
    return [one.field for one in problems]


@pytest.mark.parametrize(
    ("spec", "previous", "field", "said"),
    [
        (Etcd("db", version="3.5", members=7), None, "members", "poor cannot have 7 members (1 to 5)"),
        (Etcd("db", version="3.5", backup=NIGHTLY), None, "backup", "cannot be backed up"),
        (Etcd("db", version="3.5", restore_from=Restore(Claim("old"))), None, "restore_from", "start from a backup"),
        (Etcd("db", version="3.5", opts=TAKEN), None, "opts.adopt", "cannot be taken over"),
        (Etcd("db", version="3.5", members=5), SPEC, "members", "cannot be scaled"),
        (Etcd("db", version="3.6"), SPEC, "version", "cannot be upgraded"),
    ],
)
def test_what_it_cannot_do_is_refused_with_what_would_be_right(
    spec: Etcd, previous: Etcd | None, field: str, said: str
) -> None:
    found = Poor().validate(spec, previous)
    assert fields(found) == [field]
    assert said in str(found[0])
    assert found[0].hint


def test_a_way_back_is_one_that_there_has_to_be() -> None:
    class Ahead(Poor):
        caps = Capabilities(scale=True, upgrade=True)

    assert fields(Ahead().validate(Etcd("db", version="3.4"), SPEC)) == ["version"]
    assert Ahead().validate(Etcd("db", version="3.6.1"), SPEC) == []
    assert Ahead().validate(Etcd("db", version="3.5.9"), Etcd("db", version="3.5.21")) == []


def test_a_driver_that_says_nothing_claims_nothing() -> None:
    assert not any(asdict(Capabilities()).values())


def test_an_app_that_stays_as_it_is_needs_nothing() -> None:
    assert Poor().validate(SPEC) == []
    assert Poor().validate(SPEC, SPEC) == []
