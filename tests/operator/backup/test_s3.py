"""Backups of a real etcd in a real S3 server, made and put back by the command lines of the manifests; the data is
counted afterwards."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import fleet
from fleet.apps.etcd import Etcd, names
from fleet.apps.etcd.backup.plan import PLAN
from fleet.kit import names as kit_names
from fleet.kit.backup.records import Record, read
from fleet.kit.backup.restoration import Choice, pick_job, restore_job
from fleet.kit.backup.schedule import cron_job
from fleet.kit.backup.trial import trial_cron_job
from fleet.model.app_settings import Backup, Restore
from fleet.testing import S3
from tests.operator.backup.pod_processes import run_container, run_pod
from tests.operator.etcd.client import EtcdClient
from tests.operator.etcd.processes import EtcdCluster, leader, programs
from tests.s3.store_proxy import StoreProxy

VERSION = "3.5"
WRITTEN = 300


def _backup(source: EtcdCluster, bucket: fleet.S3, scratch: Path, secrets: dict[str, dict[str, str]]) -> Record:
    """Run the Job of an app's schedule."""
    scratch.mkdir(exist_ok=True)
    app = Etcd("registry", namespace="ns", version=VERSION, backup=Backup(schedule="0 3 * * *", to=bucket, keep=2))
    assert app.backup
    made = cron_job(
        PLAN, app, app.backup, image="etcd", operator_image="operator", version=f"{VERSION}.1", identity="abc"
    )
    client = source.directory
    (client / "tls.crt").write_bytes((client / "user.crt").read_bytes())
    (client / "tls.key").write_bytes((client / "user.key").read_bytes())
    places: dict[str, str | Path] = {
        "$(JOB_NAME)": "job-1",
        "=/store": f"={scratch}",
        "/store": scratch,
        "/etc/etcd/client": client,
        "https://registry.ns.svc:2379": source.founders[0].url,
    }
    template: dict[str, Any] = made["spec"]["jobTemplate"]["spec"]["template"]
    record = read(run_pod(template, source.programs, places, secrets=secrets)["keep"])
    assert record
    return record


def _restored(
    source: EtcdCluster, bucket: fleet.S3, tmp_path: Path, secrets: dict[str, dict[str, str]], wanted: Record
) -> EtcdCluster:
    """An etcd of one member in another cluster, on a volume that the Jobs of a restore have filled."""
    restore = Restore(bucket)
    app = Etcd("copy", namespace="ns", version=VERSION, members=1, restore_from=restore)
    pod = kit_names.pod(app, 0)
    for scratch in ("choosing", "scratch", "work", "volume"):
        (tmp_path / scratch).mkdir()
    job = pick_job(PLAN, app, restore, operator_image="operator", version=VERSION)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    said = run_container(container, source.programs, {"/store": tmp_path / "choosing"}, secrets)
    assert said.returncode == 0, said.stderr
    record = read(said.stdout)
    assert record == wanted
    cluster = EtcdCluster(source.programs, tmp_path / "restored", 1)
    filled = restore_job(
        PLAN,
        app,
        restore,
        pod,
        [pod],
        choice=Choice(record.name, record.checksum),
        image="etcd",
        operator_image="operator",
        version=VERSION,
    )
    places: dict[str, str | Path] = {
        names.peer_url(app, pod): cluster.founders[0].peer_url,
        "=/store": f"={tmp_path / 'scratch'}",
        "/work": tmp_path / "work",
        names.MOUNT: tmp_path / "volume",
    }
    run_pod(filled["spec"]["template"], source.programs, places, secrets=secrets)
    cluster.founders[0].data = tmp_path / "volume" / "data"
    return cluster


