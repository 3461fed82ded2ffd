"""What can be wrong is said clearly, and nothing half-made is left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.cli import run
from fleet.errors import AccessError, ConfigurationError, NotFoundError, ResourceError
from fleet.lab import Lab, build, residue, toolchain
from fleet.lab import plan as plans
from fleet.lab.build import MODULES, built
from fleet.lab.lab import down
from fleet.lab.spec import KUBERNETES, all_names
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
    assert all_names() == []


def test_a_lab_that_is_not_there_is_named_with_those_that_are(state: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no lab 'nowhere'"):
        Lab.open("nowhere")
    with pytest.raises(NotFoundError, match="there is no lab 'nowhere'"):
        down("nowhere")


def test_real_nodes_without_root_are_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_STATE_DIR", "/tmp/fleet-of-nobody")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own: it gives its rights away
        os.setuid(65534)
        try:
            plans.plan("x", ["a"], nodes="real", workers=1, kubernetes=None, owner=None)
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


def test_a_full_disk_is_an_error_with_advice_and_nothing_is_left(
    tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_STATE_DIR", str(tiny_disk))
    with pytest.raises(ResourceError, match="the disk is full while starting the lab") as caught:
        Lab.up("full", ["a", "b"], nodes="simulated")
    assert "FLEET_STATE_DIR" in str(caught.value)
    assert not residue.find("full")


def test_a_place_without_permission_is_an_error_with_advice(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    monkeypatch.setenv("FLEET_STATE_DIR", str(tiny_disk))
    with pytest.raises(AccessError, match="no permission while starting the lab") as caught:
        Lab.up("denied", ["a"], nodes="simulated")
    assert "FLEET_STATE_DIR" in str(caught.value)


def test_a_damaged_cache_is_built_again(cache: Path) -> None:
    programs = built(MODULES["pause"])
    whole = (programs / "pause").read_bytes()
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    (programs / "pause").write_bytes(damaged)
    assert (built(MODULES["pause"]) / "pause").read_bytes() == whole
    (programs / "pause").unlink()
    assert (built(MODULES["pause"]) / "pause").read_bytes() == whole


def test_a_second_use_of_the_cache_builds_nothing(cache: Path) -> None:
    before = (built(MODULES["pause"]) / "pause").stat().st_mtime_ns
    assert (built(MODULES["pause"]) / "pause").stat().st_mtime_ns == before


def test_a_build_that_fails_says_why_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    with pytest.raises(ResourceError, match=r"coredns .* did not build") as caught:
        built(MODULES["coredns"])
    assert "GOPROXY=off" in str(caught.value)
    assert [path for path in (cache / "bin").iterdir() if not path.name.endswith(".lock")] == []


def test_a_build_that_was_killed_is_cleaned_up_by_the_next(cache: Path) -> None:
    programs = built(MODULES["pause"])
    stale = programs.with_name(f".{programs.name}.build-killed")
    stale.mkdir()
    (programs / "sha256").unlink()
    built(MODULES["pause"])
    assert not stale.exists()


def test_go_comes_from_pypi_where_the_machine_has_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    tools = tmp_path / "tools"
    tools.mkdir()
    for needed in ("uv", "git"):
        if found := shutil.which(needed):
            (tools / needed).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))  # nothing else: /usr/bin may have a Go
    go = toolchain.go()
    assert go.is_relative_to(cache)
    assert toolchain.version(go) >= toolchain.OLDEST
    assert (built(MODULES["pause"]) / "pause").stat().st_size > 100_000


def test_assets_without_an_api_server_are_refused(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"KUBEBUILDER_ASSETS is .* but there is no etcd"):
        Lab.up("assets", ["a"], nodes="simulated")
    assert all_names() == []


def test_assets_of_another_version_are_named(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = built(MODULES["kubernetes"])
    for name in build.CONTROL_PLANE:
        (tmp_path / name).symlink_to(programs / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"kube-apiserver is Kubernetes 1\.\d+, not 1\.31"):
        Lab.up("assets", ["a"], nodes="simulated", kubernetes="1.31")
    with pytest.raises(ConfigurationError, match=r"real nodes are Kubernetes .* too new for a control plane of 1\.31"):
        Lab.up("assets", ["a"], nodes="real", kubernetes="1.31")
    assert all_names() == []


def test_assets_are_used_when_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fleet.lab.binaries import Binaries

    programs = built(MODULES["kubernetes"])
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).symlink_to(programs / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    binaries = Binaries(KUBERNETES)
    assert binaries["kube-apiserver"] == tmp_path / "kube-apiserver"
    assert binaries["kube-scheduler"] == programs / "kube-scheduler"


def test_binaries_on_the_path_are_used_when_a_whole_control_plane_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.lab.binaries import Binaries

    programs = built(MODULES["kubernetes"])
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
