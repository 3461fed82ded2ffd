"""How a driver recognises its engine in what others set up, and describes it as an app: the contract. Pure.

A driver that can take over has `discovery`. It says which container of a StatefulSet looks like its engine, what to ask
beside each member (the engine's own client, read-only), and what the answers mean: an app, or why there can be none.
Of an app with several StatefulSets the one of the first role stands for all; the others are among its surroundings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from fleet.kit.adoption.surroundings import Object, Surroundings
from fleet.kit.adoption.workload import Find
from fleet.kit.driver import Problem
from fleet.model.app import App


@dataclass(frozen=True, slots=True)
class Question:
    """Run beside each member. What it prints is the answer; nothing is changed by it."""

    container: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    identity: str
    role: str
    version: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine that runs and could be an app. `app` describes it; `kept` names what no field of the app says."""

    app: App
    identity: str
    version: str
    members: tuple[Member, ...]
    facts: Mapping[str, str] = field(default_factory=dict)  # for people: configuration, credentials, topology
    kept: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    stateful_sets: Mapping[str, str] = field(default_factory=dict)  # of its other roles: role → name


class Discovery(Protocol):
    engine: str

    def recognises(self, found: Object, find: Find) -> str | None:
        """Say by which sign a StatefulSet looks like this engine; None if it does not."""

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        """Return what to ask beside each member."""

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        """Return the app that members' answers describe, or why there can be none. `answers`: by pod, in the order of
        the questions; a pod that could not be asked has none."""


@runtime_checkable
class RoleDiscovery(Discovery, Protocol):
    """The discovery of an engine whose apps may have several StatefulSets."""

    def role_of(self, found: Object, find: Find) -> str | None:
        """Return the role of the pods of a StatefulSet; None if it is none of this engine's."""
