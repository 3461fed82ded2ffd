"""People who work on one repository with pull requests, as git alone has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.testing import Cluster, GitRemote
from fleet.testing.git import git as run
from tests.sync.fleet_repository import FleetRepository, Run

OURS = "fleet/"  # how our user agent begins
RULE = "[approval]\nrequired = true\n"


class Team:
    """A stack with the ConfigMaps a and b, which is approved and synced."""

    def __init__(self, repository: FleetRepository, settings: str = RULE) -> None:
        self.repository = repository
        repository.write("fleet.toml", settings)
        self.write(a="1", b="1")
        repository.commit("begin")
        self.push()
        done = repository.fleet("approve", "--yes", "-m", "the beginning")
        assert done.code == 0, done.err
        self.synced()

    def write(self, *lines: str, **maps: str) -> None:
        """The stack, and a file for each ConfigMap: what changes different ones can be merged."""
        self.repository.wants('fleet.manifests("files/*.yaml")', *lines)
        for name, value in maps.items():
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": value}}
            self.repository.write(f"stacks/files/{name}.yaml", json.dumps(manifest))

    def git(self, *arguments: str) -> str:
        return run(self.repository.root, *arguments)

    def push(self) -> None:
        self.git("push", "--quiet", "--force", "origin", "HEAD:main")

    @contextmanager
    def branch(self, name: str) -> Iterator[None]:
        """Work on a branch from main; it is previewed and recorded in the end."""
        self.git("checkout", "--quiet", "-b", name, "main")
        yield
        self.preview(name)
        self.git("checkout", "--quiet", "main")

    def preview(self, name: str, *more: str) -> Run:
        shown = self.repository.fleet("preview", "--base", "main", "--head", name, "--record", *more)
        assert shown.code == 0, shown.err
        assert "recorded" in shown.err
        return shown

    def synced(self, *arguments: str) -> Run:
        done = self.repository.sync(*arguments)
        assert done.code == 0, done.err
        return done

    def refused(self, *arguments: str) -> str:
        """With exit code 5 and not a single write in any cluster."""
        clusters = self.repository.clusters
        marks = [one.audit.mark() for one in clusters]
        done = self.repository.sync(*arguments)
        assert done.code == 5, done.err
        for one, mark in zip(clusters, marks, strict=True):
            assert writes(one, mark) == []
        return done.err

    @contextmanager
    def tampered_record(self) -> Iterator[None]:
        """Somebody who may push to the branch lets the record of what is checked out allow more than it did."""
        git = self.repository.remote.git
        kept = git("rev-parse", "fleet/approved").strip()
        with TemporaryDirectory() as directory:
            clone = GitRemote(self.repository.remote.path).clone(Path(directory) / "clone")
            run(clone, "checkout", "--quiet", "fleet/approved")
            tree = self.git("rev-parse", "HEAD^{tree}").strip()
            (file,) = (clone / "trees" / tree).iterdir()
            file.write_text(file.read_text().replace('"update"]', '"data"]'))
            run(clone, "commit", "--quiet", "--all", "--message", "more")
            run(clone, "push", "--quiet")
        yield
        git("update-ref", "refs/heads/fleet/approved", kept)

    def value(self, name: str, cluster: int = 0) -> str | None:
        data = self.repository.data(self.repository.clusters[cluster], name)
        return data["x"] if data else None


def writes(cluster: Cluster, mark: int) -> list[object]:
    return list(cluster.audit.writes(mark, agent=OURS))
