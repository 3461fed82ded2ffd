"""What a release of before left is found, read and taken up: backups in a store, Jobs in a cluster.

`files` was written by the release before the frame of backups knew any engine but etcd. It is never written anew.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.backup import shelf
from fleet.apps.etcd.backup.keep import keep, part_of
from fleet.apps.etcd.backup.pick import pick
from fleet.apps.etcd.backup.restoration import Choice, claim, pick_job, restore_job
from fleet.apps.etcd.backup.schedule import cron_job
from fleet.model.app_settings import NFS, TLS, Backup, Claim, Resources, Restore, Volume

FILES = Path(__file__).parent / "files"
OLDEST, NEWEST = "registry-20310501T030000Z-3.5.21.db", "registry-20310502T030000Z-3.5.21.db"
JOBS = json.loads((FILES / "jobs.json").read_text())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FILES / "shelf", tmp_path / "shelf"))


def test_backups_of_before_are_found_and_picked(store: Path) -> None:
    assert [record.name for record in shelf.complete(store)] == [OLDEST, NEWEST, "orders-20310506T030000Z-3.5.21.db"]
    record = pick(store, "latest", app="registry", namespace="ns", version="3.5.35")
    assert (record.name, record.data_version, record.size) == (NEWEST, "3.5", 28704)
    assert pick(store, OLDEST, app="again", namespace="ns", version="3.6", origins=(), recorded=True).name == OLDEST


def test_backups_of_before_count_among_those_that_are_kept(store: Path) -> None:
    part = store / part_of("registry", "job-9")
    shutil.copy(store / NEWEST, part)
    whose = {"app": "registry", "namespace": "ns", "identity": "abc", "version": "3.5.35", "place": "claim/backups"}
    made = keep(store, part, count=2, now=datetime(2031, 5, 3, tzinfo=UTC), **whose)
    assert [record.name for record in shelf.complete(store) if record.app == "registry"] == [NEWEST, made.name]


def _apps() -> dict[str, tuple[Etcd, Restore, str, tuple[str, ...], tuple[str, ...]]]:
    claim, share = Claim("backups", folder="a"), NFS("files.example", "/exports/etcd")
    encrypted = Etcd(
        "registry",
        namespace="ns",
        version="3.5",
        backup=Backup(schedule="0 3 * * *", to=claim, keep=2),
        storage="2Gi",
        volume=Volume(storage_class="fast"),
    )
    plain = Etcd(
        "db",
        namespace="ns",
        version="3.4",
        members=1,
        backup=Backup(schedule="*/5 * * * *", to=share, suspended=True),
        tls=TLS(enabled=False),
        resources=Resources(cpu="500m", memory="1Gi", memory_limit="2Gi"),
    )
    founders = ("registry-0", "registry-1", "registry-2")
    return {
        "tls": (encrypted, Restore(claim), "3.5.21", founders, ()),
        "plain": (plain, Restore(share, snapshot="by-hand.db"), "3.4.37", ("db-0",), ("shop", "team-*")),
    }


@pytest.mark.parametrize("name", sorted(JOBS))
def test_jobs_are_those_of_before(name: str) -> None:
    app, restore, version, founders, origins = _apps()[name]
    assert app.backup
    tools: dict[str, Any] = {"operator_image": "operator:1", "version": version}
    choice = Choice(NEWEST, "sha256:0123")
    made = {
        "schedule": cron_job(app, app.backup, image="etcd:1", identity="abc", **tools),
        "pick": pick_job(app, restore, origins=origins, **tools),
        "restore": restore_job(app, restore, founders[-1], founders, choice, image="etcd:1", origins=origins, **tools),
        "claim": claim(app, founders[-1], choice),
    }
    assert made == JOBS[name]
