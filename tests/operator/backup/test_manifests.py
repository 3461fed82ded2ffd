"""The Jobs of backups and restores, what becomes of them, and what is read out of them: decisions on plain data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.driver import DRIVER
from fleet.kit import names
from fleet.kit.backup import stores
from fleet.kit.backup.outcome import backed_up, newest, read_manifest, recoverable
from fleet.kit.backup.records import Record
from fleet.kit.backup.restoration import Choice, Restoration, claim, leftovers, pick_job, restoration
from fleet.kit.backup.schedule import backup_job, cron_job
from fleet.kit.backup.trial import trial_cron_job
from fleet.kit.permissions import place
from fleet.kit.status import LastBackup
from fleet.kit.workload.pods import pod_template, stateful_set, surroundings
from fleet.model.app_settings import NFS, S3, Backup, Claim, Restore, Volume
from fleet.testing import Cluster

RECORD = Record(
    name="registry-20310501T030000Z-3.5.1.db",
    app="registry",
    namespace="ns",
    identity="abc",
    time="2031-05-01T03:00:00Z",
    version="3.5.1",
    data_version="3.5",
    position="42",
    size=20512,
    checksum="sha256:0123",
    place="claim/backups/registry-20310501T030000Z-3.5.1.db",
    kind="Etcd",
)
CHOICE = Choice(RECORD.name, RECORD.checksum)
RESTORE = Restore(Claim("backups"))
FOUNDERS = ("copy-0", "copy-1", "copy-2")


def _app(**fields: Any) -> Etcd:
    options = {
        "namespace": "ns",
        "version": "3.5",
        "backup": Backup(schedule="0 3 * * *", to=Claim("backups")),
        **fields,
    }
    return Etcd("registry", **options)


def _cron_job(app: Etcd, **options: Any) -> dict[str, Any]:
    assert app.backup
    given = {"image": "etcd:3.5", "operator_image": "operator:1", "version": "3.5.1", "identity": "abc", **options}
    return cron_job(PLAN, app, app.backup, **given)


def _pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    made: dict[str, Any] = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    return made


def test_backups_follow_the_schedule_and_never_overlap() -> None:
    app = _app(backup=Backup(schedule="*/5 * * * *", to=Claim("backups"), suspended=True))
    spec = _cron_job(app)["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["suspend"]) == ("*/5 * * * *", "Etc/UTC", True)
    assert spec["concurrencyPolicy"] == "Forbid"
    job = spec["jobTemplate"]["spec"]
    assert job["backoffLimit"] and job["activeDeadlineSeconds"] and job["podReplacementPolicy"] == "Failed"


def test_no_service_or_budget_takes_a_backup_or_restore_for_a_member() -> None:
    app = _app()
    for pod in (_pod_of(_cron_job(app)), *(_pod_of(job) for job in _restore_jobs())):
        labels = pod["metadata"]["labels"]
        selectors = [one["spec"]["selector"] for one in surroundings(DRIVER, app) if one["kind"] == "Service"]
        selectors.append(
            stateful_set(DRIVER, app, pod_template(DRIVER, app, "etcd"), replicas=3)["spec"]["selector"]["matchLabels"]
        )
        for selector in selectors:
            assert not selector.items() <= labels.items()
        assert labels["app.kubernetes.io/managed-by"] == "fleet-operator"


def _restore_jobs() -> list[dict[str, Any]]:
    step = _next(claims=[])
    picked = _ended(step.apply[0])
    return [step.apply[0], *(one for one in _next(jobs=[picked], pods=[_picker()]).apply if one["kind"] == "Job")]


def test_pods_have_no_rights_and_cannot_write_to_their_root() -> None:
    for pod in (_pod_of(_cron_job(_app())), *map(_pod_of, _restore_jobs())):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False and spec["restartPolicy"] == "Never"
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in (*spec["initContainers"], *spec["containers"]):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"] and container["resources"]["limits"]


def test_the_snapshot_is_taken_with_the_apps_certificates_through_its_service() -> None:
    prepare, save = _pod_of(_cron_job(_app()))["spec"]["initContainers"]
    assert prepare["image"] == "operator:1" and save["image"] == "etcd:3.5"
    assert save["command"][:2] == ["etcdctl", "--endpoints=https://registry.ns.svc:2379"]
    assert "--cert=/etc/etcd/client/tls.crt" in save["command"]
    assert save["command"][-3:-1] == ["snapshot", "save"]
    assert re.fullmatch(r"/store/\.registry\.[0-9a-f]{10}\.\$\(JOB_NAME\)\.part", save["command"][-1])
    secret = _pod_of(_cron_job(_app()))["spec"]["volumes"][1]
    assert secret["secret"]["secretName"] == "registry-connection"


def test_without_tls_there_are_no_certificates() -> None:
    pod = _pod_of(_cron_job(_app(tls={"enabled": False})))["spec"]
    assert [one["name"] for one in pod["volumes"]] == ["store"]
    assert pod["initContainers"][1]["command"][:4] == [
        "etcdctl",
        "--endpoints=http://registry.ns.svc:2379",
        "snapshot",
        "save",
    ]


def test_each_kind_of_store_is_mounted_in_its_way() -> None:
    claim = Claim("backups", folder="a/b")
    assert stores.volume(claim, read_only=True)["persistentVolumeClaim"] == {"claimName": "backups", "readOnly": True}
    assert (stores.directory(claim), place(claim)) == ("/store/a/b", "claim/backups/a/b")
    share = NFS("files.example", "/exports/etcd")
    assert stores.volume(share, read_only=False)["nfs"]["server"] == "files.example"
    assert (stores.directory(share), place(share)) == ("/store", "nfs://files.example/exports/etcd")


def test_a_bucket_is_reached_by_our_own_steps_alone_and_engines_see_a_scratch_volume() -> None:
    bucket = S3(
        "backups/orders", secret="s3", endpoint="https://s3.test:9000", region="eu-1", style="host", encryption="key"
    )
    app = _app(backup=Backup(schedule="0 3 * * *", to=bucket, keep_for="30d"))
    spec = _pod_of(_cron_job(app))["spec"]
    told = [
        *("--bucket=backups/orders", "--endpoint=https://s3.test:9000", "--region=eu-1", "--style=host"),
        *("--secret=s3", "--encryption=key"),
    ]
    prepare, save = spec["initContainers"]
    (keep,) = spec["containers"]
    for ours in (prepare, keep):
        assert [word for word in ours["command"] if word in told] == told
        secrets = {one["name"]: one["valueFrom"].get("secretKeyRef") for one in ours["env"]}
        assert secrets["AWS_SECRET_ACCESS_KEY"] == {"name": "s3", "key": "AWS_SECRET_ACCESS_KEY"}
        assert secrets["AWS_SESSION_TOKEN"] == {"name": "s3", "key": "AWS_SESSION_TOKEN", "optional": True}
        assert secrets["FLEET_STORE_CA"] == {"name": "s3", "key": "ca.crt", "optional": True}
        assert secrets["FLEET_BACKUP_KEY"] == {"name": "key", "key": "key"}
    assert "--keep-for=2592000" in keep["command"]
    assert f"--place={place(bucket)}" in keep["command"] and place(bucket) == "https://s3.test:9000/backups/orders"
    # The engine needs no key of it.
    assert not [one for one in save["env"] if "secretKeyRef" in one.get("valueFrom", {})]
    assert spec["volumes"][0] == {"name": "store", "emptyDir": {}}
    pick = pick_job(PLAN, app, Restore(bucket), operator_image="operator:1", version="3.5.1")
    (chooser,) = _pod_of(pick)["spec"]["containers"]
    assert chooser["volumeMounts"] == [{"name": "store", "mountPath": "/store", "readOnly": False}]
    assert set(told) < set(chooser["command"]) and "--recorded" in chooser["command"]


def test_a_backup_by_hand_is_the_job_that_the_schedule_would_make() -> None:
    scheduled = _cron_job(_app())
    scheduled["metadata"]["uid"] = "1-2-3"
    job = backup_job(scheduled, datetime(2031, 5, 1, 3, 4, 5, tzinfo=UTC))
    assert job["metadata"]["name"] == "registry-backup-310501030405"
    assert job["metadata"]["labels"] == scheduled["spec"]["jobTemplate"]["metadata"]["labels"]
    assert job["spec"] == scheduled["spec"]["jobTemplate"]["spec"]
    assert job["metadata"]["ownerReferences"][0]["uid"] == "1-2-3"


def test_a_trial_restores_the_apps_own_newest_backup_into_a_volume_that_goes_with_the_pod() -> None:
    app = _app(backup=Backup(schedule="0 3 * * *", to=S3("b/f", secret="s3"), trial="0 6 * * 0"))
    assert app.backup
    tools = {"image": "etcd:3.5", "operator_image": "operator:1", "version": "3.5.1", "identity": "abc"}
    cron = trial_cron_job(PLAN, app, app.backup, **tools)
    assert cron and (cron["metadata"]["name"], cron["spec"]["schedule"]) == ("registry-trial", "0 6 * * 0")
    spec = _pod_of(cron)["spec"]
    pick, restore = spec["initContainers"]
    (prove,) = spec["containers"]
    assert {"--snapshot=latest", "--identity=abc", "--app=registry", "--bucket=b/f"} < set(pick["command"])
    assert restore["command"][0] == "etcdutl" and "--data-dir=/trial/data" in restore["command"]
    assert restore["image"] == "etcd:3.5" and pick["image"] == prove["image"] == "operator:1"
    assert [one["name"] for one in spec["volumes"] if "emptyDir" in one] == ["store", "work", "trial"]
    assert not [one for one in spec["volumes"] if "persistentVolumeClaim" in one], "no member's volume"
    assert _pod_of(cron)["metadata"]["labels"]["fleet.dev/task"] == "trial"
    mounted = trial_cron_job(PLAN, _app(), Backup(schedule="@daily", to=Claim("b"), trial="@weekly"), **tools)
    assert mounted and all(
        mount["readOnly"]
        for container in _pod_of(mounted)["spec"]["initContainers"]
        for mount in container["volumeMounts"]
        if mount["name"] == "store"
    )
    assert trial_cron_job(PLAN, _app(), Backup(schedule="@daily", to=Claim("b")), **tools) is None


def test_a_secret_that_is_not_there_is_told_while_the_job_waits_for_it() -> None:
    known = read_manifest(_backup_pod(RECORD))
    good, waits = _backup_job("Complete", "2031-05-01T03:00:09Z"), _backup_job("Complete", "", "job-2")
    waits["status"] = {"active": 1}
    pod = _backup_pod(None, job="job-2")
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "s3" not found'}
    pod["status"] = {"initContainerStatuses": [{"name": "prepare", "state": {"waiting": waiting}}]}
    told = ("BackedUp", "False", "BackupWaits", 'job-2 waits: prepare: secret "s3" not found')
    assert backed_up([good, waits], [pod], known) == told
    waiting["reason"] = "PodInitializing"
    assert backed_up([good, waits], [pod], known)[1:3] == ("True", "BackupComplete")


def test_the_condition_says_what_is_recoverable() -> None:
    def job(end: str, time: str, name: str) -> dict[str, Any]:
        made = _backup_job(end, time, name)
        made["metadata"]["labels"] = {"fleet.dev/task": "trial"}
        return made

    pod = _backup_pod(RECORD, job="t-1")
    pod["metadata"]["labels"]["fleet.dev/task"] = "trial"
    pod["status"]["containerStatuses"][0]["name"] = "prove"
    good, bad = job("Complete", "2031-05-04T06:00:00Z", "t-1"), job("Failed", "2031-05-11T06:00:00Z", "t-2")
    backup = _backup_job("Complete", "2031-05-30T03:00:00Z")
    assert recoverable([backup], [pod])[1:3] == ("Unknown", "NoTrial")
    told = f"{RECORD.place} was restored on trial at 2031-05-04T06:00:00Z, reaching 42"
    assert recoverable([backup, good], [pod]) == ("Recoverable", "True", "TrialComplete", told)
    assert recoverable([good], [])[1:] == (
        "True",
        "TrialComplete",
        "t-1 restored the newest backup, at 2031-05-04T06:00:00Z",
    )
    assert recoverable([good, bad], [pod])[1:] == ("False", "TrialFailed", "t-2 failed: backoff limit")
    assert backed_up([good, bad], [pod], None)[2] == "NoBackup", "a trial is none"


def test_names_stay_short_enough_for_the_longest_app() -> None:
    name = _cron_job(Etcd("a" * 40, version="3.5", backup=_app().backup))["metadata"]["name"]
    assert len(name) <= 52  # what Kubernetes allows, since it adds to it


def _backup_pod(record: Record | None, exit_code: int = 0, message: str = "", job: str = "job-1") -> dict[str, Any]:
    ended = {"exitCode": exit_code, "message": record.write() if record else message}
    return {
        "metadata": {"name": "pod", "labels": {"fleet.dev/task": "backup", "batch.kubernetes.io/job-name": job}},
        "status": {"containerStatuses": [{"name": "keep", "state": {"terminated": ended}}]},
    }


def _backup_job(end: str, time: str, name: str = "job-1") -> dict[str, Any]:
    conditions = [{"type": end, "status": "True", "lastTransitionTime": time, "message": "backoff limit"}]
    return {
        "metadata": {"name": name, "labels": {"fleet.dev/task": "backup"}},
        "status": {"conditions": conditions},
    }


def test_the_last_backup_is_read_from_the_pods_last_words() -> None:
    last = read_manifest(_backup_pod(RECORD))
    assert last == LastBackup(
        time=RECORD.time, place=RECORD.place, version="3.5.1", size=20512, checksum="sha256:0123", position="42"
    )


@pytest.mark.parametrize(
    "pod",
    [
        _backup_pod(RECORD, exit_code=1),
        _backup_pod(None, message="not json"),
        _backup_pod(None, message=json.dumps({"time": "2031"})),
        {**_backup_pod(RECORD), "metadata": {"name": "registry-0", "labels": {}}},
        {"metadata": {"name": "new", "labels": {"fleet.dev/task": "backup"}}},
    ],
)
def test_other_pods_tell_of_no_backup(pod: dict[str, Any]) -> None:
    assert read_manifest(pod) is None


def test_the_newest_backup_counts_even_when_its_pod_is_gone() -> None:
    older, newer = _backup_pod(RECORD), _backup_pod(replace(RECORD, time="2031-05-02T03:00:00Z"))
    last = newest([newer, older])
    assert last and last.time == "2031-05-02T03:00:00Z"
    assert newest([], last) == newest([older], last) == last
    assert newest([]) is None


def test_the_condition_says_how_the_last_backup_ended() -> None:
    known = read_manifest(_backup_pod(RECORD))
    good, bad = _backup_job("Complete", "2031-05-01T03:00:09Z"), _backup_job("Failed", "2031-05-02T03:00:00Z", "job-2")
    assert backed_up([], [], None)[1:3] == ("Unknown", "NoBackup")
    assert backed_up([good], [], known)[1:3] == ("True", "BackupComplete")
    pod = _backup_pod(None, exit_code=4, message="first line\n/store: No space left on device\n", job="job-2")
    assert backed_up([good, bad], [pod], known) == (
        "BackedUp",
        "False",
        "BackupFailed",
        "job-2 failed: keep: /store: No space left on device",
    )
    pod["status"]["containerStatuses"][0]["name"] = "save"
    assert backed_up([bad], [pod], known)[3] == "job-2 failed: save: ‹/store: No space left on device›", "not our words"
    again = _backup_job("Complete", "2031-05-03T03:00:00Z", "job-3")
    assert backed_up([bad, again], [pod], known)[1] == "True"


def _next(**there: Any) -> Restoration:
    app = Etcd("copy", namespace="ns", version="3.5", restore_from=RESTORE)
    options = {"image": "etcd:3.5", "operator_image": "operator:1", "version": "3.5.1"}
    given = {"jobs": [], "pods": [], "claims": [], **options, **there}
    return restoration(PLAN, app, RESTORE, FOUNDERS, **given)


def _ended(job: dict[str, Any], end: str = "Complete") -> dict[str, Any]:
    return {**job, "status": {"conditions": [{"type": end, "status": "True", "message": "backoff limit"}]}}


def _picker(record: Record = RECORD) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "labels": {"batch.kubernetes.io/job-name": "copy-restore-pick"}},
        "status": {
            "containerStatuses": [{"name": "pick", "state": {"terminated": {"exitCode": 0, "message": record.write()}}}]
        },
    }


def test_a_restore_chooses_once_fills_every_volume_and_is_done() -> None:
    first = _next()
    assert first.state == "working" and [one["metadata"]["name"] for one in first.apply] == ["copy-restore-pick"]
    assert _next(jobs=first.apply).apply == ()
    pick = _ended(first.apply[0])
    second = _next(jobs=[pick], pods=[_picker()])
    made = {(one["kind"], one["metadata"]["name"]) for one in second.apply}
    assert made == {("PersistentVolumeClaim", f"data-{pod}") for pod in FOUNDERS} | {
        ("Job", f"copy-restore-{number}") for number in range(3)
    }
    claims = [one for one in second.apply if one["kind"] == "PersistentVolumeClaim"]
    jobs = [one for one in second.apply if one["kind"] == "Job"]
    waiting = _next(jobs=[pick, *jobs], pods=[_picker()], claims=claims)
    assert (waiting.state, waiting.apply, waiting.delete) == ("working", (), ())
    done = _next(jobs=[pick, *map(_ended, jobs)], claims=claims)
    assert done.state == "done" and RECORD.name in done.message
    app = Etcd("copy", namespace="ns", version="3.5")
    assert len(leftovers(app, [pick, *jobs, _backup_job("Complete", "")])) == 4


def test_the_choice_stays_once_a_claim_has_it() -> None:
    """Members that begin with different data would be lost; so a newer backup, or a Job that went, changes nothing."""
    app = Etcd("copy", namespace="ns", version="3.5")
    newer = _picker(replace(RECORD, name="newer.db", checksum="sha256:9"))
    step = _next(claims=[claim(PLAN, app, "copy-1", CHOICE)], pods=[newer])
    for one in step.apply:
        if one["kind"] == "Job":
            commands = json.dumps(one["spec"]["template"]["spec"])
            assert f"--snapshot={RECORD.name}" in commands and "newer.db" not in commands
        else:
            assert one["metadata"]["annotations"]["fleet.dev/snapshot"] == str(CHOICE)
    assert len(step.apply) == 5


def test_a_choice_that_nobody_remembers_is_made_again() -> None:
    pick = _ended(_next().apply[0])
    assert _next(jobs=[pick]).delete == (pick,)


def test_volumes_that_were_there_before_are_left_alone() -> None:
    app = Etcd("copy", namespace="ns", version="3.5")
    old = claim(PLAN, app, "copy-0", CHOICE)
    del old["metadata"]["annotations"]
    step = _next(claims=[old])
    assert (step.state, step.apply) == ("not needed", ())


def test_a_restore_that_fails_says_why_and_how_to_go_on() -> None:
    pick = _ended(_next().apply[0], "Failed")
    pod = _picker()
    pod["status"]["containerStatuses"][0]["state"]["terminated"] = {
        "exitCode": 6,
        "message": "there is no complete backup",
    }
    step = _next(jobs=[pick], pods=[pod])
    assert step.state == "failed"
    assert "there is no complete backup" in step.message and "delete the Job copy-restore-pick" in step.message


def test_a_job_of_another_image_is_made_anew_unless_it_is_done() -> None:
    pick = _next().apply[0]
    assert _next(jobs=[pick], operator_image="operator:2").delete == (pick,)
    done = _ended(pick)
    assert _next(jobs=[done], pods=[_picker()], operator_image="operator:2").delete == ()


def test_what_holds_a_restore_up_is_told() -> None:
    pick, pod = _next().apply[0], _picker()
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    step = _next(jobs=[pick], pods=[pod])
    assert step.state == "working" and "pick: ErrImagePull: no such image" in step.message


def test_the_tool_that_restores_is_the_versions_own() -> None:
    for version, tool in (("3.4.37", "etcdctl"), ("3.5.1", "etcdutl"), ("3.6.0", "etcdutl")):
        made = _next(claims=[claim(PLAN, Etcd("copy", version="3.5"), "copy-0", CHOICE)], version=version).apply
        job = next(one for one in made if one["kind"] == "Job")
        restore = job["spec"]["template"]["spec"]["initContainers"][1]["command"]
        assert restore[:4] == [tool, "snapshot", "restore", "/work/snapshot.db"]
        urls = ",".join(f"{pod}=https://{pod}.copy-peers.ns.svc:2380" for pod in FOUNDERS)
        assert f"--initial-cluster={urls}" in restore and "--initial-cluster-token=ns-copy" in restore


def test_the_api_server_takes_every_manifest_as_it_is(cluster: Cluster) -> None:
    app = _app(namespace=cluster.namespace)
    scheduled = _cron_job(app)
    made = [scheduled, backup_job(scheduled, datetime.now(UTC)), *_next().apply]
    made += _next(claims=[claim(PLAN, Etcd("copy", version="3.5"), "copy-1", CHOICE)]).apply
    for one in made:
        one["metadata"]["namespace"] = cluster.namespace
        answer = json.loads(
            cluster.kubectl(
                "apply",
                "--server-side",
                "--dry-run=server",
                "--validate=strict",
                "-o",
                "json",
                "-f",
                "-",
                input=json.dumps(one),
            )
        )
        assert answer["metadata"]["name"] == one["metadata"]["name"]


def test_a_claim_is_the_one_that_the_stateful_set_would_make() -> None:
    app = Etcd("copy", namespace="ns", version="3.5", storage="2Gi", volume=Volume(storage_class="fast"))
    made = claim(PLAN, app, "copy-0", CHOICE)
    wanted = stateful_set(DRIVER, app, pod_template(DRIVER, app, "etcd"), replicas=3)["spec"]["volumeClaimTemplates"][0]
    assert made["metadata"]["name"] == f"{wanted['metadata']['name']}-copy-0" == names.claim(app, "copy-0")
    assert made["metadata"]["labels"] == wanted["metadata"]["labels"] and made["spec"] == wanted["spec"]
