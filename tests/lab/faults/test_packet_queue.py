"""What becomes of packets, as data; the kernel's side of it is in test_networks.py."""

from __future__ import annotations

import itertools
import struct

import pytest

from fleet.lab.faults.kinds.packet_queue import Disturbance, packet_numbers


def fates(disturbance: Disturbance, count: int = 2000, gap: float = 0.001) -> list[float | None]:
    """For each packet how late it goes on, None if never."""
    found: list[float | None] = []
    for number in range(count):
        now = number * gap
        due = disturbance.release_time(now)
        found.append(None if due is None else due - now)
    return found


def test_the_same_seed_says_the_same_of_every_packet() -> None:
    settings = {"delay": 0.05, "jitter": 0.02, "loss": 0.1, "reorder": 0.1, "hold": 0.03}
    assert fates(Disturbance(**settings, seed=1)) == fates(Disturbance(**settings, seed=1))
    assert fates(Disturbance(**settings, seed=1)) != fates(Disturbance(**settings, seed=2))


def test_a_delay_is_a_delay() -> None:
    assert fates(Disturbance(delay=0.1), 10) == pytest.approx([0.1] * 10)


@pytest.mark.parametrize(("loss", "least", "most"), [(0, 0, 0), (0.1, 150, 250), (1, 2000, 2000)])
def test_so_many_are_lost_as_was_said(loss: float, least: int, most: int) -> None:
    assert least <= fates(Disturbance(loss=loss, seed=5)).count(None) <= most


def test_jitter_varies_the_delay_and_keeps_the_order() -> None:
    late = [one for one in fates(Disturbance(delay=0.05, jitter=0.02), gap=0.1) if one is not None]
    assert min(late) < 0.035
    assert max(late) > 0.065
    close = fates(Disturbance(delay=0.05, jitter=0.02))
    times = [number * 0.001 + late for number, late in enumerate(close) if late is not None]
    assert all(before <= after + 1e-9 for before, after in itertools.pairwise(times))


def test_those_that_are_held_back_are_overtaken() -> None:
    found = fates(Disturbance(reorder=0.2, hold=0.02, seed=3))
    times = [number * 0.001 + late for number, late in enumerate(found) if late is not None]
    overtaken = sum(before > after for before, after in itertools.pairwise(times))
    assert 200 < overtaken < 600


def test_the_kernels_messages_are_read_one_after_the_other() -> None:
    def message(kind: int, number: int) -> bytes:
        other = struct.pack("=HHI", 8, 9, 0)
        header = struct.pack("=HH", 11, 1) + struct.pack("!IHB", number, 0x0800, 4) + b"\0"
        body = struct.pack("!BBH", 2, 0, 7) + other + header
        return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body

    data = message(0x300, 5) + message(2, 99) + message(0x300, 6)
    assert list(packet_numbers(data)) == [5, 6]
    assert list(packet_numbers(b"")) == []
