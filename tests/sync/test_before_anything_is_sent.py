"""What is known to be wrong before a sync is said before it, and what a person should know too."""

from __future__ import annotations

from pathlib import Path

from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository, config_map


def test_a_remote_that_is_not_there_is_said_while_nothing_is_changed(repository: FleetRepository) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    git(repository.root, "remote", "rename", "origin", "upstream")
    refused = repository.sync()
    assert refused.code == 2
    assert "this repository has no remote 'origin'" in refused.err
    assert "it has upstream" in refused.err
    assert [repository.data(one, "settings") for one in repository.clusters] == [None, None]
    assert repository.sync("--no-status").code == 0


def test_another_branch_than_the_one_that_is_synced_is_remarked(repository: FleetRepository) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    assert "is synced" not in repository.sync().err
    git(repository.root, "switch", "--quiet", "--create", "idea")
    done = repository.sync()
    assert done.code == 0
    assert "this is the branch idea, and fleet.toml says that main is synced" in done.err


def test_a_file_that_is_no_kubeconfig_is_named(repository: FleetRepository, tmp_path: Path) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    for content in ("", "just text\n", "- a\n- list\n"):
        (tmp_path / "config").write_text(content)
        refused = repository.fleet("preview", "--kubeconfig", str(tmp_path / "config"))
        assert f"{tmp_path / 'config'} is not a kubeconfig" in refused.err, content
        assert refused.code == 2
