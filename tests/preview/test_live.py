"""A merge against real clusters: what a sync would do after it, what of it is drift, what servers have against it."""

from __future__ import annotations

import json

from fleet.testing import Cluster
from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository, config_map

OURS = "fleet/"  # how our user agent begins


def start(repository: FleetRepository, *lines: str) -> None:
    """Synced on the base, and then on a branch."""
    repository.wants(*lines)
    repository.commit()
    done = repository.sync()
    assert done.code == 0, done.err
    git(repository.root, "checkout", "--quiet", "-b", "change")


def writes(cluster: Cluster, mark: int) -> list[object]:
    return list(cluster.audit.writes(mark, agent=OURS))


def test_drift_is_told_apart_from_the_change_and_nothing_is_written(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    start(repository, config_map("kept", {"a": "1"}), config_map("changed", {"a": "1"}), config_map("lost", {"a": "1"}))
    eu.kubectl("-n", repository.namespace, "patch", "configmap", "kept", "--patch", json.dumps({"data": {"a": "9"}}))
    eu.kubectl("-n", repository.namespace, "delete", "configmap", "lost")
    repository.wants(config_map("kept", {"a": "1"}), config_map("changed", {"a": "2"}), config_map("lost", {"a": "1"}))
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    shown = repository.fleet("preview", "--base", "main", "--live", "-o", "json")
    assert shown.code == 0, shown.err
    found = {(one["cluster"], one["object"]["name"]): one for one in shown.json()["steps"]}
    assert found[eu.name, "kept"]["drift"] is True
    assert found[eu.name, "lost"]["drift"] is True
    assert found[eu.name, "lost"]["verb"] == "create"
    assert "drift" not in found[eu.name, "changed"]
    assert (us.name, "kept") not in found
    alone = repository.fleet("preview", "--base", "main", "-o", "json").json()
    assert alone["planHash"] == shown.json()["planHash"], "it is of the change, whatever the clusters are like"
    for one, mark in zip((eu, us), marks, strict=True):
        assert writes(one, mark) == []
        assert one.audit.requests(mark, agent=OURS), "it was asked"


def test_what_a_server_refuses_is_said_at_the_object(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    start(repository, f"fleet.Manifest({service!r})", config_map("fine", {"a": "1"}))
    service["spec"] = {"ports": [{"port": 99999999}]}
    repository.wants(f"fleet.Manifest({service!r})", config_map("fine", {"a": "2"}))
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    shown = repository.fleet("preview", "--base", "main", "--live")
    assert shown.code == 4
    assert "the server refuses it" in shown.out
    assert "spec.ports[0].port" in shown.out
    assert "2 refused by the server" in shown.out
    assert f"{eu.name} refuses Service {repository.namespace}/web" in shown.err
    page = repository.fleet("preview", "--base", "main", "--live", "-o", "html").out
    assert "the server refuses it" in page
    again = repository.fleet("preview", "--live", "-o", "json")
    refused = [one for one in again.json()["steps"] if "objection" in one]
    assert {one["cluster"] for one in refused} == {eu.name, us.name}, "also without --base"
    for one, mark in zip((eu, us), marks, strict=True):
        assert writes(one, mark) == []


def test_a_dry_run_that_quotes_a_secret_is_not_repeated(repository: FleetRepository) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "Y2FuYXJ5"}}
    start(repository, f"fleet.Manifest({secret!r})")
    secret["data"] = {"a": 123456789}
    repository.wants(f"fleet.Manifest({secret!r})")
    repository.commit()
    shown = repository.fleet("preview", "--base", "main", "--live")
    assert shown.code == 4
    assert "123456789" not in shown.out + shown.err


def test_a_pull_request_does_not_decide_where_its_preview_sends_requests(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    start(repository, config_map("a", {"a": "1"}))
    repository.write(
        "clusters/all.py",
        f"import fleet\n\nfleet.Cluster({eu.name!r}, context={us.name!r})\nfleet.Cluster('new', context={us.name!r})\n",
    )
    repository.wants(config_map("a", {"a": "2"}), clusters=[eu.name, "new"])
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    shown = repository.fleet("preview", "--base", "main", "--live", "-o", "json")
    assert shown.code == 0, shown.err
    assert eu.audit.requests(marks[0], agent=OURS)
    assert not us.audit.requests(marks[1], agent=OURS)
    assert f"{eu.name}: the change alters how it is reached" in shown.err
    assert "new: new in this change, so it is not asked" in shown.err
    assert {one["verb"] for one in shown.json()["steps"] if one["cluster"] == "new"} == {"create"}


def test_a_cluster_that_cannot_be_reached_fails_alone(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    start(repository, config_map("a", {"a": "1"}))
    repository.wants(config_map("a", {"a": "2"}))
    repository.commit()
    cut = repository.without(us.name)
    shown = repository.fleet("preview", "--base", "main", "--live", "--kubeconfig", str(cut), "-o", "json")
    assert shown.code == 4
    assert {one["cluster"] for one in shown.json()["steps"]} == {eu.name}
    assert any("error" in one for one in shown.json()["clusters"] if one["cluster"] == us.name)
