"""Etcds that people set up themselves become apps, on real nodes with a writer running: no pod notices.

Two set-ups run with `make test`; all of them, with the whole of day two on each, with `--full`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet.testing.git import git
from fleet.testing.traffic import TRAFFIC_ERRORS
from tests.operator import installed_rights
from tests.operator.app_on_nodes import App, Object, api_of
from tests.operator.existing_setups import SET_UPS, Desk, Kept
from tests.operator.writer import Writer, lost

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(900)]
SAMPLE = ("tls", "chart")
EVERY = [pytest.param(one, id=name, marks=[] if name in SAMPLE else pytest.mark.full) for name, one in SET_UPS.items()]
KEPT = ("serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates", "template", "replicas")


@pytest.fixture
def kept(request: pytest.FixtureRequest, unattended: App, tmp_path: Path) -> Iterator[Kept]:
    """It runs, and nobody but its owner knows of it; the operator looks on, with the rights that it has anywhere."""
    made = Kept(unattended.cluster, unattended.operator, request.param.stateful_set, set_up=request.param)
    made.cluster.images("etcd")
    made.set_up_by_hand()
    made.operator.kubeconfig = installed_rights.installed(made.cluster, tmp_path)
    installed_rights.allow(made.cluster)
    made.operator.start()
    yield made
    made.leave()


@pytest.mark.parametrize("kept", EVERY, indirect=True)
def test_an_etcd_that_runs_becomes_an_app_and_no_pod_notices(
    kept: Kept, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    full = bool(pytestconfig.getoption("--full"))
    if full or kept.set_up.name == SAMPLE[0]:
        _refused(kept)
    starts, before = kept.starts(), kept.stateful()
    desk = _described(kept, tmp_path / "repository")
    with kept.writer(rate=100) as writer:
        mark = kept.cluster.audit.mark()
        fault = writer.strike("taking over", lambda: desk.fleet("sync", "--no-status"))
        kept.wait_adopted()
        desk.fleet("preview", "--expect-no-changes")
        _no_template_was_written(kept, mark)
        if full or kept.set_up.name == SAMPLE[0]:
            _claimed(kept)
        writer.goes_on()
        assert kept.starts() == starts, "a pod or a container was started again"
        _only_held(before, kept.stateful())
        claims = kept.cluster.get("pvc")["items"]
        assert claims and not [one for one in claims if "ownerReferences" in one["metadata"]]
        assert writer.cut == 0, writer.last_problem
        print(f"{fault.what}: longest time without an acknowledgement {writer.outage(fault.at):.2f} s")
        assert kept.status["identity"] == kept.identity
        assert kept.status["version"].startswith("3.4.")
        assert {one["role"] for one in kept.status["members"]} == {"leader", "follower"}
        assert kept.condition("Converged")["reason"] == "NextRoll"
        assert kept.identity in desk.fleet("connect", kept.name, "--", "endpoint", "status", "-w", "fields").replace(
            str(int(kept.identity, 16)), kept.identity
        )
        if full and kept.set_up.name == "plain":
            _roll(kept, desk, writer)
        if full or kept.set_up.name == SAMPLE[-1]:
            _upgrade(kept, writer)
            _resize(kept, writer, 5)
            _resize(kept, writer, 3)
        if full:
            _back_up(kept)
        _give_back(kept, desk, before)
        writer.goes_on()
        numbers = writer.stop()
    kept.has_all(numbers)
    kept.every_member_has_all(numbers)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "wrong identity": ({"adopt": {"identity": "abc"}}, "OtherCluster"),
    "no word about who manages it": ({"adopt": {"takeFrom": []}}, "ManagedByOthers"),
    "another version": ({"version": "3.5"}, "NotAsDescribed"),
    "other members": ({"members": 5}, "NotAsDescribed"),
    "another StatefulSet": ({"adopt": {"statefulSet": "elsewhere"}}, "NothingToAdopt"),
}


def _refused(kept: Kept) -> None:
    """Whoever is not certainly meant, one after the other; nothing of it changes, not even a version."""
    before = kept.stateful()["metadata"]["resourceVersion"]
    for number, (case, (change, reason)) in enumerate(REFUSED.items()):
        other = replace(kept, name=f"refused-{number}")
        wanted = kept.set_up.wanted(kept.identity)
        spec = {**wanted, **change, "adopt": {**wanted["adopt"], **change.get("adopt", {})}}
        other.want(**spec)
        other.wait(case, partial(_is_blocked, other, reason), 60)
        assert other.condition("Adopted")["status"] == "False"
        assert kept.stateful()["metadata"]["resourceVersion"] == before, case
        kept.cluster.kubectl("delete", "etcd", other.name)
    assert kept.cluster.kubectl("get", "cm,secrets", "-l", "fleet.dev/kind=Etcd", "-o", "name") == ""


def _claimed(kept: Kept) -> None:
    """Another app that names the same members is refused, and when it goes it takes nothing with it."""
    other = replace(kept, name="second")
    other.want(**kept.set_up.wanted(kept.identity))
    other.wait("it is refused", partial(_is_blocked, other, "ClaimedByAnother"), 60)
    kept.cluster.kubectl("delete", "etcd", other.name)
    kept.wait_adopted()


def _is_blocked(app: App, reason: str) -> bool:
    return bool(app.condition("Blocked").get("reason") == reason)


def _back_up(kept: Kept) -> None:
    kept.cluster.images("fleet-operator")
    kept.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "backups", "namespace": kept.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}},
        }
    )
    kept.change(backup={"schedule": "0 3 1 1 *", "to": {"claim": {"claim": "backups"}}})
    job = f"cronjob/{kept.name}-backup"
    kept.wait("there is a schedule", lambda: bool(kept.cluster.get(job)), 60)
    kept.cluster.kubectl("create", "job", f"--from={job}", "by-hand")
    kept.wait("it is backed up", lambda: bool(kept.status.get("lastBackup")), 120)


def _described(kept: Kept, root: Path) -> Desk:
    """Found, written as Python on a branch, looked at, and merged."""
    desk = Desk.make(kept.cluster, root)
    said = desk.fleet("adopt", "--namespace", kept.namespace, "--branch", "adopt")
    assert f"✓ StatefulSet {kept.namespace}/{kept.set_up.stateful_set}: etcd 3.4." in said
    assert f"cluster {kept.identity}" in said
    print(said)
    alone = desk.fleet("preview", "--base", "HEAD", "--head", "adopt")
    assert "as it runs: not compared with what is there" in alone, "no cluster is asked"
    assert "fleet preview --base HEAD --head adopt --live" in said
    looked_at = desk.fleet("preview", "--base", "HEAD", "--head", "adopt", "--live")
    assert "as it runs: unchanged, restarts 0" in looked_at
    git(desk.root, "merge", "--quiet", "adopt")
    file = f"{kept.namespace.replace('-', '_')}.py"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", "--line-length=120", str(desk.root / "stacks" / file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert formatted.returncode == 0, formatted.stdout
    print((desk.root / "stacks" / file).read_text())
    planned = desk.fleet("preview")
    assert "as it runs: unchanged, restarts 0" in planned, planned
    return desk


def _give_back(kept: Kept, desk: Desk, found: Object) -> None:
    """It runs on and is nobody's; what is written down describes it, and applied it changes nothing."""
    starts, mark = kept.starts(), kept.cluster.audit.mark()
    desk.fleet("disconnect", kept.name, "--write", "given-back.yaml")
    after = kept.stateful()
    assert "fleet-operator" not in {one["manager"] for one in after["metadata"]["managedFields"]}
    assert not [name for name in after["metadata"].get("labels") or {} if name.startswith("fleet.dev/")]
    assert after["spec"]["updateStrategy"] == found["spec"]["updateStrategy"]
    file = str(desk.root / "given-back.yaml")
    described = _described_in(kept, file)
    assert ("StatefulSet", kept.set_up.stateful_set) in described
    assert "Service" in {kind for kind, _ in described}
    kept.cluster.kubectl("apply", "-f", file)
    assert _described_in(kept, file) == described
    assert kept.starts() == starts
    _no_template_was_written(kept, mark)


