"""What was approved is what is applied, on real clusters: merges of every kind, and everything that is none."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.approval.team import Team, writes
from tests.sync.fleet_repository import STACK, FleetRepository, config_map


@pytest.fixture
def team(repository: FleetRepository) -> Team:
    return Team(repository)


def test_merge_squash_and_rebase_beside_each_other_in_one_sync(team: Team) -> None:
    """All three are previewed on the same base, so that two of them have a neighbour in between."""
    with team.branch("squashed"):
        team.write(a="2")
        team.repository.commit()
    with team.branch("merged"):
        team.write(one="1")
        team.repository.commit()
    with team.branch("rebased"):
        team.write(two="1")
        team.repository.commit()
        team.write(two="2")
        team.repository.commit()
    team.git("merge", "--quiet", "--squash", "squashed")
    team.repository.commit("Squashed (#1)")
    team.git("merge", "--quiet", "--no-ff", "--message", "Merged (#2)", "merged")
    team.git("checkout", "--quiet", "rebased")
    team.git("rebase", "--quiet", "main")
    team.git("checkout", "--quiet", "main")
    team.git("merge", "--quiet", "--ff-only", "rebased")
    team.push()
    team.synced()
    assert [team.value(name, 1) for name in ("a", "b", "one", "two")] == ["2", "1", "1", "2"]


def test_what_nobody_previewed_is_refused_until_somebody_approves_it(team: Team) -> None:
    namespace = team.repository.namespace
    with team.branch("feature"):
        team.write(a="2")
        team.repository.commit()
    assert "is not on main" in team.refused("--revision", "feature", "--any-branch"), "a preview alone approves nothing"
    team.git("checkout", "--quiet", "feature")
    team.write(a="2", b="9")
    commit = team.repository.commit("one more thing")
    team.git("checkout", "--quiet", "main")
    team.git("merge", "--quiet", "--ff-only", "feature")
    assert "is not on main" in team.refused(), "not on that of the remote"
    team.push()
    told = team.refused()
    assert f"ConfigMap {namespace}/b: " in told
    assert f"{namespace}/a: " not in told, "that was shown"
    assert f"no record leads to commit {commit[:8]} one more thing" in told
    assert "fleet approve" in told
    shown = team.repository.fleet("approve", "--yes")
    assert shown.code == 0, shown.err
    assert '"1" → "9"' in shown.out
    with team.tampered_record():
        told = team.refused()
    assert f"ConfigMap {namespace}/b: " in told
    assert "is not the record that its name says" in told
    team.synced()
    assert (team.value("a"), team.value("b")) == ("2", "9")
    assert "nothing to approve" in team.repository.fleet("approve", "--yes").out


def test_a_person_may_ask_for_approvals_where_the_settings_do_not(repository: FleetRepository) -> None:
    team = Team(repository, settings="")
    team.write(a="2")
    team.repository.commit("not approved")
    team.push()
    told = team.refused("--require-approved")
    assert f"ConfigMap {repository.namespace}/a: " in told
    approved = repository.fleet("approve", "--yes")
    assert approved.code == 0, approved.err
    team.synced("--require-approved")
    assert (team.value("a"), team.value("a", 1)) == ("2", "2")
    team.write(a="3")
    team.repository.commit("not approved either")
    team.push()
    team.synced()
    assert team.value("a") == "3", "nobody asked"


ETCD = "from fleet.apps import Etcd"
FORCED = "force_quorum: where a majority is lost, goes on from one member; writes may be lost"


def etcd(**fields: object) -> str:
    more = "".join(f", {name}={value!r}" for name, value in fields.items())
    return f"Etcd('kv', version='3.5', storage='1Gi'{more})"


def test_to_force_a_quorum_is_shown_confirmed_and_approved_like_any_loss(team: Team) -> None:
    """No operator runs here: what counts is what people are shown and asked."""
    repository = team.repository
    team.write(ETCD, etcd(members=3))
    repository.commit("an etcd")
    team.push()
    assert repository.fleet("approve", "--yes").code == 0
    assert repository.sync("--no-wait").code == 0
    asked = {}
    for words, wanted in (
        ("scale 3 → 1: the data of 2 members is deleted when they have left", etcd(members=1)),
        (FORCED, etcd(members=3, force_quorum=True)),
    ):
        team.write(ETCD, wanted)
        repository.commit(words)
        team.push()
        for shown in (repository.fleet("preview"), repository.fleet("approve")):
            first, second, _ = shown.out.split("\n", 2)
            assert first == "2 destructive changes"
            assert f"~ update Etcd.fleet.dev {repository.namespace}/kv" in second
            assert words in shown.out
        asked[words] = (shown.code, shown.err)
        assert words in team.refused(), "not yet approved"
    assert asked[FORCED][0] == 2
    assert "say so with --yes" in asked[FORCED][1]
    assert len(set(asked.values())) == 1, "both ask for the same confirmation, and without it nothing is approved"

    approved = repository.fleet("approve", "--yes", "-o", "json")
    place = f"trees/{json.loads(approved.out)['tree']}"
    file = repository.remote.git("ls-tree", "--name-only", "fleet/approved", f"{place}/").strip()
    record = json.loads(repository.remote.git("show", f"fleet/approved:{file}"))
    allowed = {edge[1]: edge[-1] for change in record["changes"] for edge in change["objects"]}
    assert allowed == {"Etcd": "lose"}
    assert repository.sync("--no-wait").code == 0
    found = repository.get(repository.clusters[0], "etcd", "kv")
    assert found is not None
    assert found["spec"]["forceQuorum"] is True


def test_an_evaluation_that_gives_something_else_than_was_shown_is_stopped(team: Team) -> None:
    """One that is the same twice in one run, by when its files were written, and another one in the next run."""
    eu, us = team.repository.clusters
    when = "str(os.stat('stacks/stack.py').st_mtime_ns)"
    luck = f"{{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {{'name': 'luck'}}, 'data': {{'x': {when}}}}}"
    with team.branch("feature"):
        team.write("import os", f"if cluster.name == {eu.name!r}: fleet.Manifest({luck})", a="2")
        team.repository.commit()
    team.git("merge", "--quiet", "--ff-only", "feature")
    team.push()
    marks = [one.audit.mark() for one in (eu, us)]
    done = team.repository.sync()
    assert done.code == 5
    assert re.search(
        r"ConfigMap \S+/luck: [0-9a-f]{8} was approved \(in [0-9a-f]{8} .*\), and git now declares [0-9a-f]{8}",
        done.err,
    )
    assert writes(eu, marks[0]) == [], "not even what was shown"
    assert team.value("a") == "1"
    assert team.value("a", 1) == "2", "a cluster in which all is as it was approved"


def test_drift_is_repaired_unless_that_is_more_destructive_than_what_was_approved(team: Team) -> None:
    eu, us = team.repository.clusters
    namespace = team.repository.namespace
    with team.branch("web"):
        team.write(_web("one"))
        team.repository.commit()
    team.git("merge", "--quiet", "--ff-only", "web")
    team.push()
    eu.kubectl("-n", namespace, "patch", "configmap", "a", "--patch", json.dumps({"data": {"x": "by hand"}}))
    eu.kubectl("-n", namespace, "delete", "configmap", "b")
    team.synced("--no-wait")
    assert (team.value("a"), team.value("b")) == ("1", "1")
    with team.branch("labelled"):
        team.write(_web("two"))
        team.repository.commit()
    team.git("merge", "--quiet", "--ff-only", "labelled")
    team.push()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "localhost/web:9"}]}}}}
    eu.kubectl("-n", namespace, "patch", "deployment", "web", "--patch", json.dumps(patch))
    marks = [one.audit.mark() for one in (eu, us)]
    done = team.repository.sync("--no-wait")
    assert done.code == 5
    assert "web: approved was to update in place, and now it is: rolling restart of 2 pods" in done.err
    assert writes(eu, marks[0]) == []
    assert writes(us, marks[1]) != []
    approved = team.repository.fleet("approve", "--yes", "--cluster", eu.name)
    assert approved.code == 0, approved.err
    team.synced("--no-wait")


def test_a_restart_that_was_approved_does_not_cover_members_that_leave_with_their_data(team: Team) -> None:
    eu, us = team.repository.clusters
    namespace = team.repository.namespace
    for name, image in (("queue", "localhost/queue:1"), ("newer", "localhost/queue:2")):
        with team.branch(name):
            team.write(_queue(image))
            team.repository.commit()
        team.git("merge", "--quiet", "--ff-only", name)
        team.push()
        if name == "queue":
            team.synced("--no-wait")
    eu.kubectl("-n", namespace, "scale", "statefulset", "queue", "--replicas=3")
    marks = [one.audit.mark() for one in (eu, us)]
    done = team.repository.sync("--no-wait")
    assert done.code == 5
    told = "scale 3 → 1: the data of those that leave is deleted; rolling restart of 1 pod"
    assert f"queue: approved was to restart, scale or upgrade, and now it is: {told}" in done.err
    assert writes(eu, marks[0]) == []
    assert writes(us, marks[1]) != []
    approved = team.repository.fleet("approve", "--yes", "--cluster", eu.name)
    assert approved.code == 0, approved.err
    assert "1 destructive change" in approved.out
    team.synced("--no-wait")
    assert eu.kubectl("-n", namespace, "get", "statefulset", "queue", "-o", "jsonpath={.spec.replicas}") == "1"


def test_the_rule_is_not_left_without_an_approval(team: Team) -> None:
    team.repository.write("fleet.toml", "")
    team.repository.commit("no rule")
    with team.branch("feature"):
        team.write(a="2")
        team.repository.commit()
    team.git("merge", "--quiet", "--ff-only", "feature")
    team.push()
    told = team.refused()
    assert "approvals: required on main, recorded on fleet/approved → not required: nobody approved it" in told
    approved = team.repository.fleet("approve", "--yes", "-m", "we do without")
    assert approved.code == 0, approved.err
    team.synced()
    team.write(a="3")
    team.repository.commit("free")
    team.synced()
    assert team.value("a") == "3"


def test_nor_by_a_commit_that_only_brings_a_new_stack(team: Team) -> None:
    """It has nothing applied that could have a rule: that of its neighbours holds, also if they are not asked for."""
    repository = team.repository
    repository.write("fleet.toml", "")
    fresh = f"{repository.stack}-fresh"
    names = [one.name for one in repository.clusters]
    text = STACK.format(clusters=names, name=fresh, namespace=fresh, body=f"    {config_map('new', {})}")
    repository.write("stacks/fresh.py", text)
    repository.commit("no rule, and one more thing")
    team.push()
    for only in ((), ("--stack", fresh)):
        told = team.refused(*only)
        assert "approvals: required on main, recorded on fleet/approved → not required: nobody approved it" in told


def test_what_nobody_owns_in_a_cluster_has_no_rule_for_this_repository(repository: FleetRepository) -> None:
    """It may be of any repository: its commit, which is in no clone of this one, says nothing about this one."""
    team = Team(repository, settings="")
    strange = f"{repository.stack}-strange"
    for cluster in repository.clusters:
        ours = cluster.get("-n", "fleet-system", "configmap", f"{repository.stack}.inventory.0")
        data = ours["data"] | {"stack": strange, "revision": "f" * 40}
        assert data.pop("repository")
        labels = ours["metadata"]["labels"] | {"fleet.dev/inventory": strange}
        metadata = {"name": f"{strange}.inventory.0", "labels": labels}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        cluster.kubectl("-n", "fleet-system", "create", "-f", "-", input=json.dumps(made))
    team.write(a="2")
    repository.commit("free")
    team.synced()
    assert (team.value("a"), team.value("a", 1)) == ("2", "2")


def test_a_rule_that_cannot_be_read_any_more_is_not_left_either(team: Team) -> None:
    """The history was made anew: what the clusters have is in no clone."""
    team.git("checkout", "--quiet", "--orphan", "anew")
    team.repository.write("fleet.toml", "")
    team.write(a="2")
    team.repository.commit("all anew")
    team.git("branch", "--quiet", "--force", "main", "anew")
    team.git("checkout", "--quiet", "main")
    team.git("branch", "--quiet", "--delete", "anew")
    team.git("reflog", "expire", "--expire=now", "--all")
    team.git("push", "--quiet", "--force", "origin", "main")
    team.git("fetch", "--quiet", "--prune", "origin")
    team.git("gc", "--quiet", "--prune=now")
    told = team.refused("--allow-rewritten")
    assert "approvals: required on main, recorded on fleet/approved → not required: nobody approved it" in told


def _queue(image: str) -> str:
    labels = {"app": "queue"}
    manifest: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "queue"},
        "spec": {
            "replicas": 1,
            "serviceName": "queue",
            "selector": {"matchLabels": labels},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "queue", "image": image}]},
            },
        },
    }
    return f"fleet.Manifest({manifest!r})"


def _web(label: str) -> str:
    labels = {"app": "web"}
    manifest: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"for": label}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "localhost/web:1"}]},
            },
        },
    }
    return f"fleet.Manifest({manifest!r})"
