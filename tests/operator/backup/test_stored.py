"""What a release of before left is found, read and taken up: backups in a store, Jobs in a cluster.

`files` was written by the release before the frame of backups knew any engine but etcd. It is never written anew.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleet.apps.etcd import Etcd, names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.records import part_of, read
from fleet.kit.backup.restoration import Choice, claim, pick_job, restore_job
from fleet.kit.backup.retention import keep
from fleet.kit.backup.schedule import cron_job
from fleet.kit.backup.shelf import pick
from fleet.model.app_settings import NFS, TLS, Backup, Claim, Resources, Restore, Volume
from tests.operator.backup.pod_processes import run_container
from tests.operator.etcd.processes import Programs

FILES = Path(__file__).parent / "files"
OLDEST, NEWEST = "registry-20310501T030000Z-3.5.21.db", "registry-20310502T030000Z-3.5.21.db"
JOBS = json.loads((FILES / "jobs.json").read_text())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FILES / "shelf", tmp_path / "shelf"))


def test_backups_of_before_are_found_and_picked(store: Path) -> None:
    assert [record.name for record in Directory(PLAN, store).complete()] == [
        OLDEST,
        NEWEST,
        "orders-20310506T030000Z-3.5.21.db",
    ]
    record = pick(Directory(PLAN, store), "latest", app="registry", namespace="ns", version="3.5.35")
    assert (record.name, record.data_version, record.size) == (NEWEST, "3.5", 28704)
    assert (
        pick(Directory(PLAN, store), OLDEST, app="again", namespace="ns", version="3.6", origins=(), recorded=True).name
        == OLDEST
    )


def test_backups_of_before_count_among_those_that_are_kept(store: Path) -> None:
    part = store / part_of("registry", "job-9")
    shutil.copy(store / NEWEST, part)
    whose: dict[str, Any] = {"app": "registry", "namespace": "ns", "identity": "abc", "place": "claim/backups"}
    made = keep(Directory(PLAN, store), part, version="3.5.35", count=2, now=datetime(2031, 5, 3, tzinfo=UTC), **whose)
    assert [record.name for record in Directory(PLAN, store).complete() if record.app == "registry"] == [
        NEWEST,
        made.name,
    ]


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
        "schedule": cron_job(PLAN, app, app.backup, image="etcd:1", identity="abc", **tools),
        "pick": pick_job(PLAN, app, restore, origins=origins, **tools),
        "restore": restore_job(
            PLAN, app, restore, founders[-1], founders, choice=choice, image="etcd:1", origins=origins, **tools
        ),
        "claim": claim(PLAN, app, founders[-1], choice),
    }
    assert _as_before(made) == _as_before(JOBS[name])


def _as_before(made: dict[str, Any]) -> dict[str, Any]:
    """As releases wrote Jobs that knew no kind but etcd and told Jobs of two namespaces not apart, without the marks
    that follow from what is in a template."""
    text = json.dumps(made, sort_keys=True).replace('"--kind=Etcd", ', "")
    text = re.sub(r"\b[0-9a-f]{10}\.\$\(JOB_NAME\)", "$(JOB_NAME)", text)
    return dict(json.loads(re.sub(r'"fleet.dev/template": "[0-9a-f]+"', '"fleet.dev/template": ""', text)))


@pytest.mark.parametrize("made_by", ["the release before", "this one"])
def test_the_steps_of_either_releases_jobs_are_commands_of_this_one(made_by: str, store: Path, tmp_path: Path) -> None:
    """A Job of the release before may run with this release's image, if that has the name of the other one's."""
    app, restore, version, founders, _ = _apps()["tls"]
    jobs, tools = JOBS["tls"], {"operator_image": "operator:1", "version": version}
    choice = Choice(NEWEST, Directory(PLAN, store).complete()[1].checksum)
    if made_by == "this one":
        assert app.backup
        filled = restore_job(PLAN, app, restore, founders[-1], founders, choice=choice, image="etcd:1", **tools)
        jobs = {"schedule": cron_job(PLAN, app, app.backup, image="etcd:1", identity="abc", **tools), "restore": filled}
    volume = tmp_path / "volume"
    volume.mkdir()
    places: dict[str, str | Path] = {
        "$(JOB_NAME)": "j",
        "sha256:0123": choice.checksum,
        "/store/a": store,
        "/work": tmp_path,
    }
    backing_up = _containers(jobs["schedule"]["spec"]["jobTemplate"]["spec"]["template"])
    restoring = _containers(jobs["restore"]["spec"]["template"])

    def run(container: dict[str, Any]) -> str:
        done = run_container(container, Programs(version, tmp_path), {**places, names.MOUNT: volume})
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(backing_up["prepare"])
    written = re.sub(r".*/", "", next(word for word in backing_up["save"]["command"] if word.endswith(".part")))
    shutil.copy(store / NEWEST, store / written.replace("$(JOB_NAME)", "j"))
    record = read(run(backing_up["keep"]))
    assert record and (record.position, record.kind, record.place) == ("21", "Etcd", f"claim/backups/a/{record.name}")
    assert read(run(restoring["pick"])) == read((store / NEWEST).with_suffix(".json").read_text())
    assert (tmp_path / "snapshot.db").samefile(store / NEWEST)
    for path in PLAN.complete:
        (volume / "data.part" / path).mkdir(parents=True)
    assert run(restoring["place"]) == f"{NEWEST} has been put back\n"
    assert {path.name for path in volume.iterdir()} == {"data", "restored.json"}


def _containers(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = template["spec"]
    return {container["name"]: container for container in (*spec["initContainers"], *spec["containers"])}


def test_a_record_of_either_version_is_read_by_the_other_release(store: Path) -> None:
    text = (store / NEWEST).with_suffix(".json").read_text()
    record = read(text)
    assert record and (record.position, record.kind) == ("21", "Etcd")
    written = json.loads(record.write())
    assert {name: written[name] for name in json.loads(text)} == json.loads(text), "all that it asks for, as it was"
    assert read(record.write()) == record
