"""What people can say, and what is wrong with what they say; nothing is asked of a lab for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.errors import ConfigurationError
from fleet.lab.faults import ActiveFault, Fault
from fleet.lab.faults.fault import parse_target
from fleet.lab.faults.verb import FaultBuilder

SAY = FaultBuilder("lab", "shop")


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("pod/web-0", "pod/shop/web-0"),
        ("pod/other/web-0", "pod/other/web-0"),
        ("volume/data", "volume/shop/data"),
        ("node/lab-node-1", "node/lab-node-1"),
        ("etcd", "etcd"),
    ],
)
def test_a_target_said_in_full_means_the_same_everywhere(text: str, full: str) -> None:
    assert str(parse_target(text, "shop")) == full
    assert parse_target(full, "elsewhere") == parse_target(text, "shop")


@pytest.mark.parametrize("text", ["", "web-0", "pod/", "pod/a/b/c", "node/a/b", "service/web", "pod//x", "kubelet"])
def test_what_is_no_target_is_said_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is nothing that a fault can happen to") as caught:
        parse_target(text)
    assert "pod/NAMESPACE/NAME" in str(caught.value)


def test_the_same_verb_is_another_fault_for_another_thing() -> None:
    assert SAY.kill("pod/web-0", process="redis").kind == "kill-pod"
    assert SAY.kill("node/n").kind == "kill-node"
    assert SAY.freeze("kube-apiserver") == Fault("freeze-program", "lab", ("kube-apiserver",), {})


def test_the_api_server_may_be_said_first() -> None:
    said = SAY.partition(["kube-apiserver"], ["node/n"])
    assert said == SAY.partition(["node/n"], ["kube-apiserver"])
    assert said.targets == ("node/n",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: SAY.kill("volume/data"), "volume/data is a volume; kill is for a pod or a node or a program"),
        (lambda: SAY.stop("pod/web-0"), "stop is for a node"),
        (lambda: SAY.fill("pod/web-0"), "fill is for a volume"),
        (lambda: SAY.kill("node/n", container="web"), "--container is for pods"),
        (lambda: SAY.freeze("etcd", process="x"), "--process is for pods"),
        (lambda: SAY.partition(["node/n"], ["node/n"]), "node/n is on both sides"),
        (lambda: SAY.partition(["kube-apiserver"]), "the other has to be nodes or pods"),
        (lambda: SAY.partition([]), "needs a node or a pod"),
        (lambda: SAY.partition(["etcd"]), "has no packets of its own"),
        (lambda: SAY.partition(["volume/data"]), "is a volume"),
        (lambda: SAY.disturb(["node/n"]), "this disturbs nothing"),
        (lambda: SAY.disturb(["node/n"], loss=1.5), "1.5 is not a share"),
        (lambda: SAY.disturb(["node/n"], delay=-1), "-1 is too small"),
        (lambda: SAY.disturb(["node/n"], delay=0.1, jitter=0.2), "cannot vary by 0.2 s"),
        (lambda: SAY.corrupt("volume/data", places=0), "0 places are not possible"),
        (lambda: SAY.corrupt("volume/data", file="/etc/passwd"), "is not a path on the volume"),
        (lambda: SAY.corrupt("volume/data", file="a/../../b"), "is not a path on the volume"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], Fault], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wrong()
    assert said in str(caught.value)


def test_a_record_can_be_read_again() -> None:
    fault = SAY.disturb(["node/a", "pod/b"], ["kube-apiserver"], delay=0.1)
    active = ActiveFault(7, fault, {"places": {"x": [1, 2.5]}}, since=100.0, owner=(1, 2.5, "boot:7"), until=200.0)
    assert ActiveFault.from_json(active.as_json()) == active


def test_a_fault_is_over_when_its_time_is_up_or_its_owner_gone() -> None:
    fault = SAY.kill("etcd")
    mine = ActiveFault(1, fault, {}, since=100, owner=(5, 1.0, ""))
    timed = ActiveFault(1, fault, {}, since=100, until=130)
    nobodys = ActiveFault(1, fault, {}, since=100)
    assert not mine.is_over(999, lambda owner: True)
    assert mine.is_over(101, lambda owner: False)
    assert not timed.is_over(129, lambda owner: False)
    assert timed.is_over(130, lambda owner: True)
    assert not nobodys.is_over(10**9, lambda owner: False)
    assert [one.is_watched for one in (mine, timed, nobodys)] == [True, True, False]


def test_a_fault_is_one_line_for_people() -> None:
    assert str(SAY.partition(["node/a"], ["kube-apiserver"])) == "partition node/a from=kube-apiserver"
    assert str(SAY.disturb(["node/a"], delay=0.1)) == "disturb node/a delay=0.1"
