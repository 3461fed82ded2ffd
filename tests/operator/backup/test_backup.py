"""Backups of real etcds, made and put back by the command lines of the manifests; the data is counted afterwards."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fleet_operator.cli import cli

from fleet.apps.etcd import Etcd, names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.backup.snapshot import verified
from fleet.errors import AccessError, ConfigurationError, ConflictError, NotFoundError, ResourceError
from fleet.kit import names as kit_names
from fleet.kit.backup import commands
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.records import Record, part_of, read, record_of
from fleet.kit.backup.restoration import Choice, pick_job, restore_job
from fleet.kit.backup.retention import keep
from fleet.kit.backup.schedule import cron_job
from fleet.kit.backup.shelf import pick
from fleet.kit.backup.volumes import clear, place
from fleet.model.app_settings import Backup, Claim, Restore
from tests.operator.backup.pod_processes import run_container, run_pod
from tests.operator.etcd.client import EtcdClient
from tests.operator.etcd.processes import WITH_TOOLS, EtcdCluster, Programs, leader, programs

NOW = datetime(2031, 5, 1, 3, 0, tzinfo=UTC)
WRITTEN = 300
BACKUP = Backup(schedule="0 3 * * *", to=Claim("backups", folder="orders"), keep=2)


@dataclass(frozen=True)
class Source:
    """An etcd that was backed up by its manifest's commands, and the directory with what came of it."""

    app: Etcd
    programs: Programs
    store: Path
    record: Record
    revision: int

    @property
    def directory(self) -> Path:
        return self.store / "orders"

    @property
    def snapshot(self) -> Path:
        return self.directory / self.record.name


