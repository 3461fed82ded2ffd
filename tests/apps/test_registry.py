"""Which app types there are: those of fleet, and those of installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.apps import registry
from fleet.errors import ConfigurationError
from fleet.version import __version__
from tests.app_types import QUEUE, installed, write_package

OWN = registry.kinds()  # of fleet itself: no other package is installed beside these tests
BROKEN = "import a_module_that_is_not_there\n"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with installed(monkeypatch, tmp_path):
        yield tmp_path


def refused(kind: str, group: str = "fleet.dev") -> str:
    with pytest.raises(ConfigurationError) as caught:
        registry.driver(kind, group)
    return f"{caught.value.message}; {caught.value.hint}"


def test_a_type_of_an_installed_package_is_there_like_those_of_fleet(packages: Path) -> None:
    write_package(packages)
    queue = registry.driver("Queue")
    assert queue is not None
    assert queue.app.kind() == "Queue"
    assert registry.driver("queue") is None  # kinds are exact
    assert registry.driver("Queue", "example.com") is None
    assert registry.kinds() == sorted([*OWN, "Queue"])
    import fleet.apps

    assert fleet.apps.Queue is queue.app  # type: ignore[attr-defined]
    assert dir(fleet.apps) == sorted([*OWN, "Queue"])
    assert registry.describe_types() == {
        **{f"{kind}.fleet.dev": __version__ for kind in OWN},
        "Queue.fleet.dev": "1.2.0",
    }


def test_a_type_may_have_an_api_group_of_its_own(packages: Path) -> None:
    own = QUEUE.replace("port: Class", 'api_group: ClassVar[str] = "mq.example.com"\n    port: Class')
    write_package(packages, text=own, entry="queue.mq.example.com")
    write_package(packages, "other-queue")
    assert registry.driver("Queue", "mq.example.com") is not registry.driver("Queue")
    from fleet.render.crd import definitions

    names = {name: crd["spec"]["group"] for name, crd in definitions().items() if "queue" in name}
    assert names == {"fleet.dev_queues.yaml": "fleet.dev", "mq.example.com_queues.yaml": "mq.example.com"}
    import fleet.apps

    assert dir(fleet.apps) == OWN  # which of the two `from fleet.apps import Queue` means is not certain
    with pytest.raises(ConfigurationError, match=r"several Queue: of fleet\.dev and mq\.example\.com") as caught:
        getattr(fleet.apps, "Queue")  # noqa: B009
    assert caught.value.hint == "import it from fleet_queue or other_queue"


def test_a_kind_that_two_packages_have_is_an_error_that_names_both(packages: Path) -> None:
    write_package(packages)
    write_package(packages, "other-queue", version="0.3")
    assert "queue of fleet.dev is defined by fleet-queue 1.2.0 and by other-queue 0.3; uninstall" in refused("Queue")
    assert registry.kinds() == OWN
    with pytest.raises(ConfigurationError, match="other-queue"):
        registry.drivers()


def test_a_kind_that_fleet_has_itself_stays_fleets(packages: Path) -> None:
    write_package(packages, entry="etcd")
    assert type(registry.driver("Etcd")).__module__ == "fleet.apps.etcd.driver"
    with pytest.raises(ConfigurationError, match=rf"defined by fleet {__version__} and by fleet-queue 1\.2\.0"):
        registry.drivers()


@pytest.mark.parametrize(
    ("text", "attribute", "entry", "message"),
    [
        (BROKEN, "TYPE", "queue", "cannot be loaded: ModuleNotFoundError: No module named 'a_module_that"),
        ("raise SystemExit(3)\n", "TYPE", "queue", "cannot be loaded: SystemExit: 3; repair fleet-queue, or uninstall"),
        (QUEUE, "KIND", "queue", "cannot be loaded: AttributeError"),
        (QUEUE, "Queue", "queue", "is no app type: fleet_queue:Queue is a ModelMetaclass"),
        (QUEUE.replace("contract = 1", "contract = 2"), "TYPE", "queue", "was written for contract 2; this fleet has"),
        (
            QUEUE.replace("contract = 1", ""),
            "TYPE",
            "queue",
            "does not say for which contract it is; this fleet has co",
        ),
        (QUEUE, "TYPE", "jobs", "is of another kind: Queue of fleet.dev; its author calls the entry point 'queue'"),
        (QUEUE, "TYPE", "queue.example.com", "is of another kind: Queue of fleet.dev"),
    ],
)
def test_a_broken_package_is_named_and_breaks_nothing_else(
    packages: Path, text: str, attribute: str, entry: str, message: str
) -> None:
    write_package(packages, text=text, attribute=attribute, entry=entry)
    kind, _, group = entry.partition(".")
    said = refused(kind.capitalize(), group or "fleet.dev")
    assert said.startswith(f"the app type {kind} of fleet-queue 1.2.0 ")
    assert message in said
    assert registry.is_app(group or "fleet.dev", kind.capitalize())
    assert registry.driver("Etcd") is not None
    assert registry.kinds() == OWN
    assert registry.is_announced(group or "fleet.dev", kind.capitalize())
    assert not registry.is_app("apps", "StatefulSet")
    assert not registry.is_announced("apps", "StatefulSet")
    with pytest.raises(ConfigurationError, match=r"fleet-queue 1\.2\.0"):
        registry.drivers()


def run_python(code: str, packages: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, check=True, capture_output=True, text=True, timeout=60
    )


def test_metadata_of_packages_are_read_only_for_a_kind_that_fleet_does_not_have(tmp_path: Path) -> None:
    write_package(tmp_path, text=BROKEN)
    code = """
import sys
from fleet.apps import registry, installed
assert registry.is_announced("fleet.dev", "Etcd") and "fleet.apps.etcd" not in sys.modules
assert registry.driver("Etcd").app.kind() == "Etcd"
assert not registry.is_app("fleet.dev", "ETCD") and registry.is_announced("fleet.dev", "ETCD")
assert registry.driver("Deployment", "apps") is None
assert registry.driver("Ingress", "networking.k8s.io") is None
print(installed.installed_types.cache_info().currsize, "importlib.metadata" in sys.modules)
registry.is_app("fleet.dev", "Oracle")
print(installed.installed_types.cache_info().currsize, "fleet_queue" in sys.modules)
"""
    first, second = run_python(code, tmp_path).stdout.splitlines()
    assert first.split()[0] == "0"
    assert second == "1 False"


def test_a_command_that_does_not_use_a_broken_package_goes_on(tmp_path: Path) -> None:
    write_package(tmp_path, text=BROKEN)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NO_COLOR": "1"}

    def fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fleet", *arguments]
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)

    assert fleet("crds", "etcd").returncode == 0
    for arguments in ([], ["queue"], ["--write", str(tmp_path / "crds")]):
        made = fleet("crds", *arguments)
        assert made.returncode != 0
        assert "fleet-queue 1.2.0" in made.stderr
    assert fleet("operator", "dockerfile").returncode == 0
