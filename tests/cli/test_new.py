"""A new app type works as it is written: installed beside fleet it is one of its commands, stacks and operator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fleet.apps.scaffold import LEVELS, LONGEST, TEMPLATE
from fleet.cli import run
from fleet.cli.commands.new import app_type

NAMES = {"pods": "my-queue", "probed": "my-counter", "clustered": "my-ledger"}


def call(directory: Path, *command: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_"))}
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**environment, "NO_COLOR": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=400,
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("new")


def make(root: Path, level: str) -> tuple[Path, Path]:
    """Return the sources of a new app type, and a directory in which it is installed as its author would."""
    source, installed = root / f"fleet-{NAMES[level]}", root / f"installed-{level}"
    if not installed.exists():
        made = call(root, "-m", "fleet", "new", "app-type", NAMES[level], "--level", level)
        assert made.returncode == 0, made.stderr
        assert f"fleet_{function(level)}/type.py" in made.stdout
        options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
        built = call(root, "-m", "pip", "install", *options, "--target", str(installed), f"./{source.name}")
        assert built.returncode == 0, built.stderr
    return source, installed


def function(level: str) -> str:
    return NAMES[level].replace("-", "_")


@pytest.fixture
def packages(root: Path) -> tuple[Path, Path]:
    return make(root, "pods")


@pytest.mark.parametrize("level", LEVELS)
def test_its_own_tests_pass(root: Path, level: str) -> None:
    source, installed = make(root, level)
    tested = call(source, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", packages=installed)
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout


@pytest.mark.parametrize("level", LEVELS)
def test_a_type_checker_finds_nothing_in_it(root: Path, level: str) -> None:
    source, installed = make(root, level)
    options = ("--strict", "--cache-dir", str(root / "types"))
    checked = call(source, "-m", "mypy", *options, f"fleet_{function(level)}", "tests", packages=installed)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_its_own_test_finds_what_is_wrong(packages: tuple[Path, Path], tmp_path: Path) -> None:
    _, installed = packages
    code = """
import dataclasses
from fleet.kit.app_type import Setting
from fleet.testing.app_type import check_app_type
from fleet_my_queue import TYPE, MyQueue

def found(**changed):
    before = {name: getattr(TYPE, name) for name in changed}
    for name, value in changed.items():
        setattr(TYPE, name, value)
    try:
        check_app_type(TYPE, MyQueue("sample", version="1.1"))
    except (AssertionError, ValueError) as error:
        print(str(error) or type(error).__name__)
    finally:
        for name, value in before.items():
            setattr(TYPE, name, value)

(role,) = TYPE.roles
found(roles=(dataclasses.replace(role, arguments=("{file:other.conf}",)),))
found(roles=(dataclasses.replace(role, arguments=("{pot}",)),))
found(settings=(Setting("x", lambda app: 1, field="colour"),))
found(engine="fleet_my_queue:Nothing")
"""
    told = call(tmp_path, "-c", code, packages=installed)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "sample-0 starts with the file other.conf, which `files` does not write",
        "nothing is filled in for '{pot}'",
        "the spec has no field 'colour', of which the type says what a change costs",
        "engine: fleet_my_queue:Nothing is not there",
    ]


def test_a_type_whose_files_say_who_the_members_are_reads_its_older_files(root: Path, tmp_path: Path) -> None:
    _, installed = make(root, "clustered")
    code = """
from fleet.kit.app_type import AppType
from fleet.testing.app_type import check_app_type
from fleet_my_ledger import TYPE, MyLedger
check_app_type(TYPE, MyLedger("sample", version="1.1"))
del type(TYPE).read_settings
try:
    check_app_type(TYPE, MyLedger("sample", version="1.1"))
except AssertionError as error:
    print(error)
"""
    told = call(tmp_path, "-c", code, packages=installed)
    assert told.stdout.startswith("files of an older revision would not say"), told.stderr


def test_it_has_a_definition_rights_and_a_place_in_plans(packages: tuple[Path, Path], tmp_path: Path) -> None:
    _, installed = packages
    printed = call(tmp_path, "-m", "fleet", "crds", "myqueue", packages=installed)
    assert printed.returncode == 0, printed.stderr
    definition = yaml.safe_load(printed.stdout)
    assert definition["spec"]["names"]["kind"] == "MyQueue"
    fields = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert fields["logLevel"]["description"].startswith("How much members write")
    assert "adopt" in fields, "what runs already is taken over by the declaration"
    code = """
