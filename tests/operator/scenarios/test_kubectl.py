"""kubectl alone is enough to look after an etcd."""

from __future__ import annotations

import re

import pytest

from fleet.errors import ResourceError
from tests.operator.app_on_nodes import App


def test_kubectl_alone_is_pleasant(app: App) -> None:
    kubectl = app.cluster.kubectl
    app.want(version="3.5", members=1)
    kubectl("wait", "--for=condition=Ready", "etcd/registry", "--timeout=300s", timeout=330)
    head, line = kubectl("get", "etcd").splitlines()
    assert head.split() == ["NAME", "VERSION", "READY", "LEADER", "HEALTH", "LAST", "BACKUP", "AGE"]
    assert line.split()[:5] == ["registry", app.status["version"], "1/1", "registry-0", "Healthy"]
    assert kubectl("get", "ec", "-o", "name") == "etcd.fleet.dev/registry\n"
    assert f"registry.{app.namespace}.svc:2379" in kubectl("get", "etcd", "-o", "wide")
    for words in ("Healthy", "registry-0 leads", "Creating", "Founded", "1 member formed cluster"):
        app.wait(f"it is told: {words}", lambda words=words: words in kubectl("describe", "etcd", "registry"), 60)  # type: ignore[misc]
    explained = kubectl("explain", "etcd.spec.members")
    assert "How many members" in explained
    assert "ENUM" in kubectl("explain", "etcd.spec.volume.onDelete") or "keep" in kubectl("explain", "etcd.spec.volume")


def test_the_api_server_refuses_what_cannot_be_in_our_words(unattended: App) -> None:
    app = unattended
    for spec, words in (
        ({"version": "3.5", "members": 2}, "must be odd, so that a majority can always be found"),
        ({"version": "3.3", "members": 1}, "must be a release of etcd 3.4, 3.5 or 3.6"),
        ({"version": "3.5", "members": 9}, "spec.members"),
        ({"version": "3.5", "config": {"heartbeatMs": 500}}, "at least five times the heartbeat"),
        ({"version": "3.5", "membres": 3}, "membres"),
        ({"version": "3.5", "volume": {"onDelete": "forget"}}, "spec.volume.onDelete"),
    ):
        with pytest.raises(ResourceError, match=re.escape(words)):
            app.want(**spec)
    app.want(version="3.5", members=1, storage="512Mi")
    with pytest.raises(ResourceError, match="cannot become smaller: volumes only grow"):
        app.change(storage="256Mi")
    with pytest.raises(ResourceError, match="can only be given when the app is new"):
        app.change(restoreFrom={"source": {"claim": {"claim": "backups"}}})
