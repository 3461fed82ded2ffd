"""The cache of images does not grow without end, and nobody loses what they are about to use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.lab.images import store

HOUR, DAY = 3600, 24 * 3600


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path))
    (tmp_path / "images").mkdir()
    (tmp_path / "jars").mkdir()
    return tmp_path


def made(name: str, age: float, *, used: float | None = None) -> Path:
    """A file of the cache that was made and, by its lock, used so long ago."""
    path = store.images_directory() / name
    path.write_text("archive")
    os.utime(path, (time.time() - age, time.time() - age))
    if used is not None:
        lock = path.with_name(f".{name}.lock")
        lock.touch()
        os.utime(lock, (time.time() - used, time.time() - used))
    return path


def test_of_a_recipe_the_three_that_were_used_last_stay() -> None:
    archives = [made(f"operator-1-{key}.tar", 9 * DAY, used=(number + 2) * HOUR) for number, key in enumerate("abcde")]
    store.remove_unused("operator-1")
    assert [archive.exists() for archive in archives] == [True, True, True, False, False]
    assert sorted(path.name for path in store.images_directory().glob(".*.lock")) == [
        f".operator-1-{key}.tar.lock" for key in "abc"
    ]


def test_what_was_used_in_the_last_hour_stays_however_many_they_are() -> None:
    archives = [made(f"operator-1-{key}.tar", 9 * DAY, used=60) for key in "abcdef"]
    store.remove_unused("operator-1")
    assert all(archive.exists() for archive in archives)


def test_what_somebody_holds_stays() -> None:
    archives = [made(f"operator-1-{key}.tar", 9 * DAY, used=9 * DAY - number) for number, key in enumerate("abcd")]
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); input()",
            str(archives[0].with_name(f".{archives[0].name}.lock")),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    holder.stdout.readline()
    try:
        store.remove_unused("operator-1")
        assert archives[0].exists()
    finally:
        holder.kill()
        holder.wait()
    store.remove_unused("operator-1")
    assert [archive.exists() for archive in archives] == [False, True, True, True]


def test_other_recipes_are_not_touched() -> None:
    others = [made(f"{name}-{key}.tar", 9 * DAY) for name in ("redis-7.0", "redis-7.0-extra") for key in "abcd"]
    store.remove_unused("operator-1")
    assert all(archive.exists() for archive in others)
    store.remove_unused("redis-7.0")
    assert sum(archive.exists() for archive in others) == 7


def test_layers_and_jars_go_after_a_month_without_use() -> None:
    old, new = made(".base-trixie-a.tar", 31 * DAY), made(".base-trixie-b.tar", 29 * DAY)
    jar = store.jars_directory() / "a.jar"
    jar.touch()
    os.utime(jar, (0, 0))
    store.remove_unused("operator-1")
    assert [old.exists(), new.exists(), jar.exists()] == [False, True, False]


def test_a_layer_is_found_again_unless_it_is_damaged(tmp_path: Path) -> None:
    assert store.find_layer("trixie-a") is None
    made = tmp_path / "layer.tar"
    made.write_text("files")
    kept = store.keep_layer("trixie-a", made)
    assert not made.exists()
    assert store.find_layer("trixie-a") == kept
    assert store.find_layer("trixie-b") is None
    kept.write_text("filth")
    assert store.find_layer("trixie-a") is None
    assert not kept.exists()
    kept.mkdir()
    assert store.find_layer("trixie-a") is None


def test_what_a_killed_maker_left_goes_and_that_of_a_living_one_stays() -> None:
    abandoned = store.images_directory() / ".bake-abandoned"
    (abandoned / "root").mkdir(parents=True)
    os.utime(abandoned, (time.time() - 2 * HOUR, time.time() - 2 * HOUR))
    with store.work_directory() as living:
        (living / "layer.tar").touch()
        os.utime(living, (time.time() - 2 * HOUR, time.time() - 2 * HOUR))
        store.remove_unused("operator-1")
        assert living.exists()
        assert not abandoned.exists()
    assert not living.exists()


def test_the_newest_archive_is_the_one_that_was_used_last() -> None:
    assert store.newest_archive("operator-1") is None
    made("operator-1-a.tar", DAY, used=60)
    made("operator-1-b.tar", HOUR, used=HOUR)
    assert store.newest_archive("operator-1") == store.images_directory() / "operator-1-a.tar"
