"""How members of a new app get their data from a backup. Pure.

First one Job chooses the backup, since "latest" may be another one a minute later and members that begin with
different data are lost. Where volumes are filled before anything runs, the choice is written on their claims, and
then there is a Job for each: nothing has to be remembered, and a claim that was there before holds data and is left
alone. Where a backup is put into members that run, there is one Job, and the choice is written on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.kit import names
from fleet.kit.backup import stores
from fleet.kit.backup.jobs import (
    Manifest,
    claim_name,
    data_mount,
    data_volume,
    job_spec,
    labels,
    operator_command,
)
from fleet.kit.backup.outcome import read_record
from fleet.kit.backup.plan import A, BackupPlan, PutBack
from fleet.kit.backup.volumes import part_of_data
from fleet.kit.workload.jobs import (
    container,
    engine_container,
    is_complete,
    is_failed,
    secret_volumes,
    troubles,
    why_failed,
)
from fleet.kit.workload.pods import claim_template
from fleet.kit.workload.template import hashed, mark_of
from fleet.model.app_settings import Restore

SNAPSHOT = "fleet.dev/snapshot"  # the annotation of a claim that is filled from a backup: its name and checksum
DEADLINE_SECONDS = 6 * 3600
_WORK = "/work"


@dataclass(frozen=True, slots=True)
class Choice:
    """The backup that all members start from."""

    snapshot: str
    checksum: str

    def __str__(self) -> str:
        return f"{self.snapshot} {self.checksum}"


@dataclass(frozen=True, slots=True)
class Restoration:
    """How far a restore is. `apply` and `delete` are the next step; `failed` needs a person."""

    state: Literal["working", "failed", "done", "not needed"]
    message: str
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Manifest, ...] = ()


def restoration(
    plan: BackupPlan[A],
    app: A,
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
    """Return what to do next, until it is done. `founders` are pods; `jobs`, `pods` and `claims` are the app's,
    `origins` the namespaces whose backups it may start from beside its own.

    Where members run already (`restore="after"`), the caller asks once they do, and remembers that it is done before
    it deletes the `leftovers`: the Jobs are all that tells it from a restore that has not begun.
    """
    live_jobs = {job["metadata"]["name"]: job for job in jobs}
    live_claims = {claim["metadata"]["name"]: claim for claim in claims}
    live_pods = list(pods)
    tools = {"image": image, "operator_image": operator_image, "version": version}
    targets = list(founders if plan.restore == "volumes" else founders[:1])
    if plan.restore == "after":
        marked = [live_jobs[name] for pod in targets if (name := _job_name(app, str(names.ordinal(pod)))) in live_jobs]
    else:
        marked = [live_claims[name] for pod in founders if (name := claim_name(plan, app, pod)) in live_claims]
    choices = [_choice_of(thing) for thing in marked]
    if None in choices:
        return Restoration("not needed", "there are volumes with data; no backup is put back")
    choice = next((choice for choice in choices if choice), None)
    if choice is None and plan.how == "own":
        choice = Choice(restore.snapshot, "")  # the engine's own repository, which only its tools can look into
    if choice is None:
        job = pick_job(plan, app, restore, operator_image=operator_image, version=version, origins=origins)
        state = _judge(job, live_jobs, live_pods, "a backup is chosen")
        if state.state != "done":
            return state
        choice = chosen(live_pods, job["metadata"]["name"])
        if choice is None:  # its pod is gone, and with it what it said
            return Restoration("working", "a backup is chosen again", delete=(live_jobs[job["metadata"]["name"]],))
    made = [restore_job(plan, app, restore, pod, founders, choice=choice, **tools, origins=origins) for pod in targets]
    lacking = [job for job in made if job["metadata"]["name"] not in live_jobs]
    empty = [pod for pod in targets if plan.restore != "after" and claim_name(plan, app, pod) not in live_claims]
    missing = [claim(plan, app, pod, choice) for pod in empty]
    if writing := [name for job in lacking for name in _at_work(live_pods, job["metadata"]["name"])]:
        return Restoration("working", f"{choice.snapshot} is put back: waits for the end of {', '.join(writing)}")
    if missing or lacking:
        # All at once: the scheduler spreads pods that are there together.
        return Restoration("working", f"{choice.snapshot} is put back", apply=(*missing, *lacking))
    states = [_judge(job, live_jobs, live_pods, f"{choice.snapshot} is put back") for job in made]
    for kind in ("failed", "working"):
        for state in states:
            if state.state == kind:
                return state
    return Restoration("done", f"{choice.snapshot} has been put back")


def leftovers(app: A, jobs: Iterable[Manifest]) -> list[Manifest]:
    """Return the Jobs of a restore, which may go once the members have met."""
    own = re.compile(rf"{re.escape(_job_name(app, ''))}(pick|[0-9]+)")
    return [job for job in jobs if own.fullmatch(job["metadata"]["name"])]


def pick_job(
    plan: BackupPlan[A], app: A, restore: Restore, *, operator_image: str, version: str, origins: Sequence[str] = ()
) -> Manifest:
    """Return the Job that chooses the backup, and says which one in its last words."""
    command = pick_command(plan, app, restore, snapshot=restore.snapshot, version=version, origins=origins)
    pick = container(
        "pick",
        operator_image,
        command,
        [stores.mount(read_only=not stores.is_fetched(restore.source))],
        environment=stores.environment(restore.source),
    )
    volumes = [stores.volume(restore.source, read_only=True)]
    spec = job_spec(plan, app, "restore", first=[], last=pick, volumes=volumes, seconds=DEADLINE_SECONDS)
    return _job(plan, app, "pick", spec)


def chosen(pods: Iterable[Manifest], job: str) -> Choice | None:
    """Return what the Job that chooses said; None if there is nothing to be heard."""
    for pod in pods:
        if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == job:
            record = read_record(pod, "pick")
            if record is not None:
                return Choice(record.name, record.checksum)
    return None


def claim(plan: BackupPlan[A], app: A, pod: str, choice: Choice) -> Manifest:
    """Return a member's claim as its StatefulSet would make it, with a note of what is on its way into it."""
    own = names.metadata(app, claim_name(plan, app, pod), plan.role.name, annotations={SNAPSHOT: str(choice)})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": own,
        "spec": claim_template(app, plan.volume, plan.role.name)["spec"],
    }


