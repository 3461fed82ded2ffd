"""Two repositories, one stack name, the same clusters: the second is told so and touches nothing of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.sync.source import read_commit, read_working_tree
from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository, config_map

OURS = "fleet/"


@pytest.fixture
def first(repository: FleetRepository) -> FleetRepository:
    repository.wants(config_map("a", {"a": "1"}))
    repository.commit()
    assert repository.sync().code == 0
    return repository


def known_as(repository: FleetRepository) -> str:
    return str(repository.remote.path).removesuffix(".git")


def test_another_repository_is_refused_before_any_write_until_it_says_whom_it_takes_over_from(
    first: FleetRepository,
) -> None:
    second = first.other("second")
    second.wants(config_map("b", {"b": "1"}))
    second.commit()
    marks = [one.audit.mark() for one in first.clusters]
    for attempt in (
        second.fleet("preview"),
        second.sync(),
        second.fleet("destroy", second.stack, "--yes"),
        second.sync("--take-over", "example.com/third"),
    ):
        assert attempt.code == 4
        assert f"belongs to the repository {known_as(first)}, and this one is {known_as(second)}" in attempt.err
        assert f"--take-over {known_as(first)}" in attempt.err
    for cluster, mark in zip(first.clusters, marks, strict=True):
        assert cluster.audit.writes(mark, agent=OURS) == []
        assert first.data(cluster, "a") == {"a": "1"}

    taking = ("--take-over", known_as(first))
    assert f"taken over from {known_as(first)}" in second.fleet("preview", *taking).out
    done = second.sync(*taking)
    assert done.code == 0, done.err
    for cluster in first.clusters:
        assert (first.data(cluster, "a"), first.data(cluster, "b")) == (None, {"b": "1"})
    assert second.sync("--expect-no-changes").code == 0
    first.enter()
    assert first.sync().code == 4, "it is the former owner's no longer"


def test_taking_over_what_is_the_same_already_changes_only_the_owner(first: FleetRepository) -> None:
    second = first.other("second")
    second.wants(config_map("a", {"a": "1"}))
    second.commit()
    taking = ("--take-over", known_as(first))
    assert second.fleet("preview", "--expect-no-changes", *taking).code == 7
    done = second.sync(*taking)
    assert done.code == 0, done.err
    assert f"taken over from {known_as(first)}, healthy" in done.out
    assert second.sync("--expect-no-changes").code == 0


def test_the_stacks_of_others_are_neither_orphans_nor_shown(first: FleetRepository) -> None:
    second = first.other("second")
    second.stack = f"a-0-{first.stack}"  # the first by name: a lab may hold more, of tests that were killed
    second.wants(config_map("b", {"b": "1"}))
    second.commit()
    assert second.sync().code == 0
    (second.root / "stacks/stack.py").unlink()
    preview = second.fleet("preview")
    assert f"not declared in this repository: {second.stack}" in preview.err, "its own is an orphan"
    assert first.stack not in preview.err.replace(second.stack, "")
    status = second.fleet("status", "-o", "json")
    shown = {one["stack"] for one in status.json()["stacks"]}
    assert second.stack in shown
    assert first.stack not in shown
    assert first.stack in status.err, "it is said what was left out"
    assert second.fleet("destroy", second.stack, "--yes").code == 0
    for cluster in second.clusters:
        cluster.kubectl("delete", "namespace", second.namespace, "--wait=false")


def test_a_moved_repository_keeps_its_stacks_by_keeping_its_name(first: FleetRepository) -> None:
    name = known_as(first)
    git(first.root, "remote", "set-url", "origin", "https://user:secret@example.com/moved/fleet.git")
    refused = first.fleet("preview")
    assert refused.code == 4
    assert "this one is example.com/moved/fleet\n" in refused.err
    assert "secret" not in refused.err
    assert f'name = "{name}" under [fleet]' in refused.err
    first.write("fleet.toml", f'[fleet]\nname = "{name}"\n')
    assert first.fleet("preview", "--expect-no-changes").code == 0


def test_an_inventory_without_an_owner_is_claimed_by_the_next_change(first: FleetRepository) -> None:
    eu, _ = first.clusters
    head = f"{first.stack}.inventory.0"
    for cluster in first.clusters:
        cluster.kubectl(
            "-n", "fleet-system", "patch", "configmap", head, "--type=json",
            "-p", '[{"op": "remove", "path": "/data/repository"}]',
        )  # fmt: skip
    assert first.sync("--expect-no-changes").code == 0
    first.wants(config_map("a", {"a": "2"}))
    first.commit()
    assert first.sync().code == 0
    owner = eu.kubectl("-n", "fleet-system", "get", "configmap", head, "-o", "jsonpath={.data.repository}")
    assert owner == known_as(first)


def test_every_clone_has_the_identity_of_its_remote_shallow_ones_too(first: FleetRepository, tmp_path: Path) -> None:
    git(first.root, "push", "--quiet", "origin", "HEAD:main")
    git(tmp_path, "clone", "--quiet", "--depth=1", first.remote.url, "elsewhere")
    for root in (first.root, tmp_path / "elsewhere"):
        with read_commit("HEAD", root) as files:
            assert files.identity == known_as(first)


def test_without_a_remote_the_first_commit_tells_repositories_apart(tmp_path: Path) -> None:
    names = []
    for name in ("one", "two"):
        root = tmp_path / name
        git(tmp_path, "init", "--quiet", name)
        (root / "fleet.toml").write_text("")
        with read_working_tree(root) as files:
            assert files.identity == ""
        for number in (1, 2):
            user = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
            git(root, *user, "commit", "--quiet", "--allow-empty", "--message", f"{name} {number}")
            with read_working_tree(root) as files:
                names.append(files.identity)
    assert names[0] == names[1] != names[2] == names[3]
    assert names[0].startswith("commit-")