@pytest.fixture(scope="module", params=WITH_TOOLS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    version = request.param
    directory = tmp_path_factory.mktemp(f"source-{version}")
    app = Etcd("registry", namespace="ns", version=version, backup=BACKUP)
    (directory / "store").mkdir()
    with EtcdCluster(programs(version), directory / "etcd") as cluster:

        async def fill(etcd: EtcdClient) -> int:
            for number in range(WRITTEN):
                await etcd.put(cluster.founders[0].endpoint, f"record/{number}", f"value {number}")
            return await etcd.revision(cluster.founders[0].endpoint)

        revision = cluster.talk(fill)
        said = run_pod(_pod(app), cluster.programs, _places(cluster, directory / "store"))
    record = read(said["keep"])
    assert record
    yield Source(app, cluster.programs, directory / "store", record, revision)


def _pod(app: Etcd) -> dict[str, Any]:
    assert app.backup
    made = cron_job(
        PLAN, app, app.backup, image="etcd", operator_image="operator", version=f"{app.version}.1", identity="abc"
    )
    template: dict[str, Any] = made["spec"]["jobTemplate"]["spec"]["template"]
    return template


def _places(cluster: EtcdCluster, store: Path) -> dict[str, str | Path]:
    client = cluster.directory
    (client / "tls.crt").write_bytes((client / "user.crt").read_bytes())
    (client / "tls.key").write_bytes((client / "user.key").read_bytes())
    return {
        "$(JOB_NAME)": "job-1",
        "/store": store,
        "/etc/etcd/client": client,
        "https://registry.ns.svc:2379": cluster.founders[0].url,
    }


def test_a_backup_is_complete_named_and_described(source: Source) -> None:
    record = source.record
    assert record.name.startswith("registry-20") and record.name.endswith(f"Z-{source.app.version}.1.db")
    assert (record.app, record.namespace, record.identity) == ("registry", "ns", "abc")
    assert record.position == str(source.revision)
    assert record.data_version == source.app.version
    assert record.place == f"claim/backups/orders/{record.name}"
    assert record.size == source.snapshot.stat().st_size
    assert abs(datetime.fromisoformat(record.time) - datetime.now(UTC)) < timedelta(minutes=5)
    assert Directory(PLAN, source.directory).complete() == [record]
    assert {file.name for file in source.directory.iterdir()} == {record.name, record_of(source.snapshot).name}


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_put_back_has_every_key(source: Source, tmp_path: Path, count: int) -> None:
    with _restored(source, tmp_path, count) as cluster:

        async def counted(etcd: EtcdClient) -> None:
            await leader(etcd, cluster.founders)
            for member in cluster.founders:
                assert await etcd.count(member.endpoint, "record/") == WRITTEN
                assert await etcd.get(member.endpoint, "record/7") == b"value 7"
                assert await etcd.revision(member.endpoint) == source.revision
            listed = await etcd.members(cluster.founders[0].endpoint)
            assert {url for member in listed for url in member.peer_urls} == {
                member.peer_url for member in cluster.founders
            }
            await etcd.put(cluster.founders[0].endpoint, "after", "it")
            assert await etcd.get(cluster.founders[-1].endpoint, "after") == b"it"

        cluster.talk(counted)


def _restored(source: Source, tmp_path: Path, count: int) -> EtcdCluster:
    """An etcd on volumes that the Jobs of a restore have filled."""
    cluster = EtcdCluster(source.programs, tmp_path / "etcd", count)
    app, restore = _new(source)
    pods = [kit_names.pod(app, number) for number in range(count)]
    replaced: dict[str, str | Path] = {
        names.peer_url(app, pod): member.peer_url for pod, member in zip(pods, cluster.founders, strict=True)
    }
    job = pick_job(PLAN, app, restore, operator_image="operator", version=app.version)
    said = run_container(job["spec"]["template"]["spec"]["containers"][0], source.programs, {"/store": source.store})
    record = read(said.stdout)
    assert record == source.record
    choice = Choice(record.name, record.checksum)
    for pod, member in zip(pods, cluster.founders, strict=True):
        template = _restore_pod(app, restore, pod, pods, choice)
        volume = tmp_path / pod
        run_pod(template, source.programs, {**replaced, **_volumes(source, volume, tmp_path)})
        member.data = volume / "data"
    return cluster


def _new(source: Source) -> tuple[Etcd, Restore]:
    restore = Restore(BACKUP.to)
    return Etcd("copy", namespace="ns", version=source.app.version, restore_from=restore), restore


def _restore_pod(app: Etcd, restore: Restore, pod: str, pods: list[str], choice: Choice) -> dict[str, Any]:
    made = restore_job(
        PLAN, app, restore, pod, pods, choice=choice, image="etcd", operator_image="operator", version=app.version
    )
    template: dict[str, Any] = made["spec"]["template"]
    return template


def _volumes(source: Source, volume: Path, work: Path) -> dict[str, str | Path]:
    volume.mkdir(exist_ok=True)
    return {"/store": source.store, "/work": work, names.MOUNT: volume}


@pytest.mark.parametrize("killed_after", ["", "pick", "restore", "place"])
def test_a_restore_that_was_cut_off_ends_well_the_next_time(source: Source, tmp_path: Path, killed_after: str) -> None:
    app, restore = _new(source)
    choice = Choice(source.record.name, source.record.checksum)
    pod = _restore_pod(app, restore, "copy-0", ["copy-0"], choice)
    volume = tmp_path / "volume"
    places = _volumes(source, volume, tmp_path)
    if killed_after:
        run_pod(pod, source.programs, places, until=killed_after)
    before = (volume / "data").stat().st_ino if killed_after == "place" else 0
    if killed_after != "place":
        (volume / "data.part").mkdir(exist_ok=True)
        (volume / "data.part" / "half").write_text("written")
    said = run_pod(pod, source.programs, places)
    assert (volume / "data" / "member" / "snap" / "db").exists()
    assert {one.name for one in volume.iterdir()} == {"data", "restored.json"}
    assert not (volume / "data" / "half").exists()
    if killed_after == "place":
        assert (volume / "data").stat().st_ino == before
        assert "was put back before" in said["place"]


def test_data_of_another_origin_is_never_touched(source: Source, tmp_path: Path) -> None:
    app, restore = _new(source)
    choice = Choice(source.record.name, source.record.checksum)
    pod = _restore_pod(app, restore, "copy-0", ["copy-0"], choice)
    volume = tmp_path / "volume"
    places = _volumes(source, volume, tmp_path)
    for part in ("data", "data.part"):
        (volume / part).mkdir()
        (volume / part / "precious").write_text("kept")
    for name in ("pick", "place"):
        container = next(
            one for one in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]) if one["name"] == name
        )
        done = run_container(container, source.programs, places)
        assert done.returncode == ConflictError.exit_code
        assert "the volume has data that is not from this backup; nothing was changed" in done.stderr
        assert (volume / "data" / "precious").read_text() == (volume / "data.part" / "precious").read_text() == "kept"