def restore_job(
    plan: BackupPlan[A],
    app: A,
    restore: Restore,
    pod: str,
    founders: Sequence[str],
    *,
    choice: Choice,
    image: str,
    operator_image: str,
    version: str,
    origins: Sequence[str] = (),
) -> Manifest:
    """Return the Job that fills the volume of one founder; or, where members run already, that puts the backup into
    them. It asks for what a member asks for: the volume will be where this ran."""
    needs = plan.role.resources(app)
    requests = {"cpu": needs.cpu, "memory": needs.memory}
    size = {"requests": requests, "limits": {"memory": needs.memory_limit or needs.memory}}
    work = {"name": "work", "mountPath": _WORK}
    link = f"{_WORK}/snapshot.{plan.suffix}"
    exact = [f"--checksum={choice.checksum}"]
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    steps: list[Manifest] = []
    target = ""
    if plan.restore != "after":
        target = f"{plan.volume.path}/{part_of_data(plan)}"
        exact.append(f"--volume={plan.volume.path}")
        mounts = [data_mount(plan)]
        volumes = [data_volume(plan, app, pod)]
    reading = mounts
    if plan.how != "own":
        reading = [stores.mount(read_only=True), *mounts, {**work, "readOnly": True}]
        volumes = [
            stores.volume(restore.source, read_only=True),
            *volumes,
            {"name": "work", "emptyDir": {"sizeLimit": "1Mi"}},
        ]
        pick = [
            *pick_command(plan, app, restore, snapshot=choice.snapshot, version=version, origins=origins),
            *exact,
            f"--link={link}",
        ]
        picking = [stores.mount(read_only=not stores.is_fetched(restore.source)), *mounts, work]
        steps.append(container("pick", operator_image, pick, picking, environment=stores.environment(restore.source)))
    about = PutBack(version, choice.snapshot if plan.how == "own" else link, pod, tuple(founders), target)
    if plan.put_back is None:
        copy = operator_command(plan.kind, "copy", f"--backup={link}", *exact)
        steps.append(container("copy", operator_image, copy, reading, resources=size))
    else:
        command = plan.put_back(app, about)
        volumes += secret_volumes(command)
        steps.append(engine_container("restore", image, command, reading, resources=size))
    if plan.restore != "after":
        place = operator_command(plan.kind, "place", f"--snapshot={choice.snapshot}", *exact)
        steps.append(container("place", operator_image, place, mounts))
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(plan, app, "restore")},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
    spec = job_spec(
        plan,
        app,
        "restore",
        first=steps[:-1],
        last=steps[-1],
        volumes=volumes,
        seconds=DEADLINE_SECONDS,
        spread=spread,
    )
    note = {SNAPSHOT: str(choice)} if plan.restore == "after" else {}
    return _job(plan, app, str(names.ordinal(pod)), spec, note)


def pick_command(
    plan: BackupPlan[A], app: A, restore: Restore, *, snapshot: str, version: str, origins: Sequence[str]
) -> list[str]:
    """Return the command line of the step that chooses a backup and reads it."""
    return operator_command(
        plan.kind,
        "pick",
        f"--directory={stores.directory(restore.source)}",
        f"--snapshot={snapshot}",
        f"--app={app.name}",
        f"--namespace={app.namespace}",
        f"--version={version}",
        *(f"--origin={pattern}" for pattern in origins),
        *([] if stores.is_of_one_namespace(restore.source) else ["--recorded"]),
        *stores.arguments(restore.source),
    )


def _job_name(app: A, what: str) -> str:
    return f"{app.name}-restore-{what}"


def _job(
    plan: BackupPlan[A], app: A, what: str, spec: Manifest, annotations: Mapping[str, str] | None = None
) -> Manifest:
    own = {**names.metadata(app, _job_name(app, what)), "labels": labels(plan, app, "restore")}
    if annotations:
        own["annotations"] = dict(annotations)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": own,
        "spec": {**spec, "template": hashed(spec["template"])},
    }


def _at_work(pods: list[Manifest], job: str) -> list[str]:
    """Return the pods of a Job that is gone which have not ended: two of them must not write to one volume, and a Job
    that was deleted to be made anew is gone at once, its pod half a minute later."""
    ended = ("Succeeded", "Failed")
    own = [pod for pod in _pods_of(pods, job) if pod.get("status", {}).get("phase") not in ended]
    return [pod["metadata"]["name"] for pod in own]


def _pods_of(pods: list[Manifest], job: str) -> list[Manifest]:
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == job]


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
    held_up = next((words for pod in _pods_of(pods, name) if (words := troubles(pod))), "")
    return Restoration("working", f"{doing}: {held_up}" if held_up else doing)


def _choice_of(live: Manifest) -> Choice | None:
    """Return the backup that a claim or Job was made for; None if it was made for none."""
    text = (live["metadata"].get("annotations") or {}).get(SNAPSHOT, "")
    snapshot, _, checksum = text.rpartition(" ")
    return Choice(snapshot, checksum) if snapshot else None
