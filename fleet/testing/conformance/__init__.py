"""What every app type must pass: trials in memory, under the operator's own decisions.

    from fleet.testing.conformance import Subject, cases
    import pytest

    @pytest.mark.parametrize("case", cases(SUBJECT), ids=str)
    def test_it_conforms(case):
        case.run()

A `Subject` says what is tried: the app type, a spec, its simulated servers and the changes that it can take. Each
case is one of `CASES` for one of the changes; docs/how-to/app-types.md has the table.
"""

from fleet.testing.conformance.cases import CASES, Case, cases
from fleet.testing.conformance.subject import Change, Servers, Subject, Trouble, declared_subject
from fleet.testing.conformance.trial import StuckError, Trial

__all__ = [
    "CASES",
    "Case",
    "Change",
    "Servers",
    "StuckError",
    "Subject",
    "Trial",
    "Trouble",
    "cases",
    "declared_subject",
]
