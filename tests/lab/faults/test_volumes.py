"""Volumes that are full, wrong or lost, as the pod sees it."""

from __future__ import annotations

import pytest

from fleet.errors import NotFoundError
from fleet.testing.faults import Faults
from tests.lab.faults.town import Town

pytestmark = pytest.mark.real_nodes

WRITE = "head -c 1000000 /dev/zero > /data/more && echo written || true; rm -f /data/more"


def test_a_full_volume_says_so_inside_and_is_free_afterwards(town: Town, breaking: Faults) -> None:
    assert town.shell("there", WRITE) == "written\n"
    with breaking.fill("volume/data", leave=4_000_000):
        assert town.shell("there", WRITE) == "written\n"
    with breaking.fill("volume/data"):
        assert "No space left on device" in town.shell("there", f"exec 2>&1; {WRITE}")
        assert int(town.shell("there", "df --output=avail /data | tail -1")) < 100  # KiB
    assert town.shell("there", WRITE) == "written\n"
    assert ".fleet" not in town.shell("there", "ls -a /data")


def test_a_corrupted_file_is_another_one_until_it_is_mended(town: Town, breaking: Faults) -> None:
    town.shell("there", "seq 10000 > /data/numbers; sync; cp /data/numbers /data/same")
    differs = "cmp -l /data/numbers /data/same | wc -l"
    with breaking.corrupt("volume/data", file="numbers", places=5, seed=3):
        assert town.shell("there", differs).strip() == "5"
    assert town.shell("there", differs).strip() == "0"
    mended = breaking.corrupt("volume/data", file="numbers", places=5, seed=3)
    town.shell("there", "printf 'mine' | dd of=/data/numbers conv=notrunc 2>/dev/null")
    mended.clear()
    assert town.shell("there", "head -c 4 /data/numbers") == "mine"  # what was written since stays
    with pytest.raises(NotFoundError, match="there is no file 'none'"):
        breaking.corrupt("volume/data", file="none")
    town.shell("there", "rm /data/numbers /data/same")


def test_a_lost_volume_is_empty_when_the_pod_comes_back(town: Town, breaking: Faults) -> None:
    town.shell("there", "mkdir -p /data/deep; echo gone > /data/deep/file; sync")
    restarts = town.restarts("there")
    breaking.lose("volume/data")
    town.cluster.wait("the pod runs again", lambda: town.restarts("there") == restarts + 1)
    town.cluster.wait("it answers", lambda: town.reaches("here", "there"))
    assert set(town.shell("there", "ls -A /data").split()) <= {"lost+found"}
    assert breaking.active() == []


def test_a_claim_that_is_not_there_is_said_with_those_that_are(town: Town, breaking: Faults) -> None:
    with pytest.raises(NotFoundError, match="there is no claim 'other'") as caught:
        breaking.fill("volume/other")
    assert "data" in str(caught.value)
