"""Taking over and giving back, interrupted at every move: the next operator goes on, and no pod notices any of it.

`make test` has an operator that dies after every single move, and the command line killed between its two writes. With
`--full` the operator is killed at each move alone, with the answer under way and with the answer in hand, and the
command line at each write of the sync that takes over and of the command that gives back.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from fleet.testing.proxy import Kill, Match, Plan, Proxy, Rule
from tests.operator.app_on_nodes import App, api_of
from tests.operator.existing_setups import SET_UPS, Desk, Kept
from tests.operator.operations import Story
from tests.operator.writer import Writer, lost

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(3600)]
MOST = 12  # moves that either may have, and one more


@dataclass
class Stage:
    kept: Kept
    story: Story

    def __post_init__(self) -> None:
        self.starts, self.found = self.kept.starts(), self.kept.stateful()

    def is_taken(self) -> bool:
        return self.kept.condition("Adopted").get("status") == "True" and self.kept.is_ready()

    def is_given_back(self) -> bool:
        return not self.kept.cluster.get("etcds")["items"]

    def ask_back(self) -> None:
        """As `fleet disconnect` does."""
        name = self.kept.name
        self.kept.cluster.kubectl("annotate", "etcd", name, "fleet.dev/on-delete=release", "--overwrite")
        self.kept.cluster.kubectl("delete", "etcd", name, "--wait=false")

    def check_taken(self) -> None:
        assert self.kept.starts() == self.starts
        found = self.kept.stateful()
        assert found["spec"]["template"] == self.found["spec"]["template"]
        assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3

    def check_given_back(self) -> None:
        assert self.kept.starts() == self.starts
        found = self.kept.stateful()
        assert found["spec"] == self.found["spec"]
        assert "fleet-operator" not in {one["manager"] for one in found["metadata"]["managedFields"]}
        left = self.kept.cluster.kubectl("get", "all,cm,secrets,pvc,pdb", "-l", "fleet.dev/kind=Etcd", "-o", "name")
        assert left == ""

    def check_written(self, file: Path) -> None:
        """What the command that was killed wrote down: applied, it changes nothing."""
        described = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(file.read_text())}
        assert ("StatefulSet", self.kept.set_up.stateful_set) in described
        assert {"Service", "ConfigMap"} <= {kind for kind, _ in described}
        generation = self.kept.stateful()["metadata"]["generation"]
        self.kept.cluster.kubectl("apply", "-f", str(file))
        assert self.kept.stateful()["metadata"]["generation"] == generation
        assert self.kept.starts() == self.starts


@pytest.fixture
def stage(unattended: App, tmp_path: Path) -> Iterator[Stage]:
    kept = Kept(unattended.cluster, unattended.operator, "raft-store", set_up=SET_UPS["renamed"])
    kept.cluster.images("etcd")
    kept.set_up_by_hand()
    yield Stage(kept, Story(kept.cluster, tmp_path / "story", kept.engine))


def test_an_operator_that_never_takes_two_steps_takes_over_and_gives_back(stage: Stage, tmp_path: Path) -> None:
    command = stage.story.mortal("--at=1", "--again")
    stage.kept.adopt()
    stage.story.to_its_end(stage.is_taken, *command)
    stage.check_taken()
    taken = stage.story.made()
    _cut_off(stage, tmp_path)
    stage.story.to_its_end(stage.is_given_back, *command)
    stage.check_given_back()
    stage.check_written(tmp_path / "given-back.yaml")
    given_back = stage.story.made()[len(taken) :]
    print(f"killed after each of {len(taken)} moves of taking over and {len(given_back)} of giving back")
    for moves in (taken, given_back):
        assert len({life for life, _ in moves}) == len(moves) >= 4, moves


@pytest.mark.full
def test_an_operator_that_never_takes_two_steps_turns_tls_on(unattended: App, tmp_path: Path) -> None:
    """It dies between any two writes of every stage; clients do not notice but for the restarts of members."""
    set_up = replace(SET_UPS["renamed"], series="3.5")
    kept = Kept(unattended.cluster, unattended.operator, "raft-store", set_up=set_up)
    kept.cluster.images("etcd")
    kept.set_up_by_hand()
    stage = Stage(kept, Story(kept.cluster, tmp_path / "story", kept.engine))
    command = stage.story.mortal("--at=1", "--again")
    kept.adopt()
    stage.story.to_its_end(stage.is_taken, *command)
    taken, api = len(stage.story.made()), api_of(kept.cluster)
    with kept.writer(rate=50) as plain:
        kept.change(tls={"enabled": True})
        stage.story.to_its_end(partial(_converged, kept, "clients without TLS are still served"), *command)
        plain.goes_on()
        with Writer(kept.engine.traffic, lambda: kept.places(api), App.tls(kept), rate=50) as encrypted:
            kept.cluster.kubectl("annotate", "etcd", kept.name, "fleet.dev/roll=now")
            stage.story.to_its_end(partial(_converged, kept, "members read the operator's files"), *command)
            encrypted.goes_on()
            numbers = plain.stop() | encrypted.stop()
    moves = stage.story.made()[taken:]
    print(f"killed after each of {len(moves)} moves of turning TLS on")
    assert len({life for life, _ in moves}) == len(moves)
    assert [what for _, what in moves].count("etcd update") == 6, "each member is known by both URLs, then by one"
    for place in kept.places():
        assert lost(kept.engine.traffic, numbers, place, App.tls(kept)) == []


def _converged(kept: Kept, words: str) -> bool:
    return words in kept.condition("Converged").get("message", "") and kept.is_ready()


def _cut_off(stage: Stage, directory: Path) -> None:
    """The command line, killed after its first write and after its second; nobody is there to answer it."""
    cluster = stage.kept.cluster
    with Proxy(cluster.kubeconfig, cluster.context, directory) as proxy:
        command = [sys.executable, "-m", "fleet", "disconnect", stage.kept.name, f"--kubeconfig={proxy.kubeconfig}"]
        command += [f"--context={cluster.context}", f"--namespace={cluster.namespace}"]
        command += ["--write", str(directory / "given-back.yaml")]
        for verb in ("patch", "delete"):
            plan = Plan([Rule(Match(verb=verb, resource="etcds", writes=True), Kill())])
            ended = proxy.run(command, plan, timeout=120)
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            stage.check_taken()


@pytest.mark.full
@pytest.mark.parametrize("when", ["unanswered", "answered"])
def test_killed_at_any_move_it_is_taken_over_and_given_back_as_if_nothing_had_happened(stage: Stage, when: str) -> None:
    reached: dict[str, list[int]] = {"taking over": [], "giving back": []}
    for k in range(1, MOST + 1):
        stage.kept.adopt()
        if _killed(stage, k, when, stage.is_taken):
            reached["taking over"].append(k)
        stage.check_taken()
        stage.ask_back()
        if _killed(stage, k, when, stage.is_given_back):
            reached["giving back"].append(k)
        stage.check_given_back()
        if max(map(len, reached.values())) < k:
            break  # both have fewer moves than that
    print(f"{when}: killed at {reached}")
    for points in reached.values():
        assert points == list(range(1, len(points) + 1)) and 4 <= len(points) < MOST, reached


def _killed(stage: Stage, k: int, when: str, done: Callable[[], bool]) -> bool:
    """Whether it came that far; whatever is left is done by the operator as it is."""
    with stage.story.running(*stage.story.mortal(f"--at={k}", f"--when={when}")) as process:
        if stage.story.wait(done, process):
            with suppress(subprocess.TimeoutExpired):  # its last move is what we waited for, and may be its k-th
                process.wait(3)
            if process.returncode is None:
                return False
    assert process.returncode == -signal.SIGKILL
    stage.story.to_its_end(done, *stage.story.product())
    return True


@pytest.mark.full
def test_a_command_line_that_is_killed_at_any_write_takes_over_and_gives_back_all_the_same(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, name = stage.kept.cluster, stage.kept.name
    desk = Desk.make(cluster, tmp_path / "repository")
    desk.fleet("adopt", "--namespace", cluster.namespace, "--write", "stacks")
    desk.commit("Take over")
    monkeypatch.chdir(desk.root)
    reached: dict[str, list[int]] = {"sync": [], "disconnect": []}
    give_back = ("disconnect", name, f"--write={tmp_path / 'given-back.yaml'}")
    with Proxy(cluster.kubeconfig, cluster.context, tmp_path) as proxy, stage.story.running(*stage.story.product()):
        for k in range(1, 2 * MOST):
            if _ended_at(proxy, k, "sync", "--no-status"):
                reached["sync"].append(k)
            desk.fleet("sync", "--no-status")
            stage.kept.wait("it is taken over", stage.is_taken)
            stage.check_taken()
            desk.fleet("preview", "--expect-no-changes")
            if _ended_at(proxy, k, *give_back):
                reached["disconnect"].append(k)
            if any("deletionTimestamp" not in one["metadata"] for one in cluster.get("etcds")["items"]):
                desk.fleet(*give_back)
            stage.kept.wait("it is given back", stage.is_given_back)
            stage.check_given_back()
            stage.check_written(tmp_path / "given-back.yaml")
            if max(map(len, reached.values())) < k:
                break  # both have fewer writes than that
    print(f"killed at {reached}")
    assert reached["disconnect"] == [1, 2], reached
    assert reached["sync"] == list(range(1, len(reached["sync"]) + 1)) and 3 <= len(reached["sync"]) < 2 * MOST - 1


def _ended_at(proxy: Proxy, k: int, *arguments: str) -> bool:
    """Whether it came to its k-th write, and died when that was done and before it knew."""
    command = [sys.executable, "-m", "fleet", *arguments, f"--kubeconfig={proxy.kubeconfig}"]
    ended = proxy.run(command, Plan([Rule(Match(writes=True), Kill(), nth=k)]), timeout=180)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0
