"""How the founders of a new etcd get their data from a backup, before anything of them runs. Pure.

First one Job chooses the backup, since "latest" may be another one a minute later and members that begin with
different data are lost. The choice is written on the volumes' claims, and then there is a Job for each: nothing has
to be remembered, and a claim that was there before is somebody's data and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fleet.apps.etcd import names
from fleet.apps.etcd.backup import store
from fleet.apps.etcd.backup.outcome import is_complete, is_failed, read_record, troubles, why_failed
from fleet.apps.etcd.backup.place import PART
from fleet.apps.etcd.backup.pod import Manifest, container, job_spec, labels, operator_command
from fleet.apps.etcd.driver import MEMBER
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.names import metadata
from fleet.kit.pods import claim_template
from fleet.kit.template import hashed, mark_of
from fleet.model.app_settings import Claim, Restore
from fleet.model.types import release

SNAPSHOT = "fleet.dev/snapshot"  # the annotation of a claim that is filled from a backup: its name and checksum
DEADLINE_SECONDS = 6 * 3600
_WORK = "/work"
_LINK = f"{_WORK}/snapshot.db"


@dataclass(frozen=True, slots=True)
class Choice:
    """The backup that all founders start from."""

    snapshot: str
    checksum: str

    def __str__(self) -> str:
        return f"{self.snapshot} {self.checksum}"


@dataclass(frozen=True, slots=True)
class Restoration:
    """Where it is. `apply` and `delete` are the next step; `failed` needs a person."""

    state: Literal["working", "failed", "done", "not needed"]
    message: str
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Manifest, ...] = ()


def restoration(
    app: Etcd,
    restore: Restore,
    founders: Sequence[str],
    *,
    image: str,
    operator_image: str,
    version: str,
    jobs: Iterable[Manifest],
    pods: Iterable[Manifest],
    claims: Iterable[Manifest],
    origins: Sequence[str] = (),
) -> Restoration:
    """What to do next, until it is done. `founders` are pods; `jobs`, `pods` and `claims` are the app's, `origins` the
    namespaces whose backups it may start from beside its own."""
    there = {one["metadata"]["name"]: one for one in jobs}
    found = {one["metadata"]["name"]: one for one in claims}
    told = list(pods)
    wanted = [f"{kit_names.DATA}-{pod}" for pod in founders]
    filled = {name: _choice_of(found[name]) for name in wanted if name in found}
    if None in filled.values():
        return Restoration("not needed", "there are volumes with data; no backup is put back")
    choice = next((one for one in filled.values() if one), None)
    if choice is None:
        job = pick_job(app, restore, operator_image=operator_image, version=version, origins=origins)
        state = _judge(job, there, told, "a backup is chosen")
        if state.state != "done":
            return state
        choice = chosen(told, job["metadata"]["name"])
        if choice is None:  # its pod is gone, and with it what it said
            return Restoration("working", "a backup is chosen again", delete=(there[job["metadata"]["name"]],))
    tools = {"image": image, "operator_image": operator_image, "version": version}
    made = [restore_job(app, restore, pod, founders, choice, **tools, origins=origins) for pod in founders]
    missing = [claim(app, pod, choice) for pod in founders if f"{kit_names.DATA}-{pod}" not in found]
    if missing or any(job["metadata"]["name"] not in there for job in made):
        lacking = [job for job in made if job["metadata"]["name"] not in there]
        # All at once: the scheduler spreads pods that are there together.
        return Restoration("working", f"{choice.snapshot} is put back", apply=(*missing, *lacking))
    states = [_judge(job, there, told, f"{choice.snapshot} is put back") for job in made]
    for kind in ("failed", "working"):
        for state in states:
            if state.state == kind:
                return state
    return Restoration("done", f"{choice.snapshot} has been put back")


def leftovers(app: Etcd, jobs: Iterable[Manifest]) -> list[Manifest]:
    """The Jobs of a restore, which may go once the members have met."""
    own = {_job_name(app, "pick"), *(_job_name(app, str(number)) for number in range(names.MOST))}
    return [job for job in jobs if job["metadata"]["name"] in own]


def pick_job(
    app: Etcd, restore: Restore, *, operator_image: str, version: str, origins: Sequence[str] = ()
) -> Manifest:
    """Chooses the backup, and says which one in its last words."""
    pick = container(
        "pick", operator_image, _pick(app, restore, restore.snapshot, version, origins), [store.mount(read_only=True)]
    )
    volumes = [store.volume(restore.source, read_only=True)]
    return _job(app, "pick", job_spec(app, "restore", first=[], last=pick, volumes=volumes, seconds=DEADLINE_SECONDS))


def chosen(pods: Iterable[Manifest], job: str) -> Choice | None:
    """What the Job that chooses said; None if there is nothing to be heard."""
    for pod in pods:
        if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == job:
            record = read_record(pod, "pick")
            if record is not None:
                return Choice(record.name, record.checksum)
    return None


def claim(app: Etcd, pod: str, choice: Choice) -> Manifest:
    """A member's claim as its StatefulSet would make it, with a note of what is on its way into it."""
    template = claim_template(app, MEMBER.volumes[0])
    own = metadata(app, f"{kit_names.DATA}-{pod}", annotations={SNAPSHOT: str(choice)})
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": template["spec"]}


