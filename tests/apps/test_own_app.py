"""A user's own app type: a package beside fleet, which needs fields and a few facts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import orjson
import pytest

import fleet
from fleet.errors import ConfigurationError
from fleet.evaluate.cache import environment_fingerprint
from fleet.render import render
from fleet.sync.observe import _is_app
from tests.app_types import QUEUE, installed, write_package

EU = fleet.Cluster("eu-1")


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., fleet.App]]:
    with installed(monkeypatch, tmp_path):
        write_package(tmp_path)
        import fleet.apps

        yield fleet.apps.Queue  # type: ignore[attr-defined]


def test_it_is_declared_and_rendered_like_any_other(queue: Callable[..., fleet.App]) -> None:
    @fleet.stack(clusters="eu-1")
    def messaging(cluster: fleet.Cluster) -> None:
        fleet.export("queue", queue("jobs", version="4", spare_members=1).endpoint)

    desired = render(messaging(EU), EU)
    made = next(one for one in desired.objects if one.app == "Queue")
    assert made.manifest["kind"] == "Queue"
    assert made.manifest["spec"] == {"version": "4", "spareMembers": 1}
    assert desired.exports == {"queue": "jobs.messaging.svc:5672"}
    assert _is_app(made.key)


def test_its_rules_hold(queue: Callable[..., fleet.App]) -> None:
    with pytest.raises(ConfigurationError, match="spare_members: must leave somebody to work"):
        queue("jobs", version="4", spare_members=3)


class Broker(fleet.App, frozen=True):
    """A class of a repository, which no package announces."""


def test_a_class_that_is_no_installed_type_is_refused_where_it_is_declared() -> None:
    @fleet.stack(clusters="eu-1")
    def messaging(cluster: fleet.Cluster) -> None:
        Broker("jobs")

    with pytest.raises(ConfigurationError, match="Broker is no app type: neither fleet nor an installed") as caught:
        render(messaging(EU), EU)
    assert caught.value.source is not None
    assert caught.value.source.file.endswith("test_own_app.py")


REPOSITORY = {
    "fleet.toml": "",
    "clusters/all.py": 'import fleet\nfleet.Cluster("eu-1")\n',
    "stacks/messaging.py": """
        import fleet
        from fleet.apps import Queue as BySide
        from fleet_queue import Queue

        @fleet.stack(clusters="eu-1")
        def messaging(cluster: fleet.Cluster) -> None:
            assert Queue is BySide
            Queue("jobs", version="4")
        """,
}


def write_repository(root: Path, **files: str) -> Path:
    for name, text in {**REPOSITORY, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


def run_check(root: Path, packages: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `fleet check` where these packages are installed."""
    return subprocess.run(
        [sys.executable, "-m", "fleet", "check", *options],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(packages)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def check(root: Path, packages: Path) -> dict[str, object]:
    """What `fleet check` says about a repository."""
    done = run_check(root, packages, "-o", "json")
    assert done.stdout, done.stderr
    read: dict[str, object] = orjson.loads(done.stdout)
    return read


def problem_of(root: Path, packages: Path) -> str:
    return orjson.dumps(check(root, packages)["problems"]).decode()


def test_a_stack_imports_it_by_both_names_and_it_is_evaluated_in_the_sandbox(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    late = QUEUE.replace(
        "    def path(",
        "    def version(self, spec):\n        from fleet_queue.late import say\n"
        "        return say(spec)\n\n    def path(",
    )
    write_package(packages, text=late, files={"late.py": "def say(spec):\n    return spec.version\n"})
    said = check(write_repository(tmp_path / "repository"), packages)
    assert said["problems"] == []
    assert [stack["name"] for stack in said["stacks"]] == ["messaging"]  # type: ignore[attr-defined]


def test_what_else_is_in_its_package_is_not_for_stacks(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    write_package(packages, files={"engine.py": "import fleet_queue\n"})
    other = REPOSITORY["stacks/messaging.py"].replace("from fleet_queue import Queue", "import fleet_queue.engine")
    said = problem_of(write_repository(tmp_path / "repository", **{"stacks/messaging.py": other}), packages)
    assert "fleet_queue.engine is not for stacks" in said
    assert "import from fleet_queue: what else" in said


def test_a_stack_that_uses_a_broken_package_is_told_which_and_others_are_evaluated(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    write_package(packages, text="import nothing_of_that_name\n")
    root = write_repository(tmp_path / "repository")
    assert "queue of fleet-queue 1.2.0 cannot be loaded: ModuleNotFoundError" in problem_of(root, packages)
    other = REPOSITORY["stacks/messaging.py"].replace("from fleet.apps import Queue as BySide", "")
    assert "queue of fleet-queue 1.2.0 cannot be loaded" in problem_of(
        write_repository(tmp_path / "second", **{"stacks/messaging.py": other}), packages
    )
    write_repository(root, **{"stacks/messaging.py": """
        import fleet
        from fleet.apps import Etcd

        @fleet.stack(clusters="eu-1")
        def messaging(cluster: fleet.Cluster) -> None:
            Etcd("db", version="3.5")
        """})  # fmt: skip
    assert check(root, packages)["problems"] == []


@pytest.mark.parametrize(
    ("require", "says"),
    [
        ('["fleet-queue==1.2.*"]', ""),
        ('["fleet-queue"]', ""),
        ('["fleet-queue>=1.3"]', "needs the app types of fleet-queue>=1.3, and fleet-queue 1.2.0 is installed"),
        ('["fleet-nats==1.2.*"]', "needs the app types of fleet-nats==1.2.*, which is not installed"),
    ],
)
def test_a_repository_says_which_packages_it_needs_and_is_not_evaluated_without(
    tmp_path: Path, require: str, says: str
) -> None:
    packages = tmp_path / "packages"
    write_package(packages)
    root = write_repository(tmp_path / "repository", **{"fleet.toml": f"[apps]\nrequire = {require}\n"})
    done = run_check(root, packages)
    if not says:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode != 0
    assert says in done.stderr
    assert "pip install" in done.stderr
    assert "fleet.toml" in done.stderr


def test_an_evaluation_is_remembered_for_these_versions_of_the_types_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = [environment_fingerprint()]
    for version in ("1.2.0", "1.3.0"):
        with installed(monkeypatch, tmp_path / version):
            write_package(tmp_path / version, version=version)
            fingerprints.append(environment_fingerprint())
            assert environment_fingerprint() == fingerprints[-1]
            (tmp_path / version / "fleet_queue" / "__init__.py").write_text(f"{QUEUE}\n# as its author works on it\n")
            fingerprints.append(environment_fingerprint())
    fingerprints.append(environment_fingerprint())
    assert fingerprints[0] == fingerprints[-1]
    assert len(set(fingerprints[:-1])) == 5
