"""Stacks import packages of the lockfile, by hash, and nothing else that happens to be installed."""

from __future__ import annotations

import site
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from fleet.errors import AccessError, ConfigurationError, Source
from fleet.evaluate import Pool, evaluate
from fleet.evaluate.packages import prepare_packages
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository
from fleet.repository.lockfile import read_lock
from tests.app_types import installed, write_package
from tests.evaluate.index import Index, serving, source
from tests.evaluate.test_evaluation import repository, stack

LOCK = "stacks/requirements.lock"
GREETING = {"greeting/__init__.py": "from greeting.words import HELLO\n", "greeting/words.py": "HELLO = 'hello'\n"}


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def machine(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fetches from this index, and keeps what it fetched in directories of this test."""
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, index.url)
    for name in ("FLEET_CACHE_DIR", "UV_CACHE_DIR", "PIP_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture(scope="module", params=[Level.A, Level.B, Level.NONE])
def any_pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with Pool(sandbox=Sandbox(request.param)) as pool:
        if pool.sandbox_report().level is not request.param:
            pytest.skip(f"this machine does not give level {request.param}")
        yield pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as opened:
        yield opened


def uses(*lines: str, lock: str = "", head: str = "") -> dict[str, str]:
    return {"stacks/a.py": stack("a", *lines, head=head), **({LOCK: lock} if lock else {})}


def exported(root: Path, files: dict[str, str], pool: Pool) -> object:
    return evaluate(repository(root, files), pool=pool).check().stacks[0].desired[0].exports["x"]


def test_a_stack_imports_what_the_lock_names_and_it_is_fetched_once(
    index: Index, tmp_path: Path, any_pool: Pool
) -> None:
    line = index.add_wheel("greeting", "1.0", GREETING)
    files = uses("fleet.export('x', HELLO)", lock=line, head="from greeting import HELLO\n")

    assert exported(tmp_path / "tree", files, any_pool) == "hello"
    asked = len(index.asked)
    assert asked > 0
    result = evaluate(Repository.at(tmp_path / "tree"), pool=any_pool).check()
    assert len(index.asked) == asked, "what was fetched is kept"
    assert result.foreign == ()  # it follows from the lock, and so from the tree


def test_what_is_installed_for_fleet_is_not_there_for_stacks_unless_they_lock_it(
    index: Index, tmp_path: Path, pool: Pool
) -> None:
    for number, name in enumerate(("kubernetes", "yaml", "orjson", "pytest")):
        root = tmp_path / name
        (problem,) = evaluate(
            repository(root, uses(f"import {name}.x" if number % 2 else f"import {name}")), pool=pool
        ).problems
        assert problem.message == f"'{name}' is installed for fleet, and not for stacks"
        assert problem.hint == f"name its package in {LOCK}, with version and hashes"
        assert problem.source == Source("stacks/a.py", 4)
    line = index.add_wheel("pyyaml", "0.1", {"yaml/__init__.py": "NAME = 'of the lock'\n"})
    body = ("import yaml", "fleet.manifests('x/*.yaml')", "fleet.export('x', yaml.NAME)")
    files = uses(*body, lock=line) | {"stacks/x/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}
    assert exported(tmp_path / "locked", files, pool) == "of the lock"  # and fleet goes on with its own


def test_what_fleet_brings_for_stacks_and_what_code_can_do_without(tmp_path: Path, pool: Pool) -> None:
    body = (
        "from pydantic import BaseModel, TypeAdapter",
        "import typing_extensions, annotated_types, json, zoneinfo, sqlite3",
        "from fleet.apps.etcd import EtcdConfig",
        "try: import yaml",
        "except ImportError: yaml = None",
        "try: from fleet import model",
        "except ImportError: model = None",
        "fleet.export('x', [yaml, model, TypeAdapter(int).validate_python('3')])",
    )
    assert exported(tmp_path, uses(*body), pool) == [None, None, 3]


@pytest.mark.parametrize(
    "line", ["import fleet.kube", "from fleet.model.cluster import Cluster", "from fleet import model"]
)
def test_what_fleet_is_made_of_is_not_for_stacks(tmp_path: Path, pool: Pool, line: str) -> None:
    (problem,) = evaluate(repository(tmp_path, uses(line)), pool=pool).problems
    assert problem.message.endswith(" is not for stacks")
    assert "import from fleet and fleet.apps" in str(problem.hint)
    assert problem.source == Source("stacks/a.py", 4)


def test_a_module_that_is_nowhere_is_told_with_what_to_do(tmp_path: Path, pool: Pool) -> None:
    (problem,) = evaluate(repository(tmp_path, uses(head="import greting_\n")), pool=pool).problems
    assert problem.message == "there is no module 'greting_'"
    assert f"put it into the repository, or name its package in {LOCK}" in str(problem.hint)


def test_a_package_neither_replaces_the_standard_library_nor_fleet_nor_a_file_of_the_repository(
    index: Index, tmp_path: Path, pool: Pool
) -> None:
    names = ("colorsys.py", "fleet/__init__.py", "pydantic/__init__.py", "mine.py")
    line = index.add_wheel("grabby", "1.0", dict.fromkeys(names, "STOLEN = True\n"))
    body = (
        "import colorsys, pydantic",
        "fleet.export('x', [hasattr(m, 'STOLEN') for m in (colorsys, fleet, pydantic, mine)])",
    )
    files = uses(*body, lock=line, head="import mine\n") | {"mine.py": ""}
    assert exported(tmp_path, files, pool) == [False] * 4


def test_files_that_python_would_run_at_its_start_are_just_files(index: Index, tmp_path: Path, pool: Pool) -> None:
    flag = tmp_path / "ran"
    run = f"import pathlib; pathlib.Path({str(flag)!r}).touch()\n"
    line = index.add_wheel(
        "sneaky", "1.0", {"sneaky.pth": run, "sitecustomize.py": run, "usercustomize.py": run, "sneaky.py": ""}
    )
    assert exported(tmp_path / "tree", uses("fleet.export('x', 1)", lock=line, head="import sneaky\n"), pool) == 1
    with Pool() as another:  # a zygote that starts when they are there already
        assert exported(tmp_path / "tree", uses("fleet.export('x', 1)"), another) == 1
    assert not flag.exists()

    before = list(sys.path)
    site.addsitedir(prepare_packages(read_lock(LOCK, line)))  # as a place for packages it would have
    sys.path[:] = before
    assert flag.exists()


def test_no_code_of_a_package_is_run_to_install_it(index: Index, tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    line = index.add("built", "built-1.0.tar.gz", source("built", "1.0", f"open({str(flag)!r}, 'w')\n"))
    with pytest.raises(AccessError, match=rf"the packages of {LOCK} could not be fetched: .*built") as failed:
        prepare_packages(read_lock(LOCK, line))
    assert failed.value.exit_code == 3
    assert not flag.exists()
    assert prepare_packages(read_lock(LOCK, index.add_wheel("built", "1.0", {"built.py": ""}))), (
        "as a wheel it is taken"
    )


def test_another_file_than_the_one_that_was_locked_is_not_taken(index: Index, tmp_path: Path) -> None:
    line = index.add_wheel("changing", "1.0", {"changing.py": "GOOD = True\n"})
    changed = index.add_wheel("changing", "1.0", {"changing.py": "GOOD = False\n"})
    with pytest.raises(AccessError, match=r"(?i)hash") as failed:
        prepare_packages(read_lock(LOCK, line))
    assert failed.value.source == Source(LOCK)
    assert list((tmp_path / "FLEET_CACHE_DIR/packages").iterdir()) == []
    assert prepare_packages(read_lock(LOCK, changed)), "with its hash in the lock it would be taken"


def test_without_the_index_a_new_lock_fails_before_anything_and_a_known_one_works(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_lock(LOCK, index.add_wheel("greeting", "1.0", GREETING))
    place = prepare_packages(known)
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert prepare_packages(known) == place
    new = read_lock(LOCK, f"other==1.0 --hash=sha256:{'0' * 64}")
    with pytest.raises(AccessError, match="could not be fetched") as failed:
        prepare_packages(new)
    assert "nothing was changed" in str(failed.value.hint)


def test_pip_does_it_where_there_is_no_uv(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Path(sys.base_prefix, "bin/pip")
    if not pip.exists():
        pytest.skip("there is no pip here")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pip").symlink_to(pip)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    place = prepare_packages(read_lock(LOCK, index.add_wheel("greeting", "1.0", GREETING)))
    assert Path(place, "greeting/words.py").is_file()


def test_without_uv_and_pip_it_is_said_what_is_missing(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pip", None)  # to Python that is a module which it does not have
    with pytest.raises(ConfigurationError, match="neither uv nor pip"):
        prepare_packages(read_lock(LOCK, index.add_wheel("greeting", "1.0", GREETING)))


def test_an_error_in_a_package_is_told_at_the_line_that_called_it(index: Index, tmp_path: Path, pool: Pool) -> None:
    line = index.add_wheel("failing", "1.0", {"failing.py": "def fail():\n    raise ValueError('no')\n"})
    (problem,) = evaluate(repository(tmp_path, uses("import failing", "failing.fail()", lock=line)), pool=pool).problems
    assert problem.source == Source("stacks/a.py", 5)
    assert "raised in failing, line 2, called from here" in str(problem.hint)


def test_settings_of_uv_beside_the_stacks_are_not_taken(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uv.toml").write_text('index-url = "http://127.0.0.1:9/simple/"\nno-index = true\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / ".cache"))  # inside of the repository, as CI likes it
    assert prepare_packages(read_lock(LOCK, index.add_wheel("greeting", "1.0", GREETING)))


def test_the_version_of_what_fleet_brings_is_fleets(index: Index) -> None:
    same = read_lock(LOCK, f"pydantic=={version('pydantic')} --hash=sha256:{'0' * 64}")
    assert prepare_packages(same) == ""
    other = read_lock(LOCK, f"# as compiled\npydantic==1.0 --hash=sha256:{'0' * 64}")
    with pytest.raises(ConfigurationError, match=r"stacks use the pydantic that fleet uses.* and not 1\.0") as refused:
        prepare_packages(other)
    assert refused.value.source == Source(LOCK, 2)
    assert "leave pydantic out" in str(refused.value.hint)


def test_an_app_type_that_is_installed_is_provided_in_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path)
    with installed(monkeypatch, tmp_path):
        assert prepare_packages(read_lock(LOCK, f"fleet-queue==1.2.0 --hash=sha256:{'0' * 64}")) == ""
        with pytest.raises(ConfigurationError, match=r"the fleet-queue that fleet uses, which is 1\.2\.0 here"):
            prepare_packages(read_lock(LOCK, f"fleet-queue==1.3.0 --hash=sha256:{'0' * 64}"))
