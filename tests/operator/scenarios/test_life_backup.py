"""A backup made by the app's own CronJob becomes a new app with the same data."""

from __future__ import annotations

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
    place = {"claim": {"claim": "backups"}}
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
