"""The acting half of app types that name none: members are known by their kubelets' word, and asked nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

from fleet.errors import ConfigurationError
from fleet.kit.app_type import AppType
from fleet.kit.decide.roll import NO_MAJORITY
from fleet.kit.driver import Driver
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.engine import Engine
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.step import Decision, State
from fleet.kit.workload.roll import StopObjection
from fleet.model.app import App
from fleet.text import count_noun

A = TypeVar("A", bound=App)


class PlainAnswers(Answers[A]):
    """Of members whose majority is known by their kubelets' word alone."""

    def objections_to_stop(self, observation: Observation[A], pod: str) -> Sequence[StopObjection]:
        others = [other for other in observation.healthy_pods if other != pod]
        if self.app_type.quorum != "majority" or len(others) > len(observation.pods) // 2:
            return ()
        return (NO_MAJORITY,)


class PlainEngine(AppEngine[A]):
    """The engine of an app type by its declaration alone.

    Raise ConfigurationError for a type whose members do not simply start by themselves: it needs a half that acts.
    """

    def __init__(self, app_type: AppType[A], images: Mapping[str, str], permissions: Permissions = DEFAULT) -> None:
        for role in app_type.roles:
            if role.joining != "itself" or role.votes or role.bootstrap in ("seed", "agent"):
                raise ConfigurationError(
                    f"members of {app_type.name} do not start by themselves, so the type must name the half that acts",
                    hint="`engine` of the type is the text 'module:Class'",
                )
            if role.certificates:
                raise ConfigurationError(f"{app_type.name} has certificates, which only a half that acts makes")
        if any(user.rotates for user in app_type.users):
            raise ConfigurationError(
                f"passwords of {app_type.name} are to rotate, of which only a half that acts tells its members",
                hint="User(…, rotates=False) keeps the password that members start with",
            )
        super().__init__(app_type, images, permissions)

    def answers(self, observation: Observation[A]) -> Answers[A]:
        return PlainAnswers(self.app_type, self.images)

    def at_rest(self, observation: Observation[A]) -> Decision:
        decision = super().at_rest(observation)
        if decision.state is not State.OK:
            return decision
        ready = ", ".join(
            count_noun(len(role.pods), role.role.name or "member") for role in observation.roles if role.role.count
        )
        version = self.answers(observation).running_version(observation)
        verb = "is" if sum(len(role.pods) for role in observation.roles) == 1 else "are"
        text = f"{ready} of {self.app_type.name}{f' {version}' if version else ''} {verb} ready"
        return replace(decision, message=text)


def make_engine(
    driver: Driver[Any], images: Mapping[str, str], permissions: Permissions = DEFAULT
) -> Engine[Any, Any] | None:
    """Return the half that acts which a driver names, or that of types that name none; None if it can have neither.

    Raises what the named module raises when it is loaded.
    """
    module, _, name = driver.engine.partition(":")
    if module:
        named: Engine[Any, Any] = getattr(import_module(module), name)(images, permissions)
        return named
    return PlainEngine(driver, images, permissions) if isinstance(driver, AppType) else None