def test_a_volume_that_was_cut_off_between_note_and_rename_is_filled_anew(tmp_path: Path) -> None:
    (tmp_path / "restored.json").write_text(json.dumps({"snapshot": "s", "checksum": "sha256:1"}))
    (tmp_path / "data.part").mkdir()
    clear(PLAN, tmp_path, "sha256:2")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_placed_where_nothing_was_restored(tmp_path: Path) -> None:
    (tmp_path / "data.part").mkdir()
    with pytest.raises(ResourceError, match="nothing was restored"):
        place(PLAN, tmp_path, "s", "sha256:1")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "flipped in the checksum", "empty", "not a snapshot"])
def test_a_snapshot_that_is_not_whole_is_no_backup(source: Source, tmp_path: Path, damage: str) -> None:
    part = tmp_path / part_of("registry", "job-2")
    content = bytearray(source.snapshot.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = bytearray()
    elif damage == "not a snapshot":
        content = bytearray(os.urandom(512 + 32))
    else:
        content[-5 if "checksum" in damage else len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(ResourceError, match=r"not whole|damaged"):
        _kept(tmp_path, part)
    assert list(tmp_path.iterdir()) == [part]
    Directory(PLAN, tmp_path).prepare("registry", "job-2")
    assert list(tmp_path.iterdir()) == []


def _kept(directory: Path, part: Path, *, now: datetime = NOW, count: int = 2, **other: str) -> Record:
    whose: dict[str, Any] = {"app": "registry", "namespace": "ns", "identity": "abc", **other}
    return keep(Directory(PLAN, directory), part, version="3.5.1", count=count, place="here", now=now, **whose)


def _another(source: Source, directory: Path, **options: Any) -> Record:
    part = directory / part_of("registry", "job-3")
    shutil.copy(source.snapshot, part)
    return _kept(directory, part, **options)


def test_only_the_newest_of_this_app_are_kept_and_nothing_else_is_touched(source: Source, tmp_path: Path) -> None:
    foreign = ["notes.txt", "registry-20310101T000000Z-3.5.1.db", "registry.json", "other-20310101T000000Z-3.5.1.json"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    others = [
        _another(source, tmp_path, now=NOW - timedelta(days=9), app="registry-two"),
        _another(source, tmp_path, now=NOW - timedelta(days=8), namespace="elsewhere"),
        _another(source, tmp_path, now=NOW - timedelta(days=7), identity="other"),
    ]
    own = [_another(source, tmp_path, now=NOW + timedelta(days=day)) for day in range(4)]
    assert Directory(PLAN, tmp_path).complete() == sorted([*others, *own[-2:]], key=lambda one: one.time)
    names = {*foreign, *(one.name for one in (*others, *own[-2:]))}
    names |= {record_of(Path(one.name)).name for one in (*others, *own[-2:])}
    assert {one.name for one in tmp_path.iterdir()} == names


def test_a_clock_that_went_back_never_costs_the_backup_just_made(source: Source, tmp_path: Path) -> None:
    for day in range(3):
        _another(source, tmp_path, now=NOW + timedelta(days=day), count=3)
    made = _another(source, tmp_path, now=NOW - timedelta(days=30), count=1)
    assert Directory(PLAN, tmp_path).complete() == [made]


def test_two_backups_of_the_same_second_are_two(source: Source, tmp_path: Path) -> None:
    first, second = _another(source, tmp_path), _another(source, tmp_path)
    assert first.name != second.name and Directory(PLAN, tmp_path).complete() == [first, second]


def test_what_a_killed_backup_left_is_cleared_up_but_not_what_may_be_in_use(source: Source, tmp_path: Path) -> None:
    old = time.time() - 3 * 3600
    abandoned = [".registry.job-1.part", ".registry.job-1.part.part", ".registry-20310101T000000Z-3.5.1.json.part"]
    in_use = [".registry.job-8.part", ".registry-two.job-1.part"]
    for name in (*abandoned, *in_use, ".registry.job-9.part", ".registry.job-9.part.part"):
        (tmp_path / name).write_text("half")
        if name in abandoned:
            os.utime(tmp_path / name, (old, old))
    Directory(PLAN, tmp_path).prepare("registry", "job-9")
    assert {one.name for one in tmp_path.iterdir()} == set(in_use)

    record = _another(source, tmp_path)
    alone = tmp_path / "registry-20300101T000000Z-3.5.1.json"
    alone.write_text(replace(record, name=alone.with_suffix(".db").name).write())
    _another(source, tmp_path)
    assert alone.exists()
    os.utime(alone, (old, old))
    _another(source, tmp_path)
    assert not alone.exists()


def test_a_store_that_cannot_be_written_to_is_told_before_etcd_is_asked(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises((ResourceError, AccessError), match="cannot be written to"):
        Directory(PLAN, blocked / "folder").prepare("registry", "job")
    Directory(PLAN, tmp_path / "a" / "b").prepare("registry", "job")
    assert (tmp_path / "a" / "b").is_dir()


def test_the_latest_is_the_newest_that_is_complete(source: Source, tmp_path: Path) -> None:
    made = [_another(source, tmp_path, now=NOW + timedelta(days=day), count=9) for day in range(3)]
    (tmp_path / made[2].name).unlink()  # only its record is left
    assert _picked(source, tmp_path) == made[1]
    assert _picked(source, tmp_path, made[0].name) == made[0]
    with pytest.raises(NotFoundError, match=made[2].name) as missing:
        _picked(source, tmp_path, made[2].name)
    assert made[1].name in str(missing.value.hint)


def _picked(source: Source, directory: Path, snapshot: str = "latest", **other: str) -> Record:
    options: dict[str, Any] = {"app": "copy", "namespace": "ns", "version": source.app.version, **other}
    return pick(Directory(PLAN, directory), snapshot, **options)


def test_the_latest_of_several_apps_is_only_clear_for_one_of_them(source: Source, tmp_path: Path) -> None:
    own = _another(source, tmp_path)
    other = _another(source, tmp_path, app="orders", now=NOW + timedelta(days=1))
    with pytest.raises(ConfigurationError, match="backups of several apps are here: ns/orders, ns/registry"):
        _picked(source, tmp_path)
    assert _picked(source, tmp_path, app="registry") == own
    assert _picked(source, tmp_path, other.name) == other


def test_a_snapshot_that_somebody_else_made_can_be_named(source: Source, tmp_path: Path) -> None:
    shutil.copy(source.snapshot, tmp_path / "by-hand.db")
    picked = _picked(source, tmp_path, "by-hand.db")
    assert (picked.position, picked.checksum) == (str(source.revision), source.record.checksum)
    with pytest.raises(NotFoundError, match="there is no complete backup"):
        _picked(source, tmp_path)


def test_a_backup_that_was_changed_afterwards_is_not_put_back(source: Source, tmp_path: Path) -> None:
    record = _another(source, tmp_path)
    file = tmp_path / record.name
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    with pytest.raises(ResourceError, match="is damaged"):
        _picked(source, tmp_path)
    shutil.copy(source.snapshot, file)
    with pytest.raises(ResourceError, match="is not the file that was written"):
        _picked(source, tmp_path, checksum="sha256:0")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", ".hidden", "a/b.db", ""])
def test_only_plain_names_are_taken(source: Source, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a backup"):
        _picked(source, tmp_path, name)


def test_a_link_is_not_followed(source: Source, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(source.snapshot)
    with pytest.raises(NotFoundError):
        _picked(source, tmp_path, "link.db")


def test_a_version_that_cannot_read_the_data_is_refused(source: Source) -> None:
    minor = int(source.app.version.split(".")[1])
    for version in (f"3.{minor}", f"3.{minor}.9", f"3.{minor + 1}.2"):
        assert _picked(source, source.directory, version=version) == source.record
    for version in (f"3.{minor - 1}", f"3.{minor + 2}"):
        with pytest.raises(ConfigurationError, match=f"has data of etcd 3.{minor}, which etcd {version} cannot"):
            _picked(source, source.directory, version=version)


def test_the_reader_of_the_file_agrees_with_etcds_own_tool(source: Source) -> None:
    facts = verified(source.snapshot)
    assert (facts.position, facts.data_version) == (str(source.revision), source.app.version)
    assert facts.size == source.snapshot.stat().st_size


def test_last_words_are_the_record_or_the_reason(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tmp_path / "termination-log"
    words.write_text("")
    monkeypatch.setattr(commands, "_LAST_WORDS", words)
    arguments = ["backup", "pick", "--app=copy", "--namespace=ns", f"--version={source.app.version}"]
    good = CliRunner().invoke(cli, [*arguments, f"--directory={source.directory}", "--snapshot=latest"])
    assert good.exit_code == 0 and read(words.read_text()) == source.record
    bad = CliRunner().invoke(cli, [*arguments, f"--directory={tmp_path}", "--snapshot=latest"])
    assert bad.exit_code == NotFoundError.exit_code
    assert words.read_text() == "there is no complete backup"