def _described_in(kept: Kept, file: str) -> dict[tuple[str, str], Object]:
    """All that a person means by an object, of everything that a file names, as it is in the cluster."""
    found = kept.cluster.get("-f", file)
    return {
        (one["kind"], one["metadata"]["name"]): {
            "generation": one["metadata"].get("generation"),
            "labels": one["metadata"].get("labels"),
            **{name: value for name, value in one.items() if name not in ("metadata", "status")},
        }
        for one in found.get("items", [found])
    }


def _no_template_was_written(kept: Kept, since: int) -> None:
    """By anybody: the API server's audit log has what each request to change a StatefulSet said."""
    written = [
        one
        for one in kept.cluster.audit.writes(since)
        if (one.resource, one.namespace, one.name) == ("statefulsets", kept.namespace, kept.set_up.stateful_set)
    ]
    assert written, "it is held and let go by writes"
    for one in written:
        assert isinstance(one.body, dict), one  # a patch that merges, applied or not: no list of operations
        assert "template" not in (one.body.get("spec") or {}), one


def _only_held(before: Object, after: Object) -> None:
    """Two labels and a partition, and nothing that a pod is made of."""
    assert {name: after["spec"][name] for name in KEPT} == {name: before["spec"][name] for name in KEPT}
    assert after["status"]["updateRevision"] == before["status"]["updateRevision"]
    assert after["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    assert "ownerReferences" not in after["metadata"]
    own = [one for one in after["metadata"]["managedFields"] if one["manager"] == "fleet-operator"]
    assert [list(one["fieldsV1"]) for one in own] == [["f:metadata", "f:spec"]]
    assert list(own[0]["fieldsV1"]["f:spec"]) == ["f:updateStrategy"]


def _roll(kept: Kept, desk: Desk, writer: Writer) -> None:
    """What waits for a restart comes by hand, and with it what waited for that."""
    kept.change(members=5)
    kept.wait("more members wait", partial(_is_blocked, kept, "NeedsRoll"), 60)
    assert f"fleet roll {kept.name}" in kept.condition("Blocked")["message"]
    before = kept.starts()
    writer.strike("roll by hand", lambda: desk.fleet("roll", kept.name))
    kept.wait_ready(240)
    after = kept.starts()
    assert len(after) == len(kept.status["members"]) == 5
    assert all(after[pod][0] != started[0] for pod, started in before.items())
    assert kept.condition("Converged")["status"] == "True"
    _resize(kept, writer, 3)


def _upgrade(kept: Kept, writer: Writer) -> None:
    before = kept.starts()
    fault = writer.strike("upgrade", lambda: kept.change(version="3.5", image=None))
    kept.wait_ready(240)
    assert {one["version"].rpartition(".")[0] for one in kept.status["members"]} == {"3.5"}
    assert all(after[0] != before[pod][0] for pod, after in kept.starts().items())
    assert kept.condition("Converged")["status"] == "True"
    containers = kept.stateful()["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == [
        one["name"] for one in kept.set_up.stateful()["spec"]["template"]["spec"]["containers"]
    ]
    writer.goes_on()
    print(f"{fault.what}: longest time without an acknowledgement {writer.outage(fault.at):.2f} s")


def _resize(kept: Kept, writer: Writer, members: int) -> None:
    before = kept.starts()
    fault = writer.strike(f"resize to {members}", lambda: kept.change(members=members))
    kept.wait_ready(180)
    after = kept.starts()
    assert len(after) == members == len(kept.status["members"])
    assert all(after[pod] == before[pod] for pod in after if pod in before), "a resize restarts nobody"
    claims = {one["metadata"]["name"] for one in kept.cluster.get("pvc")["items"]} - {"backups"}
    assert claims == {f"{kept.set_up.claim}-{pod}" for pod in after}, "whoever left needs no volume"
    writer.goes_on()
    print(f"{fault.what}: longest time without an acknowledgement {writer.outage(fault.at):.2f} s")


@pytest.mark.full  # `make test` has it with processes of three versions, see test_encrypt_processes.py
@pytest.mark.parametrize("kept", [pytest.param(replace(SET_UPS["chart"], series="3.5"), id="chart")], indirect=True)
def test_tls_is_turned_on_while_it_serves_and_nobody_is_cut_off(kept: Kept) -> None:
    """Clients without it write until the roll that shuts them out; those with it from the first one on."""
    kept.adopt()
    kept.wait_adopted()
    before, api = kept.starts(), api_of(kept.cluster)
    with kept.writer(rate=50) as plain:
        opened = plain.strike("TLS is turned on", lambda: kept.change(tls={"enabled": True}))
        kept.wait("clients can have TLS", partial(_waits_for, kept, "clients without TLS are still served"), 240)
        kept.wait_ready(60)
        assert kept.condition("Converged")["reason"] == "NextRoll"
        plain.goes_on()
        print(f"{opened.what}: longest time without an acknowledgement {plain.outage(opened.at):.2f} s")
        with Writer(kept.engine.traffic, lambda: kept.places(api), App.tls(kept), rate=50) as encrypted:
            word = f"fleet.dev/roll={kept.namespace}"
            closed = encrypted.strike("roll", lambda: kept.cluster.kubectl("annotate", "etcd", kept.name, word))
            kept.wait("TLS alone", lambda: kept.condition("Converged").get("status") == "True", 240)
            kept.wait_ready(60)
            encrypted.goes_on()
            print(f"{closed.what}: longest time without an acknowledgement {encrypted.outage(closed.at):.2f} s")
            numbers = plain.stop() | encrypted.stop()
    after, tls = kept.starts(), App.tls(kept)
    assert all(after[pod][0] != before[pod][0] for pod in before)
    for place in kept.places():
        assert lost(kept.engine.traffic, numbers, place, tls) == []
        with pytest.raises(TRAFFIC_ERRORS):
            lost(kept.engine.traffic, frozenset(), place, None)
    _connects(kept)
    kept.cluster.kubectl("annotate", "etcd", kept.name, "fleet.dev/on-delete=release")
    kept.cluster.kubectl("delete", "etcd", kept.name, "--timeout=60s")
    assert kept.starts() == after, "given back, it runs on as it is"


def _waits_for(kept: Kept, words: str) -> bool:
    return words in kept.condition("Converged").get("message", "")


def _connects(kept: Kept) -> None:
    cluster = kept.cluster
    where = [f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}", f"--namespace={cluster.namespace}"]
    command = [sys.executable, "-m", "fleet", "connect", kept.name, *where, "--", "endpoint", "health"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "https://" in done.stdout + done.stderr


@pytest.mark.full
def test_an_app_of_our_own_is_given_back_and_taken_over_again(app: App, tmp_path: Path) -> None:
    """Its members read the operator's files and certificates of its CA: what is left of them when it is nobody's."""
    app.want(version="3.5", members=1)
    app.wait_ready()
    desk, before, identity = Desk.make(app.cluster, tmp_path / "repository"), app.restarts(), app.status["identity"]
    with app.writer(rate=50) as writer:
        desk.fleet("disconnect", app.name, "--write", "given-back.yaml")
        app.cluster.kubectl("apply", "-f", str(desk.root / "given-back.yaml"))
        assert app.restarts() == before
        said = desk.fleet("adopt", "--namespace", app.namespace)
        assert f"cluster {identity}: registry-0 (leader)" in said
        again = App(app.cluster, app.operator, "again")
        adopt = {"identity": identity, "statefulSet": app.name, "service": app.name}
        again.want(version="3.5", members=1, adopt={**adopt, "takeFrom": ["kubectl-client-side-apply"]})
        again.wait("it is taken over", lambda: again.condition("Adopted").get("status") == "True", 60)
        again.wait_ready()
        assert app.restarts() == before
        writer.goes_on()
        numbers = writer.stop()
    app.has_all(numbers)
