"""`fleet sync` and `fleet preview` on two real API servers."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.evaluate import pool
from fleet.kube import identity
from fleet.kube.client.client import Client
from fleet.kube.lease import Lease
from fleet.testing.git import git
from tests.kube.with_client import connected
from tests.sync.fleet_repository import FleetRepository, config_map

OURS = "fleet/"  # how our user agent begins


def test_a_sync_applies_to_every_cluster_and_the_next_writes_nothing(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}), "fleet.export('answer', 42)")
    revision = repository.commit()
    first = repository.sync()
    assert first.code == 0, first.err
    assert "4 to create" in first.out
    assert repository.data(eu, "settings") == repository.data(us, "settings") == {"a": "1"}

    marks = [one.audit.mark() for one in (eu, us)]
    second, preview = repository.sync("--expect-no-changes"), repository.fleet("preview", "--expect-no-changes")
    assert (second.code, preview.code) == (0, 0)
    assert "no changes" in second.out
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]

    page = repository.remote.git("show", "fleet/status:README.md")
    assert f"| [{repository.stack}](clusters/{eu.name}/{repository.stack}.json) | {eu.name} | 🟢 Healthy |" in page
    git(repository.root, "fetch", "--quiet", "origin", "refs/notes/fleet:refs/notes/fleet")
    assert f"{repository.stack} {us.name}: Synced, Healthy" in git(
        repository.root, "notes", "--ref=fleet", "show", revision
    )


def test_a_sync_of_one_change_reads_the_others_once_and_writes_one(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    others = [config_map(f"other-{number}", {"a": "1"}) for number in range(10)]
    repository.wants(config_map("changed", {"a": "1"}), *others)
    repository.commit()
    assert repository.sync().code == 0
    repository.wants(config_map("changed", {"a": "2"}), *others)
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    done = repository.sync()
    assert done.code == 0, done.err
    for cluster, mark in zip((eu, us), marks, strict=True):
        asked = [one for one in cluster.audit.requests(mark, agent=OURS) if one.namespace == repository.namespace]
        assert [one.verb for one in asked if not one.name and one.resource == "configmaps"] == ["list"]
        assert [(one.verb, one.name) for one in asked if one.is_write] == [("patch", "changed")]
        assert repository.data(cluster, "changed") == {"a": "2"}


def test_writes_need_no_general_client(repository: FleetRepository) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    code = (
        "import sys; from fleet.cli import run; code = run(['sync']); sys.exit(9 if 'aiohttp' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository.root, check=False)
    assert done.returncode == 0
    assert repository.data(repository.clusters[0], "settings") == {"a": "1"}
    code = "import sys; from fleet.cli import run; run(['sync']); print(*sys.modules)"
    again = subprocess.run(
        [sys.executable, "-c", code], cwd=repository.root, check=True, capture_output=True, text=True
    )
    loaded = set(again.stdout.splitlines()[-1].split())
    assert "fleet.apply.inventory" in loaded
    assert not loaded & {"fleet.apply.steps", "fleet.approval", "pydantic"}, "there is nothing to write, or to approve"


def test_a_second_sync_of_a_commit_evaluates_nothing(
    repository: FleetRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    assert repository.sync().code == 0
    monkeypatch.setattr(pool, "Pool", None)  # which is what starts processes with user code
    again = repository.sync("--expect-no-changes")
    assert again.code == 0, again.err
    repository.wants(config_map("settings", {"a": "2"}))
    repository.commit()
    with pytest.raises(TypeError):
        repository.sync()


def test_a_preview_writes_nothing_and_reads_what_is_not_committed(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    repository.wants(config_map("settings", {"a": "1"}), config_map("more", {"a": "1"}))
    marks = [one.audit.mark() for one in (eu, us)]
    preview = repository.fleet("preview", "-o", "json")
    assert preview.json()["changeSummary"]["create"] == 6
    assert repository.fleet("preview", "--revision", "HEAD", "-o", "json").json()["changeSummary"]["create"] == 4
    assert repository.fleet("preview", "--expect-no-changes").code == 7
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]


def test_only_commits_are_applied_and_what_is_left_out_is_named(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    repository.wants(config_map("settings", {"a": "2"}))
    done = repository.sync()
    assert done.code == 0, done.err
    assert "not committed" in done.err
    assert "stacks/stack.py" in done.err
    assert repository.data(eu, "settings") == {"a": "1"}


def test_a_removed_key_disappears_and_a_field_of_another_manager_stays(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("settings", {"a": "1", "b": "2"}))
    repository.commit()
    repository.sync()
    patch = '{"data": {"theirs": "1"}}'
    eu.kubectl("-n", repository.namespace, "patch", "configmap", "settings", "--type=merge", "-p", patch)
    assert repository.sync("--expect-no-changes").code == 0
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    done = repository.sync()
    assert 'data.b: "2" removed' in done.out
    assert repository.data(eu, "settings") == {"a": "1", "theirs": "1"}


def test_drift_is_seen_and_repaired(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}), config_map("other", {"a": "1"}))
    repository.commit()
    repository.sync()
    patch = '{"data": {"a": "9"}}'
    eu.kubectl("-n", repository.namespace, "patch", "configmap", "settings", "--type=merge", "-p", patch)
    us.kubectl("-n", repository.namespace, "delete", "configmap", "other")
    done = repository.sync("-o", "json").json()
    results = {one["cluster"]: one["done"] for one in done["results"]}
    assert results == {eu.name: {"update": 1}, us.name: {"create": 1}}
    assert repository.data(eu, "settings") == {"a": "1"}
    assert repository.data(us, "other") == {"a": "1"}


def test_what_others_change_is_seen_also_where_the_inventory_knows_the_last_version(
    repository: FleetRepository,
) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1", "b": "2"}), config_map("other", {"a": "1"}))
    repository.commit()
    assert repository.sync().code == 0
    eu.kubectl("-n", repository.namespace, "patch", "configmap", "settings", "-p", '{"data": {"b": null, "c": "3"}}')
    us.kubectl("-n", repository.namespace, "label", "configmap", "settings", "theirs=yes")
    us.kubectl("-n", repository.namespace, "label", "configmap", "other", "fleet.dev/stack-")
    mark = us.audit.mark()
    done = repository.sync("-o", "json")
    assert done.code == 0, done.err
    assert {one["cluster"]: one["done"] for one in done.json()["results"]} == {
        eu.name: {"update": 1},
        us.name: {"update": 1},
    }
    assert repository.data(eu, "settings") == {"a": "1", "b": "2", "c": "3"}, "ours is back, theirs stays"
    written = {one.uri.partition("?")[0].rpartition("/")[2] for one in us.audit.writes(since=mark, agent=OURS)}
    assert "other" in written and "settings" not in written
    labels = repository.get(us, "configmap", "other")
    assert labels is not None and labels["metadata"]["labels"]["fleet.dev/stack"] == repository.stack
    assert repository.sync("--expect-no-changes").code == 0


def test_an_object_of_somebody_else_is_a_conflict_and_stays_untouched(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("old", {"a": "1"}))
    repository.commit()
    repository.sync()
    eu.kubectl("-n", repository.namespace, "create", "configmap", "taken", "--from-literal=theirs=1")
    before = repository.get(eu, "configmap", "taken")
    repository.wants(config_map("taken", {"a": "1"}), config_map("fine", {"a": "1"}))
    repository.commit()
    assert repository.fleet("preview").code == 4
    done = repository.sync()
    assert done.code == 4
    assert "kubectl-create" in done.err
    assert "adopt=True" in done.err
    assert repository.get(eu, "configmap", "taken") == before
    assert repository.data(eu, "fine") == {"a": "1"}
    assert repository.data(eu, "old") == {"a": "1"}, "nothing is deleted while its successor may be in conflict"
    assert repository.data(us, "old") is None
    assert repository.data(us, "taken") == {"a": "1"}

    repository.wants(config_map("taken", {"a": "1"}, "adopt=True"), config_map("fine", {"a": "1"}))
    repository.commit()
    assert repository.sync().code == 0
    assert repository.data(eu, "taken") == {"a": "1", "theirs": "1"}
    assert repository.data(eu, "old") is None


def test_after_a_first_sync_that_failed_half_way_status_git_and_diff_say_the_same(repository: FleetRepository) -> None:
    labels = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": labels, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    def status(*flags: str) -> Any:
        return repository.fleet("status", "--stack", repository.stack, *flags, "-o", "json").json()["stacks"]

    eu = repository.clusters[0].name
    repository.wants(f"fleet.Manifest({web!r})", clusters=[eu])
    repository.commit()
    failed = repository.sync()
    assert failed.code == 4
    assert "selector" in failed.err
    (live,) = status()
    assert (live["stack"], live["health"]) == (repository.stack, "Missing")
    assert {(one["kind"], one["health"]) for one in live["objects"]} == {
        ("Namespace", "Healthy"),
        ("Deployment", "Missing"),
    }
    (told,) = status("--git")
    assert (told["sync"], told["health"]) == ("Failed", "Missing")
    assert "Deployment" in repository.fleet("diff").out
    repository.wants(config_map("one", {"a": "1"}), clusters=[eu])
    repository.commit()
    assert repository.sync().code == 0
    assert [one["health"] for one in status()] == ["Healthy"]
    repository.wants(clusters=[eu])
    repository.commit()
    assert repository.sync().code == 0
    assert repository.sync("--expect-no-changes").code == 0


@pytest.mark.parametrize("broken", ["the token", "the context"])
def test_what_could_not_be_looked_at_from_here_is_not_written_for_others_to_see(
    repository: FleetRepository, broken: str, tmp_path: Path
) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("one", {"a": "1"}))
    first = repository.commit()
    assert repository.sync().code == 0
    repository.wants(config_map("one", {"a": "2"}))
    second = repository.commit()
    config = yaml.safe_load(eu.kubeconfig.read_text())
    context = next(one for one in config["contexts"] if one["name"] == us.name)
    if broken == "the token":
        config["users"].append({"name": "nobody", "user": {"token": "wrong"}})
        context["context"]["user"] = "nobody"
    else:
        config["contexts"].remove(context)
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    done = repository.sync("--kubeconfig", str(tmp_path / "kubeconfig"))
    assert done.code != 0
    assert f"could not be looked at from here: {repository.stack} on {us.name}" in done.err
    status = repository.fleet("status", "--git", "-o", "json").json()["stacks"]
    assert {one["cluster"]: (one["sync"], one["health"], one["wanted"]) for one in status} == {
        eu.name: ("Synced", "Healthy", second),
        us.name: ("Synced", "Healthy", first),
    }


def test_an_unreachable_cluster_fails_alone_and_nothing_of_it_is_pruned(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("one", {"a": "1"}), config_map("two", {"a": "1"}))
    first = repository.commit()
    repository.sync()
    repository.wants(config_map("one", {"a": "2"}))
    revision = repository.commit()
    cut = repository.without(us.name)
    begun = time.monotonic()
    done = repository.sync("--kubeconfig", str(cut))
    assert done.code == 4
    assert time.monotonic() - begun < 60
    assert f"cannot reach cluster {us.name}" in done.err
    assert (repository.data(eu, "one"), repository.data(eu, "two")) == ({"a": "2"}, None)
    assert (repository.data(us, "one"), repository.data(us, "two")) == ({"a": "1"}, {"a": "1"})
    assert (
        f"not written into git, since it could not be looked at from here: {repository.stack} on {us.name}" in done.err
    )
    status = repository.fleet("status", "--git", "-o", "json").json()["stacks"]
    assert {one["cluster"]: (one["sync"], one["health"]) for one in status} == dict.fromkeys(
        (eu.name, us.name), ("Synced", "Healthy")
    )
    assert {one["cluster"]: one["wanted"] for one in status} == {eu.name: revision, us.name: first}
    assert repository.sync().code == 0
    assert repository.data(us, "two") is None


def test_two_syncs_at_once_take_turns(repository: FleetRepository, tmp_path: Path) -> None:
    eu, _ = repository.clusters
    repository.wants(*(config_map(f"c{number}", {"a": "1"}) for number in range(30)))
    repository.commit()
    command = [sys.executable, "-m", "fleet", "sync", "--no-status", "--timeout", "60s"]
    logs = [tmp_path / "first", tmp_path / "second"]
    waits = f"{repository.stack} on {eu.name}: waiting (another sync of it is running: "

    def begun() -> list[subprocess.Popen[bytes]]:
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log.open("wb")) for log in logs]
        deadline = time.monotonic() + 60
        while not all(f"{waits}{identity.name()} since 20" in log.read_text() for log in logs):
            assert time.monotonic() < deadline, [log.read_text() for log in logs]
            time.sleep(0.1)
        assert repository.data(eu, "c0") is None, "who waits does nothing"
        return both

    async def held(client: Client) -> list[subprocess.Popen[bytes]]:
        async with Lease(client, repository.stack):
            return await asyncio.to_thread(begun)

    both = connected(eu, held)
    assert [one.wait(timeout=120) for one in both] == [0, 0], [log.read_text() for log in logs]
    assert repository.sync("--expect-no-changes").code == 0


def test_deletions_beyond_the_budget_are_refused_until_allowed(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.write("fleet.toml", "[budget]\ndeletions = 1\n")
    repository.wants(config_map("a", {"a": "1"}), config_map("b", {"a": "1"}))
    repository.commit()
    repository.sync()
    repository.wants()
    repository.commit()
    assert repository.fleet("preview").code == 5
    done = repository.sync()
    assert done.code == 5
    assert "the budget is 1" in done.err
    assert repository.data(eu, "a") == {"a": "1"}
    assert repository.sync("--allow-deletes", "2").code == 0
    assert repository.data(eu, "a") is None
    assert repository.get(eu, "namespace", repository.namespace) is not None


def test_a_protected_object_is_not_deleted(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("a", {"a": "1"}, "protect=True"), config_map("b", {"a": "1"}))
    repository.commit()
    repository.sync()
    repository.wants(config_map("b", {"a": "2"}))
    repository.commit()
    done = repository.sync()
    assert done.code == 5
    assert "protect=False" in done.err
    assert repository.data(eu, "a") == {"a": "1"}
    assert repository.data(eu, "b") == {"a": "1"}, "nothing of the stack is changed"


def test_a_cluster_that_leaves_is_forgotten_with_its_apps_left_running(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    repository.wants(config_map("a", {"a": "1"}), clusters=[eu.name])
    repository.commit()
    assert "« forget" in repository.fleet("preview").out
    done = repository.sync()
    assert done.code == 0, done.err
    assert repository.data(us, "a") == {"a": "1"}
    assert repository.sync("--expect-no-changes").code == 0
    status = repository.fleet("status", "--git", "-o", "json").json()["stacks"]
    assert [one["cluster"] for one in status] == [eu.name]


def test_a_broken_stack_changes_nothing(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    repository.wants(config_map("b", {"a": "1"}), "1 / 0")
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    done = repository.sync()
    assert done.code == 2
    assert "stacks/stack.py" in done.err
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]


def test_a_kind_that_a_cluster_does_not_know_is_refused_before_anything_is_sent(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    repository.wants(config_map("a", {"a": "1"}), f"fleet.Manifest({widget!r})")
    repository.commit()
    marks = [one.audit.mark() for one in (eu, us)]
    done = repository.sync()
    assert done.code == 2
    assert "Widget" in done.err
    assert "CustomResourceDefinition" in done.err
    assert [one.audit.writes(mark, agent=OURS) for one, mark in zip((eu, us), marks, strict=True)] == [[], []]


def test_destroy_asks_and_then_deletes_what_the_inventory_says(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    eu.kubectl("-n", repository.namespace, "create", "configmap", "foreign", "--from-literal=a=1")
    refused = repository.fleet("destroy", repository.stack)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert f"the next sync brings it back on {eu.name} and {us.name}; to keep it away, remove" in refused.err
    assert repository.data(eu, "a") == {"a": "1"}
    assert repository.fleet("destroy", "no-such-stack", "--yes").code == 6
    done = repository.fleet("destroy", repository.stack, "--yes")
    assert done.code == 0, done.err
    assert (repository.data(eu, "a"), repository.data(us, "a")) == (None, None)
    assert repository.data(eu, "foreign") == {"a": "1"}
    listed = repository.fleet("status", "-o", "json").json()["stacks"]
    assert repository.stack not in {one["stack"] for one in listed}
    assert repository.fleet("status", "--git", "-o", "json").json()["stacks"] == []


def test_destroy_deletes_only_what_the_person_saw_who_said_yes(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    person, terminal = pty.openpty()
    command = [sys.executable, "-m", "fleet", "destroy", repository.stack]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stdout
        assert asking.stderr
        assert b"ConfigMap" in asking.stdout.readline() + asking.stdout.readline() + asking.stdout.readline()
        said = b""
        while b"Delete this in 2 clusters?" not in said:
            said += os.read(asking.stderr.fileno(), 4096)
        repository.wants(config_map("a", {"a": "1"}), config_map("b", {"b": "1"}))
        repository.commit()
        assert repository.sync().code == 0
        os.write(person, b"y\n")
        _, said = asking.communicate(timeout=120)
    os.close(person)
    os.close(terminal)
    assert asking.returncode == 4, said
    assert b"/b of " in said
    assert b"would be deleted too, which was not shown" in said
    assert [repository.data(one, name) for one in (eu, us) for name in "ab"] == [{"a": "1"}, {"b": "1"}] * 2


def test_status_asks_the_clusters(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    revision = repository.commit()
    repository.sync()
    seen = repository.fleet("status", "--stack", repository.stack, "-o", "json").json()["stacks"]
    assert [(one["cluster"], one["health"], one["revision"]) for one in seen] == [
        (eu.name, "Healthy", revision),
        (us.name, "Healthy", revision),
    ]
    eu.kubectl("-n", repository.namespace, "delete", "configmap", "a")
    text = repository.fleet("status", "--stack", repository.stack).out
    assert "Missing" in text
    cut = repository.without(us.name)
    assert repository.fleet("status", "--kubeconfig", str(cut)).code == 4


def test_status_of_a_stack_that_does_not_exist_is_not_found(repository: FleetRepository) -> None:
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    asked = ("--stack", repository.stack)
    assert "nothing is deployed" in repository.fleet("status", *asked).out, "it is a stack, and was not synced yet"
    for more in ((), ("--git",)):
        missing = repository.fleet("status", "--stack", "nope", *more)
        assert missing.code == 6
        assert "there is no stack 'nope'" in missing.err
    repository.sync()
    repository.write("stacks/stack.py", "1 / 0")
    assert repository.fleet("status", *asked).code == 0, "what is deployed is shown while the files are broken"


def test_status_names_objects_of_the_cluster_without_a_namespace(repository: FleetRepository) -> None:
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    text = repository.fleet("status", "--objects", "--stack", repository.stack).out
    assert f"Namespace {repository.namespace} Healthy" in text
    assert f"ConfigMap {repository.namespace}/a Healthy" in text


def test_destroy_works_while_the_stack_is_broken(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    repository.sync()
    repository.wants("1 / 0")
    done = repository.fleet("destroy", repository.stack, "--yes", "--cluster", eu.name)
    assert done.code == 0
    assert repository.data(eu, "a") is None
    assert f"git still has {repository.stack}" in done.err, "what is not committed does not count"
    assert f"take {eu.name} out of its clusters=" in done.err

    repository.commit("broken")
    done = repository.fleet("destroy", repository.stack, "--yes")
    assert done.code == 0
    assert f"whether git still has {repository.stack} is not known: " in done.err


def test_two_names_for_one_cluster_are_refused_and_a_renamed_one_is_accepted_once(repository: FleetRepository) -> None:
    eu, _ = repository.clusters
    repository.wants(config_map("a", {"a": "1"}), clusters=[eu.name])
    repository.commit()
    assert repository.sync().code == 0
    repository.write("clusters/all.py", f"import fleet\nfleet.Cluster('other', context={eu.context!r})\n")
    repository.wants(config_map("a", {"a": "1"}), clusters=["other"])
    repository.commit()
    done = repository.sync()
    assert done.code == 4
    assert f"--renamed-from {eu.name}" in done.err
    assert repository.sync("--renamed-from", eu.name).code == 0
    assert repository.sync("--expect-no-changes").code == 0
