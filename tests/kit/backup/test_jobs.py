"""The Jobs of types that are not backed up as etcd is: what runs where, with which volumes and Secrets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from fleet.kit.backup.outcome import backed_up, newest
from fleet.kit.backup.records import Record
from fleet.kit.backup.restoration import Choice, Restoration, claim, leftovers, restoration
from fleet.kit.backup.schedule import cron_job
from fleet.model.app_settings import Backup, Claim, Restore
from fleet.testing import Cluster
from tests.kit.backup.types import MARIA, NATS, POSTGRES, SEARCH, Maria, Nats, Postgres, Search, Server

BACKUP = Backup(schedule="0 3 * * *", to=Claim("backups"), keep=2)
RESTORE = Restore(Claim("backups"))
TOOLS = {"image": "engine:1", "operator_image": "operator:1", "version": "17.2"}
FOUNDERS = ("db-0", "db-1", "db-2")


def _pod(plan: Any, app: Server, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = cron_job(plan, app, BACKUP, **TOOLS, **options)["spec"]["jobTemplate"]["spec"]["template"]
    return made


def _steps(pod: dict[str, Any]) -> list[tuple[str, str]]:
    spec = pod["spec"]
    return [(one["name"], one["image"]) for one in (*spec["initContainers"], *spec["containers"])]


def test_a_tree_is_saved_by_the_engines_tool_with_its_secrets_and_kept_by_ours() -> None:
    pod = _pod(POSTGRES, Postgres("db", namespace="ns"), identity="7")
    assert _steps(pod) == [("prepare", "operator:1"), ("save", "engine:1"), ("keep", "operator:1")]
    save, keep = pod["spec"]["initContainers"][1], pod["spec"]["containers"][0]
    assert re.fullmatch(r"--pgdata=/store/\.db\.[0-9a-f]{10}\.\$\(JOB_NAME\)\.part", save["command"][1])
    assert {"name": "PGPASSFILE", "value": "/etc/operator/pgpass"} in save["env"]
    assert {"name": "operator", "mountPath": "/etc/operator", "readOnly": True} in save["volumeMounts"]
    assert {"name": "operator", "secret": {"secretName": "db-operator", "defaultMode": 0o440}} in pod["spec"]["volumes"]
    assert "--kind=Postgres" in keep["command"] and pod["spec"]["securityContext"]["fsGroup"] == 999
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "postgres-backup"
    assert "affinity" not in pod["spec"]


def test_a_tool_that_must_be_beside_the_data_runs_there_and_reads_it() -> None:
    app = Maria("db", namespace="ns")
    spec = _pod(MARIA, app, beside="db-1")["spec"]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"statefulset.kubernetes.io/pod-name": "db-1"}
    assert {"name": "disk", "persistentVolumeClaim": {"claimName": "disk-db-1"}} in spec["volumes"]
    mounted = {one["name"]: [mount["name"] for mount in one["volumeMounts"]] for one in spec["initContainers"]}
    assert mounted == {"prepare": ["store"], "save": ["store", "disk"]}
    data = spec["initContainers"][1]["volumeMounts"][1]
    assert data == {"name": "disk", "mountPath": "/var/lib/mysql", "readOnly": True}
    with pytest.raises(ValueError, match="needs the member's pod"):
        _pod(MARIA, app)


def test_what_the_engine_keeps_itself_is_only_noted() -> None:
    pod = _pod(SEARCH, Search("db", namespace="ns"))
    assert _steps(pod) == [("save", "engine:1"), ("keep", "operator:1")]
    assert pod["spec"]["initContainers"][0]["command"] == ["snapshot", "create", "$(JOB_NAME)"]
    assert pod["spec"]["containers"][0]["command"][5:7] == ["note", "--kind=Search"]
    assert pod["spec"]["volumes"] == []


def _next(plan: Any, app: Server, **live: Any) -> Restoration:
    options: dict[str, Any] = {**TOOLS, "jobs": [], "pods": [], "claims": [], **live}
    return restoration(plan, app, RESTORE, FOUNDERS, **options)


def _ended(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def _picker(kind: str, name: str) -> dict[str, Any]:
    record = Record(name, "old", "ns", "", "2031-05-01T03:00:00Z", "17.2", "17", "", 1, "sha256:1", "p", kind)
    ended = {"exitCode": 0, "message": record.write()}
    status = {"containerStatuses": [{"name": "pick", "state": {"terminated": ended}}]}
    return {"metadata": {"labels": {"batch.kubernetes.io/job-name": "db-restore-pick"}}, "status": status}


def test_a_seed_alone_is_filled_and_the_others_find_nothing() -> None:
    app = Postgres("db", namespace="ns")
    pick = _ended(_next(POSTGRES, app).apply[0])
    step = _next(POSTGRES, app, jobs=[pick], pods=[_picker("Postgres", "old-1.base")])
    assert [(one["kind"], one["metadata"]["name"]) for one in step.apply] == [
        ("PersistentVolumeClaim", "disk-db-0"),
        ("Job", "db-restore-0"),
    ]
    job = step.apply[1]
    pod = job["spec"]["template"]
    assert _steps(pod) == [("pick", "operator:1"), ("copy", "operator:1"), ("place", "operator:1")]
    assert "--backup=/work/snapshot.base" in pod["spec"]["initContainers"][1]["command"]
    assert _next(POSTGRES, app, jobs=[_ended(job)], claims=[step.apply[0]]).state == "done"
    assert leftovers(app, [pick, job, {"metadata": {"name": "db-restore-me-0"}}]) == [pick, job]


def test_a_job_that_is_made_anew_waits_for_the_pod_of_the_one_before() -> None:
    """Its Job is gone at once; the pod has half a minute to end, and two of them would write to one volume."""
    app = Postgres("db", namespace="ns")
    live = [claim(POSTGRES, app, "db-0", Choice("old-1.base", "sha256:1"))]
    (job,) = _next(POSTGRES, app, claims=live).apply
    assert _next(POSTGRES, app, jobs=[job], claims=live, operator_image="operator:2").delete == (job,)
    pod = {"metadata": {"name": "p-1", "labels": {"batch.kubernetes.io/job-name": "db-restore-0"}}}
    waiting = _next(POSTGRES, app, claims=live, pods=[{**pod, "status": {"phase": "Running"}}])
    assert (waiting.state, waiting.apply) == ("working", ()) and "waits for the end of p-1" in waiting.message
    assert _next(POSTGRES, app, claims=live, pods=[{**pod, "status": {"phase": "Failed"}}]).apply == (job,)


def test_a_seed_is_not_filled_where_any_founder_has_data() -> None:
    app = Postgres("db", namespace="ns")
    live = claim(POSTGRES, app, "db-2", Choice("x", "y"))
    del live["metadata"]["annotations"]
    assert _next(POSTGRES, app, claims=[live]).state == "not needed"


def test_members_that_run_get_the_backup_through_the_network() -> None:
    app = Nats("db", namespace="ns")
    pick = _ended(_next(NATS, app).apply[0])
    live = {"jobs": [pick], "pods": [_picker("Nats", "old-1.streams")], "claims": [{"metadata": {"name": "disk-db-0"}}]}
    (job,) = _next(NATS, app, **live).apply
    pod = job["spec"]["template"]
    assert _steps(pod) == [("pick", "operator:1"), ("restore", "engine:1")]
    assert pod["spec"]["containers"][0]["command"][:4] == ["nats", "account", "restore", "/work/snapshot.streams"]
    assert [one["name"] for one in pod["spec"]["volumes"]] == ["store", "work", "nats"]
    assert job["metadata"]["annotations"]["fleet.dev/snapshot"] == "old-1.streams sha256:1"
    later = _picker("Nats", "newer.streams")
    assert _next(NATS, app, jobs=[pick, job], pods=[later]).apply == (), "the choice stays"
    assert _next(NATS, app, jobs=[_ended(job)]).state == "done"


def test_what_is_in_an_engines_repository_is_named_and_not_picked() -> None:
    app = Search("db", namespace="ns")
    (job,) = _next(SEARCH, app).apply
    assert _steps(job["spec"]["template"]) == [("restore", "engine:1")]
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["snapshot", "restore", "latest"]
    assert _next(SEARCH, app, jobs=[_ended(job)]).state == "done"


def test_the_api_server_takes_every_manifest_as_it_is(cluster: Cluster) -> None:
    postgres, nats = Postgres("db", namespace="ns"), Nats("db", namespace="ns")
    chosen = [claim(POSTGRES, postgres, "db-0", Choice("old-1.base", "sha256:1"))]
    made = [
        cron_job(MARIA, Maria("db", namespace="ns"), BACKUP, beside="db-1", **TOOLS),
        cron_job(SEARCH, Search("db", namespace="ns"), BACKUP, **TOOLS),
        *_next(POSTGRES, postgres).apply,
        *_next(POSTGRES, postgres, claims=chosen).apply,
        *_next(NATS, nats, jobs=[_ended(_next(NATS, nats).apply[0])], pods=[_picker("Nats", "old-1.streams")]).apply,
        *_next(SEARCH, Search("db", namespace="ns")).apply,
    ]
    for one in made:
        one["metadata"]["namespace"] = cluster.namespace
        options = ("--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-")
        assert cluster.kubectl("apply", *options, input=json.dumps(one)).endswith(f"{one['metadata']['name']}\n")


def test_the_status_says_no_more_than_is_known_of_a_backup() -> None:
    record = Record("j-1", "db", "ns", "", "2031-05-01T03:00:00Z", "2.1", "", "", 0, "", "s3://b/j-1", "Search")
    ended = {"exitCode": 0, "message": record.write()}
    status = {"containerStatuses": [{"name": "keep", "state": {"terminated": ended}}]}
    last = newest([{"metadata": {"labels": {"fleet.dev/task": "backup"}}, "status": status}])
    assert last and (last.size, last.checksum, last.position) == (None, None, None)
    assert backed_up([], [], last)[3] == "s3://b/j-1 is complete"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"suffix": "json"}, "suffix"),
        ({"suffix": "tar.gz"}, "suffix"),
        ({"verify": ""}, "read back"),
        ({"how": "file"}, "put_back"),
        ({"restore": "after"}, "put_back"),
        ({"how": "own"}, "repository"),
    ],
)
def test_a_plan_that_no_job_could_carry_out_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(POSTGRES, **changes)
