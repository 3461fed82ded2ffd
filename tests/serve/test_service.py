"""`fleet serve` on two real API servers and a real git remote: it reaches the clusters itself, or their agents pull."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from tests.serve.pulling_clusters import Pulled
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map
from tests.sync.rollout_stack import write_rolled_out

OURS = "fleet/"  # how our user agent begins
REPORTED = """
import fleet

@fleet.stack(clusters={clusters!r}, name={name!r}, drift="report")
def reported(cluster: fleet.Cluster) -> None:
    {body}
"""


@pytest.fixture
def served(either: Served) -> Served:
    return either


def test_commits_are_applied_drift_is_put_back_or_reported_and_nothing_else_is_written(served: Served) -> None:
    repository = served.repository
    eu, us = repository.clusters
    reported = f"{repository.stack}-r"
    repository.wants(config_map("settings", {"a": "1"}))
    text = REPORTED.format(clusters=[eu.name], name=reported, body=config_map("kept", {"a": "1"}))
    repository.write("stacks/reported.py", text)
    first = served.push()
    served.environment["FLEET_WEBHOOK_SECRET"] = "s3cret"
    served.start(poll="1h", status_every="3s")  # whatever comes later, comes by webhook; writes of health are counted
    served.until("both are told", lambda: all(served.record(one.name).get("revision") == first for one in (eu, us)))
    assert served.data(eu, "settings") == served.data(us, "settings") == {"a": "1"}
    assert served.record(eu.name)["health"] == "Healthy"
    served.until("it is ready", lambda: served.ask("/readyz")[0] == 200)
    assert served.ask("/healthz") == (200, "ok")
    assert served.metric("fleet_evaluated_stacks_total") == 2

    repository.wants(config_map("settings", {"a": "2"}), config_map("more", {"b": "1"}))
    second = served.push()
    body = json.dumps(
        {
            "ref": "refs/heads/main",
            "before": first,
            "after": second,
            "repository": {"full_name": "team/fleet", "html_url": "https://forge.example.com/team/fleet"},
        }
    ).encode()
    signed = {"X-Gitea-Event": "push", "X-Gitea-Signature": hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()}
    assert served.ask("/hooks/gitea", body, {**signed, "X-Gitea-Signature": "0" * 64})[0] == 403
    assert served.data(eu, "more") is None
    assert served.ask("/hooks/gitea", body, signed)[0] == 202
    served.until("both have it", lambda: served.data(eu, "more") == served.data(us, "more") == {"b": "1"})
    assert served.data(eu, "settings") == served.data(us, "settings") == {"a": "2"}
    served.until("it is told", lambda: served.record(eu.name).get("revision") == second)
    assert served.metric("fleet_evaluated_stacks_total") == 3, "the other stack was not evaluated again"

    drift = {"data": {"a": "drift", "theirs": "kept"}}
    eu.kubectl("-n", repository.namespace, "patch", "configmap", "settings", "--type=merge", "-p", json.dumps(drift))
    seconds = served.until("it is put back", lambda: served.data(eu, "settings") == {"a": "2", "theirs": "kept"})
    print(f"drift was put back {seconds:.2f} s after it was seen")
    us.kubectl("-n", repository.namespace, "delete", "configmap", "more")
    served.until("it is made again", lambda: served.data(us, "more") == {"b": "1"})
    served.until("repairs are counted", lambda: served.metric("fleet_drift_repairs_total") >= 2)

    def reasons() -> set[str]:
        found = (served.live(eu, "/api/v1/namespaces/fleet-system/events") or {}).get("items", ())
        return {one["reason"] for one in found if one["involvedObject"]["name"].startswith(f"{repository.stack}.")}

    served.until("events say so", lambda: reasons() >= {"Synced", "Repaired"})

    eu.kubectl("-n", reported, "patch", "configmap", "kept", "--type=merge", "-p", '{"data": {"a": "drift"}}')
    served.until("it is reported", lambda: served.record(eu.name, reported).get("sync") == "Drifted")
    assert "data.a" in served.record(eu.name, reported)["message"]
    assert served.data(eu, "kept", reported) == {"a": "drift"}

    marks = [one.audit.mark() for one in (eu, us)]
    commits = repository.remote.git("rev-list", "--count", "fleet/status")
    repository.write("README.md", "words")  # a commit that changes no stack
    third = served.push()
    assert served.ask("/hooks/gitea", body, signed)[0] == 202
    served.until("the commit is seen", lambda: served.record(us.name).get("revision") == third)
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]
    told = int(repository.remote.git("rev-list", "--count", "fleet/status")) - int(commits)
    assert 1 <= told <= served.tellers

    repository.write("stacks/reported.py", text.replace("'1'", "'2'"))
    served.push()
    assert served.ask("/hooks/gitea", body, signed)[0] == 202
    served.until("git's own change is applied", lambda: served.data(eu, "kept", reported) == {"a": "2"})
    served.until("it is told", lambda: served.record(eu.name, reported)["sync"] == "Synced")
    eu.kubectl("-n", reported, "patch", "configmap", "kept", "--type=merge", "-p", '{"data": {"a": "drift"}}')
    served.until("it is reported again", lambda: served.record(eu.name, reported).get("sync") == "Drifted")
    repository.write("stacks/reported.py", text.replace("'1'", "'2'").replace('drift="report"', 'drift="repair"'))
    served.push()
    assert served.ask("/hooks/gitea", body, signed)[0] == 202
    served.until("it is put back once the stack wants that", lambda: served.data(eu, "kept", reported) == {"a": "2"})
    assert served.stop() == 0
    eu.kubectl("delete", "namespace", reported, "--wait=false")
    eu.kubectl("-n", "fleet-system", "delete", "configmap", "-l", f"fleet.dev/inventory={reported}")


def test_a_killed_service_goes_on_elsewhere_and_a_stopped_one_hands_over(
    served: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = served.repository
    eu, us = repository.clusters
    repository.wants(*(config_map(f"c{number}", {"a": "1"}) for number in range(20)))
    served.push()
    served.start()
    served.until("it has begun", lambda: served.data(eu, "c3") is not None or served.data(us, "c3") is not None)
    served.kill()
    second = {f"c{number}": {"a": "2"} for number in range(1, 20)}  # one object leaves: that is within any budget
    repository.wants(*(config_map(name, data) for name, data in second.items()))
    revision = served.push()
    served.directory = served.directory / "elsewhere"
    served.directory.mkdir()
    served.start(*(() if isinstance(served, Pulled) else ("--management", eu.name)))
    served.until("it is done", lambda: all(served.record(one.name).get("revision") == revision for one in (eu, us)))
    for one in (eu, us):
        found = {f"c{number}": served.data(one, f"c{number}") for number in range(20)}
        assert found == {"c0": None, **second}
    if isinstance(served, Pulled):
        return  # agents have a Lease in pods only

    replica = Served(repository, tmp_path_factory.mktemp("replica"))
    try:
        replica.start("--management", eu.name)
        replica.until("it stands by", lambda: replica.ask("/readyz")[0] == 200)
        both = (served, replica)  # one that got no time to say that it is there has lost its Lease
        served.until("one leads", lambda: sorted(one.metric("leader_election_master") for one in both) == [0, 1])
        leader, other = sorted(both, key=lambda one: -one.metric("leader_election_master"))
        assert leader.stop() == 0
        repository.wants(*(config_map(name, data) for name, data in {**second, "c1": {"a": "3"}}.items()))
        served.push()
        other.until("the other went on", lambda: served.data(us, "c1") == {"a": "3"})
    finally:
        replica.kill()


def test_what_cannot_be_read_deletes_nothing_and_what_does_not_answer_is_never_healthy(served: Served) -> None:
    repository = served.repository
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}), config_map("more", {"a": "1"}))
    good = served.push()
    served.start("--kubeconfig", str(repository.without(us.name)))
    served.until("it is told", lambda: served.record(eu.name).get("revision") == good)
    served.until("the other is told of", lambda: served.record(us.name).get("sync") == "Unreachable")
    assert served.record(us.name)["health"] == "Unknown"

    repository.write("stacks/stack.py", "raise ValueError('no')")
    bad = served.push("a stack that raises")
    served.until("it is told", lambda: served.record(eu.name).get("wanted") == bad)
    said = served.record(eu.name)
    assert (said["sync"], said["health"], said["revision"]) == ("Failed", "Healthy", good)
    assert "no" in said["message"]
    told = served.metric("fleet_status_writes_total")
    eu.kubectl("-n", repository.namespace, "delete", "configmap", "more")
    served.until("the last good commit is looked after", lambda: served.data(eu, "more") == {"a": "1"})
    served.until("that is told", lambda: served.metric("fleet_status_writes_total") > told)
    assert (served.record(eu.name)["wanted"], served.record(eu.name)["sync"]) == (bad, "Failed"), (
        "the commit is still bad"
    )

    (repository.root / "stacks" / "stack.py").unlink()
    repository.write("stacks/.keep", "")
    repository.write("clusters/all.py", "import fleet\n")
    empty = served.push("no stacks and no clusters")
    served.until("it is told", lambda: served.record(eu.name).get("wanted") == empty)
    assert "no stack is left in git" in served.record(eu.name)["message"]
    repository.remote.git("update-ref", "-d", "refs/heads/main")
    served.until("the branch is missed", lambda: served.metric("fleet_repository_broken") >= 1)
    assert served.data(eu, "settings") == served.data(eu, "more") == {"a": "1"}


def test_waves_wait_for_health_and_for_a_person_and_the_first_unhealthy_cluster_stops_the_rest(served: Served) -> None:
    repository = served.repository
    eu, us = repository.clusters

    def wants(version: str, *, ill: bool = False) -> str:
        write_rolled_out(repository, version, ill=ill, rollout="approve=[2]")
        return served.push(version)

    first = wants("1")
    served.start()
    served.until("wave 1 is done", lambda: served.record(eu.name).get("revision") == first)
    served.until("a person is asked", lambda: "fleet approve" in served.record(us.name).get("message", ""))
    assert served.record(us.name)["sync"] == "Waiting"
    assert served.data(us, "after") is None
    assert served.data(eu, "after") == {"version": "1"}
    assert repository.fleet("approve", repository.stack, "1").code == 2, "nobody asked for that word"
    said = repository.fleet("approve", repository.stack, "2")
    assert f"wave 2 of {repository.stack} ({us.name}) may begin" in said.out, said.err
    served.until("wave 2 is done", lambda: served.record(us.name).get("revision") == first)
    assert served.data(us, "after") == {"version": "1"}

    second = wants("2", ill=True)
    assert repository.fleet("approve", repository.stack, "2").code == 0
    served.until("it is stopped", lambda: "stopped" in served.record(us.name).get("message", ""))
    assert f"stopped: {eu.name} has a part of this revision and is Degraded" in served.record(us.name)["message"]
    assert (served.record(eu.name)["wanted"], served.record(eu.name)["health"]) == (second, "Degraded")
    assert served.data(eu, "after") == {"version": "1"}, "what depends on it waits for its health"
    served.kill()  # what was decided is decided again by whoever comes
    mark = us.audit.mark()
    served.start()
    served.until("it is looked at", lambda: served.ask("/readyz")[0] == 200)
    assert [one for one in us.audit.writes(mark, agent=OURS) if one.resource != "events"] == []

    third = wants("3")
    assert repository.fleet("approve", repository.stack, "2").code == 0
    served.until("it goes on", lambda: all(served.record(one.name).get("revision") == third for one in (eu, us)))
    assert served.data(eu, "after") == served.data(us, "after") == {"version": "3"}