@pytest.mark.parametrize("how", ["plain", "encrypted with TLS"])
def test_an_etcd_goes_to_s3_and_comes_back_with_every_key(s3: S3, tmp_path: Path, how: str) -> None:
    secrets = {"s3": {"AWS_ACCESS_KEY_ID": s3.key.access, "AWS_SECRET_ACCESS_KEY": s3.key.secret}}
    with StoreProxy(s3.url, tls=tmp_path) as proxy, EtcdCluster(programs(VERSION), tmp_path / "etcd") as source:
        place = f"{s3.bucket.name}/etcd"
        bucket = fleet.S3(place, secret="s3", endpoint=s3.url, region=s3.region)
        if how != "plain":
            secrets["s3"]["ca.crt"] = proxy.authority
            secrets["backup-key"] = {"key": base64.b64encode(bytes(range(32))).decode()}
            bucket = fleet.S3(place, secret="s3", endpoint=proxy.url, encryption="backup-key")

        async def fill(etcd: EtcdClient) -> int:
            for number in range(WRITTEN):
                await etcd.put(source.founders[0].endpoint, f"record/{number}", f"value {number}")
            return await etcd.revision(source.founders[0].endpoint)

        revision = source.talk(fill)
        record = _backup(source, bucket, tmp_path / "saving", secrets)
        assert record.position == str(revision)
        assert record.place == f"{bucket.endpoint}/{place}/{record.name}"
        assert set(s3.bucket.keys()) == {f"etcd/{record.name}", f"etcd/{record.name.removesuffix('.db')}.json"}
        stored = s3.bucket.get(f"etcd/{record.name}")
        assert (b"value 7" in stored) is (how == "plain")
        assert record.stored_size == len(stored) and bool(record.encryption_key) is (how != "plain")
        with _restored(source, bucket, tmp_path, secrets, record) as cluster:

            async def count(etcd: EtcdClient) -> None:
                await leader(etcd, cluster.founders)
                member = cluster.founders[0]
                assert await etcd.count(member.endpoint, "record/") == WRITTEN
                assert await etcd.get(member.endpoint, "record/7") == b"value 7"

            cluster.talk(count)
        _try(source, bucket, tmp_path / "tried", secrets, record)
        s3.bucket.put(f"etcd/{record.name}", stored[:-9] + bytes(9))
        with pytest.raises(AssertionError, match=r"is not what was written|was changed since it was encrypted"):
            _try(source, bucket, tmp_path / "tried-2", secrets, record)


def _try(
    source: EtcdCluster, bucket: fleet.S3, directory: Path, secrets: dict[str, dict[str, str]], wanted: Record
) -> None:
    """Run the Job of a trial."""
    for name in "abc":
        (directory / name).mkdir(parents=True)
    backup = Backup(schedule="0 3 * * *", to=bucket, trial="0 6 * * 0")
    app = Etcd("registry", namespace="ns", version=VERSION, backup=backup)
    cron = trial_cron_job(
        PLAN, app, backup, image="etcd", operator_image="operator", version=f"{VERSION}.1", identity="abc"
    )
    assert cron
    places: dict[str, str | Path] = {
        "=/store": f"={directory / 'a'}",
        "/work": directory / "b",
        "/trial": directory / "c",
    }
    template = cron["spec"]["jobTemplate"]["spec"]["template"]
    said = run_pod(template, source.programs, places, secrets=secrets)
    assert read(said["prove"]) == wanted
    assert (directory / "c" / "data" / "member" / "snap" / "db").exists()


def test_a_wrong_key_is_told_before_etcd_is_asked_and_in_words_for_the_status(s3: S3, tmp_path: Path) -> None:
    secrets = {"s3": {"AWS_ACCESS_KEY_ID": s3.key.access, "AWS_SECRET_ACCESS_KEY": "wrong"}}
    bucket = fleet.S3(s3.bucket.name, secret="s3", endpoint=s3.url)
    app = Etcd("registry", namespace="ns", version=VERSION, backup=Backup(schedule="@daily", to=bucket))
    assert app.backup
    made = cron_job(PLAN, app, app.backup, image="etcd", operator_image="operator", version="3.5.1")
    prepare = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["initContainers"][0]
    said = run_container(prepare, programs(VERSION), {"=/store": f"={tmp_path}"}, secrets)
    assert said.returncode == 3 and "SignatureDoesNotMatch" in said.stderr
    assert "the store does not accept the key" in said.stderr and s3.key.secret not in said.stderr
