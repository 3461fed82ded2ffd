"""Backups that are trees, made and put back by the command lines of their Jobs; the engine's own steps are files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.kit.backup.commands import backup_commands
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.plan import same_series
from fleet.kit.backup.records import Record, part_of, read, record_of
from fleet.kit.backup.restoration import Choice, restore_job
from fleet.kit.backup.retention import keep
from fleet.kit.backup.schedule import cron_job
from fleet.kit.backup.shelf import pick
from fleet.kit.backup.volumes import copy
from fleet.model.app_settings import NFS, Backup, Claim, Restore
from tests.kit.backup.types import NATS, PLANS, POSTGRES, Postgres, write_base_backup

NOW = datetime(2031, 5, 1, 3, 0, tzinfo=UTC)
APP = Postgres("db", namespace="ns")
TOOLS = {"image": "engine:1", "operator_image": "operator:1", "version": "17.2"}
Tree = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    return directory


def _run(container: dict[str, Any], replaced: dict[str, str | Path]) -> Result:
    """Run a step of ours as the operator's image would."""
    command = container["command"]
    assert command[:5] == ["python3", "-P", "-m", "fleet_operator", "backup"]
    arguments = command[5:]
    for old, new in replaced.items():
        arguments = [argument.replace(old, str(new)) for argument in arguments]
    return CliRunner().invoke(backup_commands(PLANS.get), arguments)


def _written(container: dict[str, Any], replaced: dict[str, str | Path]) -> Path:
    """Where the engine's tool writes to."""
    (path,) = (word.partition("=")[2] for word in container["command"] if word.startswith("--pgdata="))
    for old, new in replaced.items():
        path = path.replace(old, str(new))
    return Path(path)


def _containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])}


def _kept(store: Path, rows: str = "rows", *, now: datetime = NOW, count: int = 9, **whose: str) -> Record:
    part = store / part_of("db", "job")
    write_base_backup(part, rows)
    options: dict[str, Any] = {
        "app": "db",
        "namespace": "ns",
        "identity": "7",
        "version": "17.2",
        "place": "here",
        **whose,
    }
    return keep(Directory(POSTGRES, store), part, count=count, now=now, **options)


def _listing(tree: Path) -> dict[str, str | None]:
    return {path.relative_to(tree).as_posix(): path.read_text() if path.is_file() else None for path in tree.rglob("*")}


@pytest.mark.parametrize("killed_after", ["", "pick", "copy", "place"])
def test_a_tree_is_kept_picked_copied_and_placed_by_the_steps_of_its_jobs(
    store: Path, tmp_path: Path, killed_after: str
) -> None:
    backup = Backup(schedule="0 3 * * *", to=Claim("backups"), keep=2)
    scheduled = cron_job(POSTGRES, APP, backup, identity="7", **TOOLS)["spec"]["jobTemplate"]["spec"]["template"]
    steps, volume = _containers(scheduled), tmp_path / "volume"
    places: dict[str, str | Path] = {
        "$(JOB_NAME)": "j",
        "/store": store,
        "/work": tmp_path,
        "/var/lib/postgresql": volume,
    }
    assert _run(steps["prepare"], places).exit_code == 0
    write_base_backup(_written(steps["save"], places), "rows")
    record = read(_run(steps["keep"], places).output)
    assert record and (record.kind, record.position, record.data_version) == ("Postgres", "0/3000100", "17")
    assert record.name.endswith("Z-17.2.base") and "revision" not in json.loads(record.write())
    assert Directory(POSTGRES, store).complete() == [record]

    volume.mkdir()
    job = restore_job(
        POSTGRES,
        APP,
        Restore(Claim("backups")),
        "db-0",
        ["db-0"],
        choice=Choice(record.name, record.checksum),
        **TOOLS,
    )
    restoring = _containers(job["spec"]["template"])
    if killed_after:
        for name, container in restoring.items():
            assert _run(container, places).exit_code == 0
            if name == killed_after:
                break
        if killed_after != "place":
            (volume / "pgdata.part").mkdir(exist_ok=True)
            (volume / "pgdata.part" / "half").write_text("written")
    before = (volume / "pgdata").stat().st_ino if killed_after == "place" else None
    for container in restoring.values():
        assert _run(container, places).exit_code == 0
    assert {path.name for path in volume.iterdir()} == {"pgdata", "restored.json"}
    assert _listing(volume / "pgdata") == _listing(store / record.name)
    assert (volume / "pgdata").stat().st_mode & 0o777 == 0o700, "as PostgreSQL wants its directory"
    assert before in (None, (volume / "pgdata").stat().st_ino), "data of this backup is left as it is"


