"""Adoption of an engine that says nothing about it: recognised and described by its declaration alone. Pure.

Nobody is asked. A StatefulSet is one of the engine's if a container has its image or starts its program; what members
are and which version they run is what their objects say. So it is known for certain only for engines whose members need
no agreement; and members go on reading the settings that they were given, whatever git says of settings later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fleet.kit.adoption.candidate import check_objects, check_versions, make_candidate
from fleet.kit.adoption.describe import count_replicas
from fleet.kit.adoption.discovery import Candidate, Member, Question
from fleet.kit.adoption.layout import FoundLayout, FoundSet, read_layout, write_layout
from fleet.kit.adoption.objections import check_ordinals, version_in_tag
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.surroundings import Object, Surroundings
from fleet.kit.adoption.workload import Find, claim_at, processes
from fleet.kit.app_type import AppType, Role
from fleet.kit.driver import Problem
from fleet.model.app import App

A = TypeVar("A", bound=App)


class DeclaredAdoption(AdoptionRules[A, FoundLayout]):
    """The rules of a type by its declaration."""

    def find_container(self, found: Object, find: Find, role: str = "") -> str | None:
        """Return the container that starts the role's program, or that has the engine's image and no command.

        Roles of one image are told apart by their programs.
        """
        declared, template = self.app_type.role(role), found["spec"]["template"]
        program = declared.command[0].rpartition("/")[2]
        for process in processes(template, found["metadata"]["namespace"], find, program):
            if process.program or (declared is self.app_type.roles[0] and self._has_image(template, process.container)):
                return process.container
        return None

    def _has_image(self, template: Object, container: str) -> bool:
        """Whether a container has an image that is called as the engine's official one, from whichever registry."""
        image = next(
            str(entry.get("image", "")) for entry in template["spec"]["containers"] if entry["name"] == container
        )
        return _repository(image) == _repository(self.app_type.versions.image)

    def read_layout(self, sets: Mapping[str, Object], find: Find) -> FoundLayout | Problem:
        layout: dict[str, FoundSet] = {}
        for role, found in sets.items():
            read = self._read_set(role, found, find)
            if isinstance(read, Problem):
                return read
            layout[role] = read
        return FoundLayout(layout)

    def _read_set(self, name: str, found: Object, find: Find) -> FoundSet | Problem:
        role, container = self.app_type.role(name), self.find_container(found, find, name)
        if container is None:
            return Problem("container", f"no container starts {role.command[0]}")
        if problem := check_ordinals(found):
            return problem
        claim = _claim_of(role, found, container)
        if role.volumes and not claim:
            return Problem("volumes", f"{container} has no volume of a claim template, so data does not last")
        return FoundSet(found["metadata"]["name"], container, claim, _port_of(role, found, container))

    def load_layout(self, data: Mapping[str, Any]) -> FoundLayout:
        return read_layout(data)

    def dump_layout(self, layout: FoundLayout) -> dict[str, Any]:
        return write_layout(layout)

    def with_baselines(self, layout: FoundLayout, baselines: Mapping[str, Mapping[str, Any]]) -> FoundLayout:
        return FoundLayout({role: replace(found, baseline=baselines[role]) for role, found in layout.sets.items()})

    def settings_in_git(self, app: A, role: str) -> dict[str, Any]:
        return {"settings": self.app_type.shared_settings(app, self.app_type.role(role))}

    def list_facts(self, app: A, layout: FoundLayout) -> Mapping[str, str]:
        own = layout.sets[""]
        data = {"data": f"claims {own.claim}-{own.stateful_set}-N"} if own.claim else {}
        return {**data, "clients": app.connection.url}


class DeclaredDiscovery:
    """The part of a type for `fleet adopt`, by its declaration: by objects alone."""

    def __init__(self, app_type: AppType[Any]) -> None:
        self._app_type = app_type
        self._rules = DeclaredAdoption(app_type)
        self.engine = app_type.app.kind().lower()

    def recognises(self, found: Object, find: Find) -> str | None:
        container = self._rules.find_container(found, find)
        return f"container {container} runs {self._app_type.name}" if container is not None else None

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        return ()

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        layout = self._rules.read_layout({"": found}, around.find)
        if isinstance(layout, Problem):
            return layout
        own = layout.sets[""]
        containers = found["spec"]["template"]["spec"]["containers"]
        image = next(str(entry["image"]) for entry in containers if entry["name"] == own.container)
        version = self._app_type.version_in(image, {}) or version_in_tag(image)
        problem = check_objects(found) or check_versions(self._app_type, [version])
        if problem is not None:
            return problem
        pods = [f"{own.stateful_set}-{number}" for number in range(count_replicas(found))]
        members = [Member(pod, "", self._app_type.ranks[-1], version) for pod in pods]
        if not members:
            return Problem("members", "it has no pods")
        identity = str(found["metadata"]["uid"])
        return make_candidate(self._rules, found, around, layout, port=own.port, identity=identity, members=members)


def _repository(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _claim_of(role: Role[Any], found: Object, container: str) -> str:
    """Return the claim template that holds the data: the one where the image keeps it, or the only one."""
    claims = [claim["metadata"]["name"] for claim in found["spec"].get("volumeClaimTemplates") or ()]
    if not role.volumes:
        return ""
    if held := claim_at(found, container, role.volumes[0].path):
        return held
    return str(claims[0]) if len(claims) == 1 else ""


def _port_of(role: Role[Any], found: Object, container: str) -> int:
    """Return the port for clients: the one of that name in the container, or as declared."""
    declared = next((port for port in role.ports if port.used_by == "clients"), None)
    if declared is None:
        return 0
    containers = found["spec"]["template"]["spec"]["containers"]
    ports = next(entry.get("ports") or () for entry in containers if entry["name"] == container)
    named = (int(entry["containerPort"]) for entry in ports if entry.get("name") == declared.name)
    return next(named, declared.number)
