"""Users that members are to accept, and their passwords while they change. How one does is in
`fleet.kit.credentials.users`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fleet.kit.credentials.declared import certificates_of, users_of
from fleet.kit.credentials.users import Accepted, User, UserSecret, accepted_by_all
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.status import Conditions
from fleet.kit.step import Decision
from fleet.model.app import App

A = TypeVar("A", bound=App)
USERS_READY = "UsersReady"  # the condition that says whether members accept all users


def change_users(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Have members accept the users of the app, one user at a time, by the observation of the first role.

    Nothing is done while one of the members that keep users could not be asked.
    """
    if not _keeps_users(observation, answers):
        return None
    users = users_of(answers.app_type, observation.app, observation.world)
    return users.change(find_accepted(observation, users.users), observation.world.now)


def find_accepted(observation: Observation[A], users: Sequence[User]) -> Mapping[str, Accepted] | None:
    """Return what members accept, by user; None unless every member that keeps one of them has said it."""
    roles = {role.role.name: role for role in observation.roles}
    accepted = {}
    for user in users:
        role = roles.get(user.role)
        states = [role.states.get(pod) for pod in role.pods] if role is not None else []
        known = [state for state in states if state is not None and state.accepts is not None]
        if not known or len(known) < len(states):
            return None
        marks = [(state.accepts or {}).get(user.name, frozenset()) for state in known]
        used = [state.uses.get(user.name) for state in known]
        is_known = user.of == "members" and None not in used
        accepted[user.name] = accepted_by_all(marks, frozenset(mark for mark in used if mark) if is_known else None)
    return accepted


def refuse_lost_authority(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Have a person say what becomes of members whose CA is gone, with all that it signed."""
    certificates = certificates_of(answers.app_type, observation.app, observation.world)
    return certificates.unsigned() if certificates is not None else None


def describe_users(observation: Observation[A], answers: Answers[A]) -> Conditions:
    """Return the condition of an app's users; none for an app without users that members are told about."""
    if not _keeps_users(observation, answers):
        return ()
    users = users_of(answers.app_type, observation.app, observation.world)
    kept, accepted = users.secrets(), find_accepted(observation, users.users)
    if missing := [user.name for user in users.users if user.name not in kept]:
        return ((USERS_READY, "False", "PasswordMissing", f"there is no password that can be read: {missing[0]}"),)
    if accepted is None:
        return ((USERS_READY, "Unknown", "NotAsked", "not every member could be asked whom it lets in"),)
    for name, secret in kept.items():
        if not secret.marks <= accepted[name].everywhere:
            return ((USERS_READY, "False", "Spreading", f"not every member accepts the passwords of {name} yet"),)
    if rotating := [_describe_rotation(secret) for secret in kept.values() if secret.phase != "settled"]:
        return ((USERS_READY, "True", "Rotating", "; ".join(rotating)),)
    return ((USERS_READY, "True", "Settled", f"all members accept {', '.join(kept)}"),)


def _describe_rotation(secret: UserSecret) -> str:
    if secret.phase == "adding":
        return f"{secret.user} has a second password"
    until = f"until {secret.until}" if secret.until else "until clients have the new one"
    return f"the old password of {secret.user} is accepted {until}"


def _keeps_users(observation: Observation[A], answers: Answers[A]) -> bool:
    is_first = observation.role.name == answers.app_type.roles[0].name
    return is_first and "user" in answers.acts and bool(answers.app_type.users_of(observation.app))