def _cut(tree: Path) -> None:
    (tree / "base" / "1" / "2619").write_text("ro")


def _lose(tree: Path) -> None:
    (tree / "global" / "pg_control").unlink()


def _link(tree: Path) -> None:
    (tree / "pg_notify" / "link").symlink_to("/etc/passwd")


def _pipe(tree: Path) -> None:
    os.mkfifo(tree / "pg_notify" / "pipe")


def _swap(tree: Path) -> None:
    (tree / "PG_VERSION").unlink()
    (tree / "PG_VERSION").symlink_to("backup_manifest")


@pytest.mark.parametrize("damage", [_cut, _lose, _link, _pipe, _swap])
def test_a_tree_that_is_not_whole_is_no_backup_and_is_not_put_back(store: Path, damage: Callable[[Path], None]) -> None:
    part = store / part_of("db", "j")
    write_base_backup(part, "rows")
    damage(part)
    with pytest.raises(ResourceError):
        keep(
            Directory(POSTGRES, store),
            part,
            app="db",
            namespace="ns",
            identity="",
            version="17.2",
            count=2,
            place="here",
        )
    assert Directory(POSTGRES, store).complete() == []
    Directory(POSTGRES, store).prepare("db", "j")
    assert list(store.iterdir()) == []
    record = _kept(store)
    damage(store / record.name)
    with pytest.raises(ResourceError):
        pick(Directory(POSTGRES, store), "latest", app="db", namespace="ns", version="17.2")


def test_a_tree_that_is_whole_but_another_one_is_not_put_back(store: Path) -> None:
    record = _kept(store)
    shutil.rmtree(store / record.name)
    write_base_backup(store / record.name, "other rows")
    with pytest.raises(ResourceError, match="is not the file that was written"):
        pick(Directory(POSTGRES, store), record.name, app="db", namespace="ns", version="17.2")


def test_a_tree_that_changes_after_it_was_picked_is_not_placed(store: Path, tmp_path: Path) -> None:
    record = _kept(store)
    with pytest.raises(ResourceError, match="changed while it was copied"):
        copy(POSTGRES, store / record.name, tmp_path, "sha256:0")
    assert not (tmp_path / "pgdata.part").exists()


def test_names_and_empty_directories_count(tmp_path: Path) -> None:
    def digest(*paths: str) -> str:
        tree = tmp_path / str(len(list(tmp_path.iterdir())))
        tree.mkdir()
        for path in paths:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).mkdir() if path.endswith("/") else (tree / path).write_text("x")
        return NATS.verified(tree).checksum

    trees = [("a",), ("b",), ("a", "b"), ("a", "b/"), ("d/a",), ("d/a", "e/"), ("a/", "b/"), ("a/b/",), ()]
    assert len({digest(*paths) for paths in trees}) == len(trees)
    assert digest("d/a", "c") == digest("c", "d/a")


def test_trees_beyond_those_that_are_kept_go_whole_and_nothing_else_does(store: Path) -> None:
    others = [
        _kept(store, now=NOW - timedelta(days=3), app="db-two"),
        _kept(store, now=NOW - timedelta(days=2), identity="8"),
    ]
    foreign = Record("db-1.streams", "db", "ns", "7", "2031-01-01T00:00:00Z", "2", "", "", 1, "sha256:1", "p", "Nats")
    (store / foreign.name).mkdir()
    record_of(store / foreign.name).write_text(foreign.write())
    own = [_kept(store, now=NOW + timedelta(days=day), count=2) for day in range(4)]
    assert Directory(POSTGRES, store).complete() == [*others, *own[-2:]]
    assert Directory(NATS, store).complete() == [foreign]
    backups = [store / record.name for record in (*others, *own[-2:], foreign)]
    assert {*store.iterdir()} == {*backups, *map(record_of, backups)}