def restore_job(
    app: Etcd,
    restore: Restore,
    pod: str,
    founders: Sequence[str],
    choice: Choice,
    *,
    image: str,
    operator_image: str,
    version: str,
    origins: Sequence[str] = (),
) -> Manifest:
    """Fills the volume of one founder. It asks for what a member asks for: the volume will be where this ran."""
    kept = store.mount(read_only=True)
    data = {"name": kit_names.DATA, "mountPath": names.MOUNT}
    work = {"name": "work", "mountPath": _WORK}
    exact = [f"--checksum={choice.checksum}", f"--volume={names.MOUNT}"]
    requests = {"cpu": app.resources.cpu, "memory": app.resources.memory}
    size = {"requests": requests, "limits": {"memory": app.resources.memory_limit or app.resources.memory}}
    steps = [
        container(
            "pick",
            operator_image,
            [*_pick(app, restore, choice.snapshot, version, origins), *exact, f"--link={_LINK}"],
            [kept, data, work],
        ),
        container(
            "restore",
            image,
            _restore(app, pod, founders, version),
            [kept, data, {**work, "readOnly": True}],
            environment=[{"name": "ETCDCTL_API", "value": "3"}],
            resources=size,
        ),
    ]
    last = container(
        "place", operator_image, operator_command("place", f"--snapshot={choice.snapshot}", *exact), [data]
    )
    volumes: list[Manifest] = [
        store.volume(restore.source, read_only=True),
        {"name": kit_names.DATA, "persistentVolumeClaim": {"claimName": f"{kit_names.DATA}-{pod}"}},
        {"name": "work", "emptyDir": {"sizeLimit": "1Mi"}},
    ]
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(app, "restore")},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
    spec = job_spec(app, "restore", first=steps, last=last, volumes=volumes, seconds=DEADLINE_SECONDS, spread=spread)
    return _job(app, str(kit_names.ordinal(pod)), spec)


def _pick(app: Etcd, restore: Restore, snapshot: str, version: str, origins: Sequence[str]) -> list[str]:
    return operator_command(
        "pick",
        f"--directory={store.directory(restore.source)}",
        f"--snapshot={snapshot}",
        f"--app={app.name}",
        f"--namespace={app.namespace}",
        f"--version={version}",
        *(f"--origin={pattern}" for pattern in origins),
        *([] if isinstance(restore.source, Claim) else ["--recorded"]),
    )


def _restore(app: Etcd, pod: str, founders: Sequence[str], version: str) -> list[str]:
    """etcd's own tool; it has been a program of its own since 3.5. It checks etcd's checksum once more."""
    tool = "etcdutl" if release(version).series >= (3, 5) else "etcdctl"
    cluster = ",".join(f"{one}={names.peer_url(app, one)}" for one in founders)
    return [
        tool,
        "snapshot",
        "restore",
        _LINK,
        f"--name={pod}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={names.token(app)}",
        f"--initial-advertise-peer-urls={names.peer_url(app, pod)}",
        f"--data-dir={names.MOUNT}/{PART}",
    ]


def _job_name(app: Etcd, what: str) -> str:
    return f"{app.name}-restore-{what}"


def _job(app: Etcd, what: str, spec: dict[str, Any]) -> Manifest:
    own = {**metadata(app, _job_name(app, what)), "labels": labels(app, "restore")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": own,
        "spec": {**spec, "template": hashed(spec["template"])},
    }


def _judge(wanted: Manifest, there: dict[str, Manifest], pods: list[Manifest], doing: str) -> Restoration:
    name = wanted["metadata"]["name"]
    job = there.get(name)
    if job is None:
        return Restoration("working", doing, apply=(wanted,))
    if is_complete(job):
        return Restoration("done", doing)
    if mark_of(job["spec"]["template"]) != mark_of(wanted["spec"]["template"]):
        # Another image or version is wanted meanwhile; a Job cannot be changed, only made anew.
        return Restoration("working", doing, delete=(job,))
    if is_failed(job):
        return Restoration(
            "failed", f"{doing}, and it failed: {why_failed(job, pods)}; delete the Job {name} to try again"
        )
    own = [pod for pod in pods if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == name]
    held_up = next((words for pod in own if (words := troubles(pod))), "")
    return Restoration("working", f"{doing}: {held_up}" if held_up else doing)


def _choice_of(claim: Manifest) -> Choice | None:
    """None: it was not made for a backup."""
    text = (claim["metadata"].get("annotations") or {}).get(SNAPSHOT, "")
    snapshot, _, checksum = text.rpartition(" ")
    return Choice(snapshot, checksum) if snapshot else None
