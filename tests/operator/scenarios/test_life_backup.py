"""A backup made by the app's own CronJob becomes a new app with the same data, from a claim and from S3."""

from __future__ import annotations

from typing import Any

from fleet.testing import S3
from tests.operator.app_on_nodes import App
from tests.operator.scenarios.test_life_operations import ask


def test_a_backup_becomes_a_new_app_with_the_same_data(app: App) -> None:
    app.cluster.images("fleet-operator")
    app.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "backups", "namespace": app.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}},
        }
    )
    _goes_there_and_comes_back(app, {"claim": {"claim": "backups"}})


def test_a_backup_goes_to_s3_encrypted_and_becomes_a_new_app_with_the_same_data(unattended: App, s3: S3) -> None:
    app = unattended
    app.cluster.images("etcd")
    app.cluster.images("fleet-operator")
    secrets = {
        "s3": {"AWS_ACCESS_KEY_ID": s3.key.access, "AWS_SECRET_ACCESS_KEY": s3.key.secret},
        "backup-key": {"key": "00" * 32},
    }
    for name, values in secrets.items():
        metadata = {"name": name, "namespace": app.namespace}
        app.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
    app.operator.options = (f"--allow-store={s3.url}/{s3.bucket.name}/*",)
    app.operator.start()
    bucket = {"place": f"{s3.bucket.name}/registry", "secret": "s3", "endpoint": s3.url, "encryption": "backup-key"}
    _goes_there_and_comes_back(app, {"s3": bucket})
    assert len(s3.bucket.keys("registry/")) == 2 and s3.bucket.uploads() == []


def _goes_there_and_comes_back(app: App, place: dict[str, Any]) -> None:
    app.want(version="3.5", members=1, backup={"schedule": "0 3 1 1 *", "to": place})
    app.wait_ready()
    with app.writer(rate=100) as writer:
        writer.goes_on(300)
        numbers = writer.stop()
    record = ask(app, "backup")
    assert record["state"] == "complete"
    app.wait("it is backed up", lambda: bool(app.status.get("lastBackup")))
    last = app.status["lastBackup"]
    assert {name: record[name] for name in ("place", "checksum", "size")} == {
        name: last[name] for name in ("place", "checksum", "size")
    }
    assert app.condition("BackedUp")["status"] == "True"
    copy = App(app.cluster, app.operator, "copy")
    copy.want(version="3.5", members=1, restoreFrom={"source": place})
    copy.wait_ready()
    copy.has_all(numbers)
    assert copy.status["identity"] != app.status["identity"]
    with copy.writer(rate=50) as writer:
        writer.goes_on()
    app.wait_ready()
