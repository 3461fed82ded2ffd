"""What was synced, how to go back, what differs now, and what happens meanwhile: on real clusters and real git."""

from __future__ import annotations

from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository, config_map

SHARED = "SIZE = {size!r}\n"
OTHER = """
import fleet
from stacks import _shared

@fleet.stack(clusters=[{cluster!r}], name={name!r}, namespace="default")
def other(cluster: fleet.Cluster) -> None:
    fleet.export("size", _shared.SIZE)
"""


def test_history_is_told_by_git_and_a_stack_goes_back_by_a_commit(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.monkeypatch.setenv("FLEET_USER", "ada")
    repository.write("stacks/_shared.py", SHARED.format(size="1"))
    repository.write("stacks/other.py", OTHER.format(cluster=eu.name, name=f"{repository.stack}-other"))
    wants = ("from stacks import _shared", config_map("settings", {"a": "1"}))
    repository.wants(*wants)
    first = repository.commit("as it was")
    assert "nothing was synced yet" in repository.fleet("history", "--git").out
    assert repository.sync().code == 0
    repository.write("stacks/_shared.py", SHARED.format(size="2"))
    repository.wants(wants[0], config_map("settings", {"a": "2"}), config_map("more", {"a": "2"}))
    second = repository.commit("as it is")
    assert repository.sync().code == 0
    git(repository.root, "push", "--quiet", "origin", "HEAD:main")

    told = repository.fleet("history", "--stack", repository.stack, "-o", "json").json()["commits"]
    assert [(one["revision"], one["author"], one["subject"]) for one in told] == [
        (second, "Test", "as it is"),
        (first, "Test", "as it was"),
    ]
    outcomes = [(one["cluster"], one["sync"], one["by"], one["changedItLast"]) for one in told[0]["outcomes"]]
    assert outcomes == [(eu.name, "Synced", "ada", True), (us.name, "Synced", "ada", True)]
    assert not any(one["changedItLast"] for one in told[1]["outcomes"])
    text = repository.fleet("history", "--cluster", us.name).out
    assert f"{second[:8]}  " in text
    assert "Test: as it was" in text
    assert f"   {eu.name}   " not in text

    tried = repository.fleet("rollback", repository.stack, "--dry-run")
    assert tried.code == 0, tried.err
    assert f"- delete     ConfigMap {repository.namespace}/more" in tried.out
    assert repository.remote.git("for-each-ref", "--format=%(refname)", "refs/heads").split() == [
        "refs/heads/fleet/status",
        "refs/heads/main",
    ]
    done = repository.fleet("rollback", repository.stack, "-o", "json")
    assert done.code == 0, done.err
    assert (done.json()["to"], done.json()["files"]) == (first, ["stacks/stack.py"])
    assert "other stacks read it too: stacks/_shared.py" in done.err
    branch = done.json()["branch"]
    assert repository.remote.git("diff", "--name-only", "main", branch).split() == ["stacks/stack.py"]
    assert repository.remote.git("diff", first, branch, "--", "stacks/stack.py") == ""
    said = repository.remote.git("log", "-1", "--format=%an %s", branch)
    assert said == f"Test Roll back {repository.stack} to {first[:8]}\n"
    assert git(repository.root, "status", "--porcelain") == "", "the person's own files stay as they are"
    again = repository.fleet("rollback", repository.stack)
    assert (again.code, "is there already" in again.err) == (4, True)

    git(repository.root, "pull", "--quiet", "--ff-only", "origin", branch)
    assert repository.sync().code == 0
    assert (repository.data(eu, "settings"), repository.data(us, "more")) == ({"a": "1"}, None)
    git(repository.root, "push", "--quiet", "origin", "HEAD:main")
    nothing = repository.fleet("rollback", repository.stack, "--to", "HEAD")
    assert (nothing.code, "is as it was" in nothing.err) == (2, True)


def test_a_diff_tells_what_others_changed_from_what_waits(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "password"},
        "stringData": {"word": "open-sesame"},
    }
    wants = [config_map("a", {"a": "1"}), config_map("b", {"a": "1"}), f"fleet.Manifest({secret!r})"]
    repository.wants(*wants)
    repository.commit()
    assert repository.sync().code == 0
    assert repository.fleet("diff", "--expect-no-changes").code == 0
    here = ("-n", repository.namespace)
    eu.kubectl(*here, "patch", "configmap", "a", "--type=merge", "-p", '{"data": {"a": "by hand", "theirs": "x"}}')
    eu.kubectl(*here, "patch", "secret", "password", "--type=merge", "-p", '{"stringData": {"word": "guess"}}')
    us.kubectl(*here, "delete", "configmap", "b")
    repository.wants(*wants, config_map("c", {"a": "1"}))
    repository.commit()
    found = repository.fleet("diff", "-o", "json").json()["differences"]
    assert [(one["cluster"], one["object"]["name"], one["why"], one["what"]) for one in found] == [
        (eu.name, "a", "drift", "was changed by others"),
        (eu.name, "c", "pending", "is not there yet"),
        (eu.name, "password", "drift", "was changed by others"),
        (us.name, "b", "drift", "is gone"),
        (us.name, "c", "pending", "is not there yet"),
    ]
    assert found[0]["fields"] == [{"path": "data.a", "git": "1", "cluster": "by hand"}]
    text = repository.fleet("diff", "--drift").out
    assert 'data.a: git "1", cluster "by hand"' in text
    assert "pending" not in text
    assert not {"guess", "open-sesame"} & set(text.replace('"', " ").split())
    assert repository.fleet("diff", "--drift", "--expect-no-changes").code == 7


def test_watching_without_a_terminal_is_a_line_for_each_thing_that_happens(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    revision = repository.commit()
    assert repository.sync().code == 0
    only = ("--stack", repository.stack, "--every", "100ms")
    done = repository.fleet("watch", *only, "--until-healthy", "--timeout", "60s")
    assert done.code == 0, done.err
    lines = [line.partition("  ")[2] for line in done.out.splitlines()]
    assert lines == [f"{repository.stack} on {one.name}: Healthy at {revision[:8]}" for one in (eu, us)]
    us.kubectl("-n", repository.namespace, "delete", "configmap", "a")
    late = repository.fleet("watch", *only, "--until-healthy", "--timeout", "1s")
    assert late.code == 9
    assert f"{repository.stack} on {us.name}: Missing" in late.out
