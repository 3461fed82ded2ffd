"""Processes of pods and whole nodes that stand still, end, and come back."""

from __future__ import annotations

import pytest

from fleet.errors import ConfigurationError, NotFoundError
from fleet.lab.cluster import volumes
from fleet.lab.cluster import volumes as loops
from fleet.testing import Cluster
from fleet.testing.faults import Faults
from tests.lab.faults.town import Town, claim, pod

pytestmark = pytest.mark.real_nodes


def test_a_frozen_pod_answers_nothing_and_goes_on_where_it_was(town: Town, breaking: Faults) -> None:
    [before], restarts = town.ask("here", "beside").counts, town.restarts("beside")
    with breaking.freeze("pod/beside"):
        assert not town.reaches("here", "beside")
        assert town.reaches("here", "there")
        assert [one.fault.kind for one in breaking.active()] == ["freeze-pod"]
    # It answers the question that waited and then this one: it is the same process.
    assert town.ask("here", "beside").counts == [before + 2]
    assert town.restarts("beside") == restarts


def test_only_processes_of_one_name_are_frozen(town: Town, breaking: Faults) -> None:
    with pytest.raises(NotFoundError, match="has no process 'redis'") as caught:
        breaking.freeze("pod/beside", process="redis")
    assert "perl" in str(caught.value)
    with breaking.freeze("pod/beside", container="main", process="perl"):
        assert not town.reaches("here", "beside")
    assert town.reaches("here", "beside")


def test_a_killed_pod_is_started_again_by_its_node(town: Town, breaking: Faults) -> None:
    restarts = town.restarts("here")
    breaking.kill("pod/here")
    assert breaking.active() == []
    town.cluster.wait("it is started again", lambda: town.restarts("here") == restarts + 1)
    town.cluster.wait("it answers", lambda: town.ask("beside", "here").counts[0] < 5)


def test_a_frozen_node_is_silent_and_goes_on_where_it_was(town: Town, breaking: Faults) -> None:
    [before] = town.ask("here", "there").counts
    with breaking.freeze(f"node/{town.nodes[1]}"):
        assert not town.reaches("here", "there")
        assert town.reaches("here", "beside")
    assert town.ask("here", "there").counts == [before + 2]


def test_a_killed_node_is_gone_with_all_that_ran_on_it_and_comes_back(town: Town, breaking: Faults) -> None:
    node, restarts = town.nodes[1], town.restarts("there")
    town.shell("there", "echo kept > /data/file; sync")
    killed = breaking.kill(f"node/{node}")
    assert not town.reaches("here", "there")
    assert town.dials("here", *town.api_server)  # the others lose nothing
    with pytest.raises(ConfigurationError, match="does not run"):
        breaking.freeze(f"node/{node}")
    killed.clear()
    town.cluster.wait("its pod runs again", lambda: town.restarts("there") > restarts, 90)
    town.cluster.wait("its pod answers", lambda: town.reaches("here", "there"))
    assert town.shell("there", "cat /data/file") == "kept\n"
    assert "asked-to-end" not in town.shell("there", "ls /data")
    town.cluster.wait("it is ready", lambda: town.is_ready(node))


def test_a_stopped_node_asks_its_pods_to_end(town: Town, breaking: Faults) -> None:
    restarts = town.restarts("there")
    with breaking.stop(f"node/{town.nodes[1]}", grace=5):
        assert not town.reaches("here", "there")
    town.cluster.wait("its pod runs again", lambda: town.restarts("there") > restarts, 90)
    town.cluster.wait("its pod answers", lambda: town.reaches("here", "there"))
    assert "asked-to-end" in town.shell("there", "ls /data")
    town.shell("there", "rm /data/asked-to-end")
    town.cluster.wait("it is ready", lambda: town.is_ready(town.nodes[1]))


def test_a_lost_node_takes_its_disks_along_and_a_new_one_comes_without_them(real_cluster: Cluster) -> None:
    """Nothing of it comes back: not with the node, and not with a pod that asks for the volume again."""
    real_cluster.images("etcd:3.5")
    node, faults = sorted(real_cluster.node_names)[0], Faults(real_cluster)  # where no pod of the town has a volume
    town = Town(real_cluster)
    real_cluster.apply(claim("data"), pod("keeper", node, "data"))
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/keeper", "--timeout=90s")
    town.shell("keeper", "echo kept > /data/file; sync")
    volume = volumes.find_claim_volume(real_cluster.lab, real_cluster.name, real_cluster.namespace, "data")
    assert volume.file.exists()
    with faults.lose(f"node/{node}"):
        assert not volume.file.exists()
        assert volume.device not in loops.find_devices(real_cluster.lab.directory)
        assert [one.fault.kind for one in faults.active()] == ["lose-node"]
    real_cluster.wait("a new node is ready", lambda: town.is_ready(node), 90)
    real_cluster.kubectl("delete", "pod/keeper", "--grace-period=0", "--force")
    real_cluster.apply(pod("keeper", node, "data"))
    said = lambda: "MountVolume" in real_cluster.kubectl("events", "--for=pod/keeper")  # noqa: E731
    real_cluster.wait("the node cannot mount it", said, 90)
    real_cluster.kubectl("delete", "pod/keeper", "pvc/data", "--grace-period=0")
    real_cluster.wait("nothing is kept of it", lambda: not volume.file.parent.exists(), 90)
    real_cluster.apply(claim("data"), pod("keeper", node, "data"))
    real_cluster.kubectl("wait", "--for=condition=Ready", "pod/keeper", "--timeout=90s")
    assert set(town.shell("keeper", "ls -A /data").split()) <= {"lost+found"}


def test_what_is_not_there_is_said_with_what_is(town: Town, breaking: Faults) -> None:
    with pytest.raises(NotFoundError, match="there is no pod 'nobody'") as caught:
        breaking.kill("pod/nobody")
    assert "beside" in str(caught.value)
    with pytest.raises(NotFoundError, match="has no node 'nowhere'") as caught:
        breaking.kill("node/nowhere")
    assert town.nodes[0] in str(caught.value)
    with pytest.raises(NotFoundError, match="runs no container 'sidecar'") as caught:
        breaking.freeze("pod/here", container="sidecar")
    assert "main" in str(caught.value)
    with pytest.raises(ConfigurationError, match="happens once"):
        breaking.kill("pod/here", seconds=5)
    assert breaking.active() == []
