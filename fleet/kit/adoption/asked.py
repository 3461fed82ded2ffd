"""Discovery of an engine whose members are asked: two things must agree, a container whose process is the engine, and
members that answer its protocol with one identity. Pure: who asks is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleet.kit.adoption.candidate import check_answers, check_objects, check_versions, make_candidate
from fleet.kit.adoption.describe import count_replicas
from fleet.kit.adoption.discovery import Candidate, Member
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.surroundings import Object, Surroundings
from fleet.kit.driver import Problem
from fleet.kit.names import AdoptedNames
from fleet.model.app import App

A = TypeVar("A", bound=App)
L = TypeVar("L", bound=AdoptedNames)
_UNREADABLE = (ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """What one member says of itself."""

    identity: str  # of its cluster
    member: str
    role: str
    version: str
    knows_leader: bool = True


@dataclass(frozen=True, slots=True)
class ListedAnswer:
    """A member as another one has it on its list."""

    member: str
    addresses: tuple[str, ...]


class AskedDiscovery(Generic[A, L]):
    """The part of a type for `fleet adopt`: its first question is how a member is, the second who the members are.

    An engine's own says in addition by which sign it recognises a StatefulSet, and what its questions are.
    """

    engine: str

    def __init__(self, rules: AdoptionRules[A, L]) -> None:
        self.rules = rules

    def read_member(self, text: str) -> MemberAnswer:
        """Return what a member says of itself. Raises ValueError, LookupError or TypeError for another program's."""
        raise NotImplementedError

    def read_list(self, text: str) -> Sequence[ListedAnswer]:
        """Return a member's list. Raises as `read_member` for what is none."""
        raise NotImplementedError

    def port(self, layout: L) -> int:
        """Return the members' port for clients."""
        raise NotImplementedError

    def check_size(self, replicas: int) -> Problem | None:
        """Say that no app has so many members."""
        return None

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        layout = self.rules.read_layout({"": found}, around.find)
        if isinstance(layout, Problem):
            return layout
        if problem := check_objects(found):
            return problem
        members: dict[str, MemberAnswer] = {}
        for pod, texts in answers.items():
            try:
                members[pod] = self.read_member(texts[0])
            except _UNREADABLE:
                said = _shorten(texts[0] if texts else "")
                return Problem("protocol", f"{pod} does not answer as {self.engine} does: {said}")
        listed = self._read_lists(answers)
        if problem := self._check(found, layout, members, [] if isinstance(listed, Problem) else listed):
            return problem
        if isinstance(listed, Problem):
            return listed
        return make_candidate(
            self.rules,
            found,
            around,
            layout,
            port=self.port(layout),
            identity=next(iter(members.values())).identity,
            members=[
                Member(pod, answer.member, answer.role, answer.version) for pod, answer in sorted(members.items())
            ],
        )

    def _read_lists(self, answers: Mapping[str, Sequence[str]]) -> Sequence[ListedAnswer] | Problem:
        """Return the members as any of them has the list: without a majority none can say it."""
        text = ""
        for texts in answers.values():
            text = texts[1] if len(texts) > 1 else ""
            try:
                return self.read_list(text)
            except _UNREADABLE:
                continue
        return Problem("members", f"none of them says who is a member, so there may be no majority: {_shorten(text)}")

    def _check(
        self, found: Object, layout: L, members: Mapping[str, MemberAnswer], listed: Sequence[ListedAnswer]
    ) -> Problem | None:
        """Say where members contradict each other, or what is made of them."""
        replicas, name = count_replicas(found), layout.sets[""].stateful_set
        pods = [f"{name}-{number}" for number in range(replicas)]
        if not pods:
            return Problem("members", "it has no pods")
        if problem := check_answers(pods, {pod: answer.identity for pod, answer in members.items()}):
            return problem
        if not all(answer.knows_leader for answer in members.values()):
            return Problem("members", "they have no leader")
        if problem := check_versions(self.rules.app_type, [answer.version for answer in members.values()]):
            return problem
        known = {answer.member for answer in members.values()}
        if strangers := [member for member in listed if member.member not in known]:
            urls = ", ".join(address for member in strangers for address in member.addresses)
            return Problem("members", f"{urls} is a member too and no pod of {name}", "one app is one StatefulSet")
        return self.check_size(replicas)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:120] or "nothing"
