"""Everything that is tried in memory: the cases of every subject of this project, as mutants are judged by them."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.testing.conformance import Case, cases
from tests.conformance import test_etcd, test_nats
from tests.kit import keeper, test_pair_conforms, test_plain

SUBJECTS = {
    "etcd": test_etcd.SUBJECT,
    "NATS": test_nats.SUBJECT,
    "pair": test_pair_conforms.SUBJECT,
    "plain pair": test_plain.SUBJECT,
    "keeper": keeper.SUBJECT,
}


def list_cases() -> Iterator[tuple[str, Case]]:
    """Yield every case of every subject, by the subject's name."""
    for name, subject in SUBJECTS.items():
        for case in cases(subject):
            yield name, case
