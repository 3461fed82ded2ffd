"""Settings that members take while they run: those that say what is in force are asked to reload what differs. Pure.

The files have the new value already, for the next start. A setting that no reload brings waits for a restart, and that
is said: nobody restarts members for it alone.
"""

from __future__ import annotations

from typing import TypeVar

from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.status import Conditions
from fleet.kit.step import Act, Decision, State, step
from fleet.model.app import App

A = TypeVar("A", bound=App)
IN_FORCE = "SettingsInForce"  # the condition that says whether members run with what git says


def reload_settings(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Have members take settings while they run, one member at a time and the one that leads last; None when all have
    what git says. What a reload did not bring is seen in the next observation, as of one that was lost.
    """
    if "reload" not in answers.acts:
        return None
    for pod in sorted(observation.pods, key=lambda pod: pod == observation.leader):
        if due := _list_due(observation, answers, pod):
            note = f"{pod} takes {', '.join(due)} while it runs"
            act = Act("reload", {"pod": pod, "settings": due}, "Reloaded", note)
            return step(State.PROGRESSING, "Reloading", note, act, after=1.0)
    return None


def find_late(observation: Observation[A], answers: Answers[A], pod: str) -> dict[str, str]:
    """Return the settings that are in force in a member with another value than git says, with git's value."""
    state, app_type = observation.states.get(pod), answers.app_type
    if state is None:
        return {}
    wanted = app_type.setting_texts(observation.app, app_type.role(observation.role.name))
    return {name: text for name, text in wanted.items() if state.in_force.get(name, text) != text}


def describe_settings(observation: Observation[A], answers: Answers[A]) -> Conditions:
    """Return the condition of settings over all roles; none for members that do not say what is in force."""
    roles = observation.roles
    if not any(state.in_force for role in roles for state in role.states.values()):
        return ()
    reloads, restarts = list[str](), list[str]()
    for role in roles:
        for pod in role.pods:
            due = _list_due(role, answers, pod) if "reload" in answers.acts else {}
            late = [name for name in find_late(role, answers, pod) if name not in due]
            reloads += [f"{pod} is about to take {', '.join(due)}"] if due else []
            restarts += [f"{', '.join(late)} of {pod} waits for a restart"] if late else []
    if reloads:
        return ((IN_FORCE, "False", "Reloading", "; ".join([*reloads, *restarts])),)
    if restarts:
        return ((IN_FORCE, "False", "WaitsForRestart", "; ".join(restarts)),)
    return ((IN_FORCE, "True", "InForce", "members run with the settings that git says"),)


def _list_due(observation: Observation[A], answers: Answers[A], pod: str) -> dict[str, str]:
    """Return what a reload brings to a member."""
    app, role = observation.app, answers.app_type.role(observation.role.name)
    late = find_late(observation, answers, pod)
    return {name: text for name, text in late.items() if answers.app_type.takes_reload(app, role, name)}
