"""A keeper whose data has a level that only a program raises, once all members run a version: as Kafka's features.

No member does it over the network, so the engine asks for `keeper-level`, with the password of the operator's user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.kit.decide.command import run_command
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import MemberState, Observation, Silence
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.order import Concern, Look
from fleet.kit.programs import CommandJob, EngineCommand
from fleet.kit.simulate.cluster import Container
from fleet.kit.step import Decision
from fleet.testing.conformance.subject import Subject, change_spec
from tests.kit.keeper import KEEPER, SUBJECT, Keeper, KeeperHalf, KeeperServers


@dataclass(slots=True)
class LevelledServers(KeeperServers):
    """Their level, and the programs that ran beside them."""

    level: str = ""
    runs: list[tuple[str, ...]] = field(default_factory=list)
    failing: str = ""  # the last words of a program that fails
    seconds: int = 2  # that a program takes
    deaf_to_programs: bool = False  # a program that ends well, and nothing comes of it
    _left: dict[str, int] = field(default_factory=dict)  # ticks that the programs of pods have left

    def run_program(self, container: Container) -> str | None:
        left = self._left.setdefault(container.pod, self.seconds)
        self._left[container.pod] = left - 1
        if left > 0:
            return None
        self.runs.append(container.arguments)
        if self.failing:
            return self.failing
        if not self.deaf_to_programs:
            self.level = container.arguments[-1]
        return ""


class LevelledHalf(KeeperHalf):
    async def probe(
        self, client: KeeperServers, observation: Observation[Keeper], pod: str
    ) -> MemberState | Silence | None:
        assert isinstance(client, LevelledServers)
        state = await super().probe(client, observation, pod)
        return replace(state, detail=client.level) if isinstance(state, MemberState) else state


def raise_level(app: Keeper) -> CommandJob:
    command = ("keeper-level", "--password-file=/etc/fleet/password", "raise", KEEPER.version(app))
    secrets = {f"{app.name}-user-fleet": "/etc/fleet"}
    return CommandJob("raise-level", EngineCommand(command, secrets=secrets), again=120.0)


class LevelledAnswers(Answers[Keeper]):
    def diagnose(self, observation: Observation[Keeper]) -> Mapping[Concern, Sequence[Look]]:
        return {Concern.SETTINGS: (lambda: self._level(observation),)}

    def _level(self, observation: Observation[Keeper]) -> Decision | None:
        wanted = KEEPER.version(observation.app)
        states = observation.states.values()
        all_run_it = all(state.version.startswith(wanted) for state in states)
        if not states or not all_run_it or all(state.detail == wanted for state in states):
            return None
        return run_command(observation, self, raise_level(observation.app), f"the level becomes {wanted}")


class LevelledEngine(AppEngine[Keeper]):
    def __init__(self, servers: LevelledServers) -> None:
        super().__init__(KEEPER, {}, half=LevelledHalf(servers))

    def answers(self, observation: Observation[Keeper]) -> Answers[Keeper]:
        return LevelledAnswers(KEEPER, self.images, acts=frozenset({"user", "reload"}))


LEVELLED: Subject = replace(
    SUBJECT,
    make_servers=LevelledServers,
    make_engine=LevelledEngine,
    changes=(change_spec("version 1.1", version="1.1"), change_spec("scale 3 → 5", members=5)),
    minds=(("version 1.1", "scale 3 → 5"),),
)