def test_two_apps_of_one_name_on_one_share_never_write_to_one_file(store: Path) -> None:
    """CronJobs with one schedule give their Jobs the same name in every namespace and cluster: what is of another would
    be kept, and put back, as one's own."""
    backup = Backup(schedule="0 3 * * *", to=NFS("nas", "/exports"), keep=2)
    places: dict[str, str | Path] = {"$(JOB_NAME)": "db-backup-29012345", "/store": store}
    jobs = []
    for namespace, identity in (("ns", "7"), ("shop", "7"), ("ns", "8")):
        app = Postgres("db", namespace=namespace)
        made = cron_job(POSTGRES, app, backup, identity=identity, **TOOLS)["spec"]["jobTemplate"]["spec"]["template"]
        jobs.append((namespace, identity, _containers(made)))
    for namespace, identity, steps in jobs:
        assert _run(steps["prepare"], places).exit_code == 0
        write_base_backup(_written(steps["save"], places), f"rows of {namespace} {identity}")
    for namespace, identity, steps in jobs:
        record = read(_run(steps["keep"], places).output)
        assert record and (record.namespace, record.identity) == (namespace, identity)
        assert (store / record.name / "base/1/2619").read_text() == f"rows of {namespace} {identity}"
    assert len(Directory(POSTGRES, store).complete()) == 3


def test_two_backups_that_end_in_one_second_are_two(store: Path) -> None:
    first = _kept(store)
    record_of(store / "db-20310501T030001Z-17.2.base").touch()  # the next second's name is another one's meanwhile
    assert _kept(store, namespace="shop").name == "db-20310501T030002Z-17.2.base"
    assert (store / first.name).exists() and len(Directory(POSTGRES, store).complete()) == 2


def test_a_tree_that_is_half_deleted_is_no_backup_and_is_cleared_up_later(store: Path) -> None:
    record = _kept(store)
    half = store / f".db.{record.name}.part"
    (store / record.name).rename(half)  # where deleting begins
    assert Directory(POSTGRES, store).complete() == []
    Directory(POSTGRES, store).prepare("db", "job-2")
    assert half.exists(), "another Job may be at it"
    old = time.time() - 3 * 3600
    os.utime(half, (old, old))
    Directory(POSTGRES, store).prepare("db", "job-2")
    assert not half.exists()


def test_a_backup_of_another_kind_is_neither_the_latest_nor_taken_by_name(store: Path) -> None:
    record = _kept(store)
    with pytest.raises(NotFoundError, match="there is no complete backup"):
        pick(Directory(NATS, store), "latest", app="db", namespace="ns", version="2.11")
    with pytest.raises(ConfigurationError, match="is a backup of kind Postgres, and not of Nats"):
        pick(Directory(NATS, store), record.name, app="db", namespace="ns", version="2.11")


def test_a_link_to_a_tree_is_not_followed(store: Path, tmp_path: Path) -> None:
    write_base_backup(tmp_path / "elsewhere", "rows")
    (store / "link.base").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotFoundError):
        pick(Directory(POSTGRES, store), "link.base", app="db", namespace="ns", version="17.2")


def test_a_version_that_cannot_read_the_data_is_refused(store: Path) -> None:
    _kept(store)
    with pytest.raises(ConfigurationError, match=r"has data of 17, which 18[.]1 cannot start from"):
        pick(Directory(POSTGRES, store), "latest", app="db", namespace="ns", version="18.1")
    assert same_series("1", "17.2") and same_series("17", "17.2") is same_series("17", "17") is None


def test_a_kind_that_this_release_does_not_back_up_is_said_in_the_last_words() -> None:
    arguments = ["place", "--kind=Queue", "--volume=.", "--snapshot=s", "--checksum=c"]
    result = CliRunner().invoke(backup_commands(PLANS.get), arguments)
    assert result.exit_code == NotFoundError.exit_code
    assert "this release of fleet makes no backups of kind Queue" in result.output
