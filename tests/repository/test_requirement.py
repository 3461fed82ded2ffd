"""Requirements of packages, as fleet.toml has them."""

from __future__ import annotations

import pytest

from fleet.repository.requirement import parse_requirement

FITS = {
    "fleet-nats": (["0", "1.2", "1.2rc1", "no number"], []),
    "fleet-nats==1.2.*": (["1.2", "1.2.0", "1.2.9.1", "1.2.1+local", "1.2.1.post2"], ["1.20", "1.3", "1", "2.1.2"]),
    "fleet-nats == 1.2": (["1.2", "1.2.0"], ["1.2.1", "1.2rc1", "1.2.dev3"]),
    "fleet_nats>=1.2,<2": (["1.2", "1.10", "1.99.9"], ["1.1.9", "2", "2.0", "1.2b1", "other"]),
    "fleet.nats ~=1.4.2": (["1.4.2", "1.4.9"], ["1.4.1", "1.5", "1.4.2rc1"]),
    "fleet-nats!=1.3.*,>1": (["1.2", "1.4", "1.0.1"], ["1.3", "1.3.7", "1.0"]),
    "fleet-nats<=1.2": (["1.2", "1.2.0", "1.2rc1", "0.9"], ["1.2.1"]),
}


@pytest.mark.parametrize("text", FITS)
def test_a_requirement_says_which_versions_will_do(text: str) -> None:
    requirement = parse_requirement(text)
    assert requirement is not None
    accepted, refused = FITS[text]
    assert [version for version in accepted if not requirement.accepts(version)] == []
    assert [version for version in refused if requirement.accepts(version)] == []


@pytest.mark.parametrize(
    "text",
    ["", "==1", "fleet-nats 1.2", "fleet-nats==", "fleet-nats>=1.*", "fleet-nats[x]==1", "fleet-nats==1; os_name=='x'",
     "fleet-nats @ https://x.test/y.whl", "-r file", "fleet-nats==1.2,", "fleet-nats~=1", "a\n==1", "fleet-nats==١"],
)  # fmt: skip
def test_what_is_no_requirement_is_none(text: str) -> None:
    assert parse_requirement(text) is None
