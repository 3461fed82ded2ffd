"""The writer of the end-to-end tests would see a loss: it is the judge of all of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fleet.testing.traffic import MemberAddress
from tests.operator.etcd.processes import EtcdCluster, programs
from tests.operator.etcd.traffic import EtcdTraffic
from tests.operator.writer import Fault, Writer, lost


def test_the_writer_sees_outages_and_losses(tmp_path: Path) -> None:
    with EtcdCluster(programs("3.5"), tmp_path / "etcd") as etcd:
        member = etcd.founders[0]
        place = MemberAddress(member.endpoint.address, member.endpoint.name, 2379)
        with Writer(EtcdTraffic(), lambda: [place], etcd.tls()) as writer:
            writer.goes_on(100)
            fault = writer.strike("a member that stands still", member.freeze)
            time.sleep(2.5)
            member.thaw()
            writer.goes_on(100)
            numbers = writer.stop()
        assert 1.5 <= writer.outage(fault.at) < 10
        assert writer.outage(fault.at + 1e6) == 0
        writer.was_writing()
        assert lost(EtcdTraffic(), numbers, place, etcd.tls()) == []
        first, second = sorted(numbers)[:2]
        etcd.etcdctl("del", f"written/{first:09d}")
        etcd.etcdctl("put", f"written/{second:09d}", "another value")
        assert lost(EtcdTraffic(), numbers, place, etcd.tls()) == [first, second]
        assert lost(EtcdTraffic(), numbers, place, etcd.tls(), own=True) == [first, second]
        writer.faults.append(Fault("a fault that came when nobody wrote", fault.at + 1.2))
        with pytest.raises(AssertionError, match="nobody wrote"):
            writer.was_writing()
