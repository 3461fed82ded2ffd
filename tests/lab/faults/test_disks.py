"""Files and disks, without a cluster: what is chosen, what is changed, what is free."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, NotFoundError
from fleet.lab.faults.kinds.volumes import choose_file, choose_places, empty_directory, fill_file_system
from tests.lab.machine import TEST_MOUNT

pytestmark = pytest.mark.real_nodes


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", TEST_MOUNT, str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_has_no_block_left(disk: Path) -> None:
    (disk / "before").write_bytes(b"x" * 1000)
    fill_file_system(disk / "filling", leave=0)
    with pytest.raises(OSError) as caught:
        (disk / "more").write_bytes(b"x")
    assert caught.value.errno == errno.ENOSPC
    (disk / "filling").unlink()
    (disk / "more").write_bytes(b"x" * 100_000)


def test_so_much_is_left_as_was_said(disk: Path) -> None:
    fill_file_system(disk / "filling", leave=64 * 1024)
    with (disk / "more").open("wb", buffering=0) as file:
        written = 0
        with pytest.raises(OSError):
            while True:
                written += file.write(b"x" * 4096)
    assert 32 * 1024 <= written <= 72 * 1024


def test_the_largest_file_is_chosen_unless_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "large").write_bytes(b"x" * 100)
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert choose_file(tmp_path, "") == tmp_path / "a" / "large"
    assert choose_file(tmp_path, "small") == tmp_path / "small"
    with pytest.raises(NotFoundError, match="there is no file 'other'") as caught:
        choose_file(tmp_path, "other")
    assert "a/large, small" in str(caught.value)
    with pytest.raises(NotFoundError):
        choose_file(tmp_path, "link")


def test_an_empty_volume_has_nothing_to_corrupt(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no file on the volume"):
        choose_file(tmp_path, "")


def test_the_same_seed_hits_the_same_bytes() -> None:
    assert choose_places(10_000, 16, 1) == choose_places(10_000, 16, 1)
    assert choose_places(10_000, 16, 1) != choose_places(10_000, 16, 2)
    assert len(set(choose_places(10_000, 16, 1))) == 16
    assert choose_places(3, 16, 1) == [0, 1, 2]
    assert choose_places(0, 16, 1) == []


def test_what_is_emptied_is_as_new(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "lost+found").mkdir()
    empty_directory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lost+found"]