from fleet.apps.impact import meanings
from fleet.install.rights import cluster_role
from fleet_my_queue import MyQueue
def said(**fields):
    app = MyQueue("q", **fields)
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": "MyQueue", "metadata": {"name": "q"}, "spec": app.spec()}
print(*meanings("MyQueue", None, said(version="1.0")), sep="; ")
print(*meanings("MyQueue", said(version="1.0"), said(version="1.1", storage="16Gi", log_level="debug")), sep="; ")
print(*meanings("MyQueue", said(version="1.0"), said(version="1.0", storage="4Gi", members=3)), sep="; ")
print("myqueues/status" in str(cluster_role()))
"""
    planned = call(tmp_path, "-c", code, packages=installed)
    assert planned.returncode == 0, planned.stderr
    first, change, refused, rights = planned.stdout.splitlines()
    assert first == "MyQueue 1.0 with 1 member"
    assert change == "upgrade 1.0 → 1.1; grow volumes 8Gi → 16Gi; restarts 1 pod (log_level)"
    assert refused.startswith("scale 1 → 3; refused: storage: cannot become smaller: volumes only grow")
    assert rights == "True"


@pytest.mark.parametrize("level", LEVELS)
def test_its_sample_stack_is_evaluated_where_the_package_is_installed(root: Path, tmp_path: Path, level: str) -> None:
    source, installed = make(root, level)
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "all.py").write_text('import fleet\n\nfleet.Cluster("dev")\n')
    (tmp_path / "stacks").mkdir()
    sample = source / "example" / "stacks" / f"{function(level)}.py"
    (tmp_path / "stacks" / sample.name).write_text(sample.read_text())
    (tmp_path / "fleet.toml").write_text(f'[apps]\nrequire = ["fleet-{NAMES[level]}==0.1.*"]\n')
    checked = call(tmp_path, "-m", "fleet", "check", "-o", "json", packages=installed)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert [stack["name"] for stack in json.loads(checked.stdout)["stacks"]] == [NAMES[level]]
    without = call(tmp_path, "-m", "fleet", "check")
    assert f"fleet-{NAMES[level]}==0.1.*, which is not installed" in without.stderr


@pytest.mark.parametrize("level", LEVELS)
def test_an_operator_looks_after_it(root: Path, tmp_path: Path, level: str) -> None:
    _, installed = make(root, level)
    kind = "".join(part.capitalize() for part in NAMES[level].split("-"))
    code = "from fleet_operator.run import describe_engines, engines; print(describe_engines(engines({})))"
    said = call(tmp_path, "-c", code, packages=installed)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)[f"{kind}.fleet.dev"] == "0.1.0"
    printed = call(tmp_path, "-m", "fleet", "crds", kind.lower(), packages=installed)
    assert yaml.safe_load(printed.stdout)["spec"]["names"]["kind"] == kind


def test_stacks_and_plans_do_not_load_the_half_that_acts(root: Path, tmp_path: Path) -> None:
    _, installed = make(root, "clustered")
    code = "import sys, fleet_my_ledger; print([name for name in sys.modules if name.startswith('fleet_my_ledger.')])"
    said = call(tmp_path, "-c", code, packages=installed)
    assert said.stdout.strip() == "['fleet_my_ledger.spec', 'fleet_my_ledger.type']"


@pytest.mark.parametrize(
    "name", ["Ledgerd", "1st", "my_queue", "a--b", "-a", "a-", "", "x" * (LONGEST + 1), "a/b", ".."]
)
def test_what_cannot_be_a_name_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "app-type", "--", name, str(tmp_path / "made")]) != 0
    assert "cannot be the name of an app type" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_nothing_is_overwritten_and_no_kind_is_made_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert run(["new", "app-type", "ledgerd", str(tmp_path)]) != 0
    assert "README.md already, and nothing is overwritten" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert run(["new", "app-type", "etcd", str(tmp_path / "etcd")]) != 0
    assert "there is an app type Etcd already" in capsys.readouterr().err


def test_the_command_offers_every_level_that_has_a_template() -> None:
    (level,) = [parameter for parameter in app_type.params if parameter.name == "level"]
    assert list(level.type.choices) == list(LEVELS)  # type: ignore[attr-defined]
    assert {path.name for path in TEMPLATE.iterdir()} == {*LEVELS}
    assert all(path.name.endswith((".in", "py.typed")) for path in TEMPLATE.rglob("*") if path.is_file())
