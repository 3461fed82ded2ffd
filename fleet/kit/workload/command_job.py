"""The Job of an engine's program that a decision asks for, and what is to be seen of it. Pure.

A Job is called by the app, the program's name and a hash of its words, so the same program is asked for once however
often it is asked for, and the outcome of one is not taken for that of another.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from fleet.kit import names
from fleet.kit.app_type import Role
from fleet.kit.observe.world import World, is_leaving
from fleet.kit.programs import CommandJob, CommandOutcome
from fleet.kit.workload.jobs import (
    PROGRAM,
    TASK,
    engine_container,
    find_end,
    is_of_job,
    job_spec,
    secret_volumes,
    task_labels,
    troubles,
    why_failed,
)
from fleet.kit.workload.pods import container_resources
from fleet.model.app import App

A = TypeVar("A", bound=App)
Manifest = dict[str, Any]
COMMAND = "command"  # what such a Job is for, in its label
LONGEST_NAME = 63  # of a Job, which is a label of its pods


def command_job_name(app: App, wanted: CommandJob, role: str = "") -> str:
    """Return the name of a program's Job: another one for other words, Secrets or variables."""
    command = wanted.command
    said = [list(command.argv), dict(command.environment), dict(command.secrets)]
    mark = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
    end = f"-{wanted.name}-{mark}"
    return f"{names.role_name(app, role)[: LONGEST_NAME - len(end)].rstrip('-.')}{end}"


def make_command_job(app: A, role: Role[A], wanted: CommandJob, image: str) -> Manifest:
    """Return the Job that runs a program in an image of the engine, as the user of the role's pods."""
    scratch = [{"name": f"scratch-{number}", "mountPath": path} for number, path in enumerate(role.scratch)]
    labels = task_labels(app, COMMAND, role.name)
    spec = job_spec(
        app,
        labels,
        user=role.user,
        last=engine_container(PROGRAM, image, wanted.command, scratch, resources=container_resources(wanted.resources)),
        volumes=[*({"name": mount["name"], "emptyDir": {}} for mount in scratch), *secret_volumes(wanted.command)],
        seconds=wanted.seconds,
    )
    own = {"name": command_job_name(app, wanted, role.name), "namespace": app.namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": spec}


def find_outcome(world: World, job: str) -> CommandOutcome | None:
    """Return how far the program of a Job is; None where there is no such Job, or it is on its way out."""
    found = world.get("Job", job)
    if found is None or is_leaving(found):
        return None
    pods = [pod for pod in world.all("Pod") if is_of_job(pod, job)]
    if (end := find_end(found)) is None:
        return CommandOutcome("running", next(filter(None, map(troubles, pods)), ""))
    ended, is_well = end
    return (
        CommandOutcome("succeeded", "", ended) if is_well else CommandOutcome("failed", why_failed(found, pods), ended)
    )


def list_command_jobs(world: World) -> list[Manifest]:
    """Return the Jobs of programs that decisions asked for."""
    jobs = [job for job in world.all("Job") if not is_leaving(job)]
    return [job for job in jobs if (job["metadata"].get("labels") or {}).get(TASK) == COMMAND]
