"""Networks that are cut, slow or lossy, as pods see it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab import Lab
from fleet.lab.faults.kinds import network
from fleet.lab.programs.process import identify
from fleet.testing.faults import Faults
from tests.lab.faults.town import Town

pytestmark = pytest.mark.real_nodes

QUICK = 0.4  # seconds for ten questions and answers; without a fault, and alone, one takes a thousandth


def test_pods_that_are_cut_off_from_each_other_reach_everybody_else(town: Town, breaking: Faults) -> None:
    with breaking.partition(["pod/here"], ["pod/there"]):
        assert not town.reaches("here", "there")
        assert not town.reaches("there", "here")
        assert town.reaches("here", "beside")
        assert town.reaches("beside", "there")
    assert town.reaches("here", "there")
    with breaking.partition(["pod/here"], ["pod/beside"]):  # neighbours on one node too
        assert not town.reaches("here", "beside")
        assert town.reaches("here", "there")
    assert town.reaches("here", "beside")


def test_nodes_that_are_cut_off_from_each_other_are_whole_inside(town: Town, breaking: Faults) -> None:
    first, second = (f"node/{name}" for name in town.nodes)
    with breaking.partition([first], [second]):
        assert not town.reaches("here", "there")
        assert not town.reaches("there", "here")
        assert town.reaches("here", "beside")
        town.cluster.wait("the node is ready", lambda: town.is_ready(town.nodes[0]))
        assert town.cluster.execute("here", "true") == ""  # the API server reaches both
    assert town.reaches("here", "there")


def test_a_node_that_is_cut_off_from_everybody_is_whole_inside(town: Town, breaking: Faults) -> None:
    with breaking.partition([f"node/{town.nodes[0]}"]):
        assert not town.reaches("here", "there")
        assert not town.dials("here", *town.api_server, through="beside")
        assert town.reaches("here", "beside")
    assert town.dials("here", *town.api_server)


def test_a_node_without_the_api_server_is_lost_to_it_while_its_pods_go_on(town: Town, breaking: Faults) -> None:
    service, node = town.api_service, town.nodes[0]
    assert town.dials("here", *service)
    with breaking.partition([f"node/{node}"], ["kube-apiserver"]):
        assert not town.dials("here", *service)
        assert not town.dials("here", *town.api_server)
        assert town.dials("there", *service)
        assert town.reaches("here", "there")
        town.cluster.wait("the node is lost", lambda: not town.is_ready(node), 90)
        assert town.reaches("there", "here")
    town.cluster.wait("the node is back", lambda: town.is_ready(node), 120)
    assert town.dials("here", *service)


def wait_quick(town: Town, asker: str, asked: str, count: int = 10) -> None:
    """One quick round is proof: a busy machine makes answers late, and none early."""
    town.cluster.wait("answers are quick", lambda: town.ask(asker, asked, count).seconds < QUICK)


def seconds(town: Town, asker: str, asked: str, count: int) -> float:
    """The best of some."""
    return min(town.ask(asker, asked, count).seconds for _ in range(3))


def test_packets_are_late(town: Town, breaking: Faults) -> None:
    wait_quick(town, "here", "there")
    with breaking.disturb([f"node/{town.nodes[0]}"], [f"node/{town.nodes[1]}"], delay=0.05):
        assert 0.95 <= seconds(town, "here", "there", 10) < 3  # there and back
        wait_quick(town, "here", "beside")
        with pytest.raises(ConfigurationError, match="are disturbed already, by fault"):
            breaking.disturb([f"node/{town.nodes[0]}"], loss=0.5)
    with breaking.disturb(["pod/here"], ["pod/there"], delay=0.1, one_way=True):
        assert 0.45 <= seconds(town, "here", "there", 5) < 0.95
        wait_quick(town, "beside", "there", 5)
    wait_quick(town, "here", "there")


def test_packets_are_lost(town: Town, breaking: Faults) -> None:
    with breaking.disturb(["pod/here"], loss=0.3, seed=1):
        heard = town.ask("here", "there", 200, gap=0.002, turns=False)
        assert 60 <= len(heard.words) <= 135  # about half: each is asked and answered
    assert len(town.ask("here", "there", 200, gap=0.002, turns=False).words) == 200


def test_packets_are_overtaken(town: Town, breaking: Faults) -> None:
    assert town.ask("here", "there", 100, gap=0.002, turns=False).overtaken == 0
    # Held for many gaps, so that a busy sender does not catch up, and for less than all of them take.
    with breaking.disturb([f"node/{town.nodes[1]}"], reorder=0.2, hold=0.5):
        heard = town.ask("here", "there", 200, gap=0.01, turns=False)
    assert len(heard.words) == 200
    assert heard.overtaken >= 20
    assert town.ask("here", "there", 100, gap=0.002, turns=False).overtaken == 0


def test_rules_that_cannot_be_read_do_not_count_as_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    holder = identify(sleeper.pid)
    (tmp_path / "nsenter").symlink_to(str(shutil.which("nsenter")))
    monkeypatch.setenv("PATH", str(tmp_path))  # without iptables-save
    try:
        with pytest.raises(ResourceError, match="iptables-save -t mangle` failed"):
            network.remove_rules(holder, 1)
    finally:
        sleeper.kill()
        sleeper.wait()
    network.remove_rules(holder, 1)  # its network is gone, and the rules with it


@pytest.mark.parametrize("by", ["clear", "up"])
def test_rules_come_back_with_a_node(town: Town, breaking: Faults, by: str) -> None:
    """Tested with a node that is restarted while others' faults are about it."""
    node, restarts = f"node/{town.nodes[1]}", town.restarts("there")
    cut = breaking.partition([node], ["pod/here"])
    late = breaking.disturb([node], ["pod/beside"], delay=0.05)
    killed = breaking.kill(node)
    if by == "up":
        Lab.up(town.cluster.lab.spec.name)
    killed.clear()  # for `up` there is no more to do
    town.cluster.wait("its pod runs again", lambda: town.restarts("there") > restarts, 90)
    town.cluster.wait("its pod answers", lambda: town.reaches("beside", "there"))
    assert not town.reaches("here", "there")
    assert town.ask("beside", "there", 10).seconds >= 0.9
    cut.clear()
    late.clear()
    wait_quick(town, "here", "there")
    wait_quick(town, "beside", "there")
