"""Which options of an engine an app may give by name."""

from __future__ import annotations

import re

import pytest

from fleet.kit.workload.options import OptionRules

RULES = OptionRules(
    engine="busd",
    fields={"max-payload": "max_payload"},
    owned=re.compile("name|listen-.*"),
    trust=re.compile(".*(certfile|tlsverify).*"),
)


def test_what_has_no_field_is_taken() -> None:
    options = {"write-deadline": "10s", "debug": "true", "routes": "[a, b]"}
    assert dict(RULES.check(options)) == options


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("--debug", "true", "begins with a dash"),
        ("max-payload", "1", "has a field of its own"),
        ("listen-clients", "x", "is set by the operator"),
        ("tls-verify", "false", "says whom members let in"),
        ("cert-file", "/x", "says whom members let in"),
        ("Debug", "true", "is not a flag of busd"),
        ("debug", "{a: b}", "is a mapping"),
        ("debug", "[[a]]", "the value of 'debug'"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        RULES.check({name: text})
