"""A program of the engine's own that a decision needs, seen through as a Job: started once, waited for, removed. Pure.

Engines ask for it as long as they do not observe what it does. So nothing has to be remembered: an operator that dies
after any move finds the Job, or the program's effect, or neither, and asks again.
"""

from __future__ import annotations

from typing import TypeVar

from fleet.kit.observe.answers import Answers, image_in
from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import when
from fleet.kit.programs import CommandJob, CommandOutcome
from fleet.kit.step import Apply, Decision, Delete, State, step, wait
from fleet.kit.workload.command_job import command_job_name, find_outcome, list_command_jobs, make_command_job
from fleet.kit.workload.jobs import find_end
from fleet.model.app import App

A = TypeVar("A", bound=App)
UNSEEN_SECONDS = 60.0  # until a program that succeeded and whose effect nobody observes is run again


def outcome_of(observation: Observation[A], wanted: CommandJob) -> CommandOutcome | None:
    """Return how far a program is; None if it was not asked for, or was removed after it was read."""
    return find_outcome(observation.world, command_job_name(observation.app, wanted, observation.role.name))


def run_command(observation: Observation[A], answers: Answers[A], wanted: CommandJob, what: str) -> Decision:
    """Return the next move of a program whose effect is not observed yet; `what` says for people what it does.

    One program runs at a time for each app, and none with Secrets that are not the app's.
    """
    outcome = outcome_of(observation, wanted)
    if outcome is None:
        return _start(observation, answers, wanted, what)
    if outcome.state == "running":
        return wait(State.PROGRESSING, "CommandRuns", f"{what}{f': {outcome.words}' if outcome.words else ''}", 2.0)
    job = observation.world.get("Job", command_job_name(observation.app, wanted, observation.role.name))
    passed = (observation.world.now - when(outcome.ended)).total_seconds() if outcome.ended else 0.0
    left = (UNSEEN_SECONDS if outcome.state == "succeeded" else wanted.again) - passed
    if job is not None and left <= 0:
        return step(State.PROGRESSING, "CommandAgain", f"{what}: it is tried again", Delete(job))
    if outcome.state == "succeeded":
        return wait(State.PROGRESSING, "CommandEnded", f"{what}: the program has ended well", 2.0)
    words = f"{what} failed: {outcome.words}; it is tried again in {max(left, 1) / 60:.0f} minutes"
    return wait(State.DEGRADED, "CommandFailed", words, min(max(left, 1.0), 15.0))


def _start(observation: Observation[A], answers: Answers[A], wanted: CommandJob, what: str) -> Decision:
    app, world = observation.app, observation.world
    missing = [name for name in wanted.command.secrets if world.get("Secret", name) is None]
    if missing:
        return wait(State.PROGRESSING, "CommandWaits", f"{what}: waits for the Secret {missing[0]} of the app", 2.0)
    if world.get("Job", command_job_name(app, wanted, observation.role.name)) is not None:
        return wait(State.PROGRESSING, "CommandWaits", f"{what}: what was there of it goes first", 1.0)
    busy = [str(job["metadata"]["name"]) for job in list_command_jobs(world) if find_end(job) is None]
    if busy:
        return wait(State.PROGRESSING, "CommandWaits", f"{what}: waits for the end of {busy[0]}", 2.0)
    found = observation.stateful_set
    image = image_in(observation, found["spec"]["template"]) if found is not None else answers.image(observation, app)
    job = make_command_job(app, answers.app_type.role(observation.role.name), wanted, image)
    return step(State.PROGRESSING, "CommandStarted", what, Apply(job, "CommandStarted", what), after=1.0)


def remove_read_commands(observation: Observation[A]) -> Decision | None:
    """Remove programs that have ended and that nobody asks for: to be asked when all other concerns are satisfied."""
    ended = [job for job in list_command_jobs(observation.world) if find_end(job) is not None]
    steps = [Delete(job) for job in ended]
    return step(State.PROGRESSING, "Tidying", "programs that have ended are removed", *steps) if steps else None
