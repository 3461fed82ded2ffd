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
from fleet.kit.adoption.describe import container_of, count_replicas
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
INTERPRETERS = frozenset({"ash", "bash", "dash", "java", "node", "perl", "python", "python3", "ruby", "sh"})
INSTANCE = "app.kubernetes.io/instance"  # the label by which charts tell one release from another


class DeclaredAdoption(AdoptionRules[A, FoundLayout]):
    """The rules of a type by its declaration."""

    def find_container(self, found: Object, find: Find, role: str = "") -> str | None:
        """Return the container that starts the role's program, or that has the engine's image and no command.

        Roles of one image are told apart by their programs. One that runs anything says nothing: then the image counts.
        """
        declared, template = self.app_type.role(role), found["spec"]["template"]
        program = declared.command[0].rpartition("/")[2]
        for process in processes(template, found["metadata"]["namespace"], find, program):
            is_started = bool(process.program) and program not in INTERPRETERS
            if is_started or (declared is self.app_type.roles[0] and self._has_image(template, process.container)):
                return process.container
        return None

    def _has_image(self, template: Object, container: str) -> bool:
        """Tell whether a container has an image that is called as the engine's official one, from whichever
        registry."""
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
        service = str(found["spec"].get("serviceName") or "")
        return FoundSet(found["metadata"]["name"], container, claim, _port_of(role, found, container), service)

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
        role = self.role_of(found, find)
        if role is None:
            return None
        part = f" ({role})" if role else ""
        return f"container {self._rules.find_container(found, find, role)} runs {self._app_type.name}{part}"

    def role_of(self, found: Object, find: Find) -> str | None:
        """Return the first role whose program a StatefulSet starts."""
        roles = (role.name for role in self._app_type.roles)
        return next((role for role in roles if self._rules.find_container(found, find, role) is not None), None)

    def questions(self, found: Object, find: Find) -> Sequence[Question] | Problem:
        return ()

    def understands(
        self, found: Object, around: Surroundings, answers: Mapping[str, Sequence[str]]
    ) -> Candidate | Problem:
        sets = self._find_sets(found, around)
        if isinstance(sets, Problem):
            return sets
        layout = self._rules.read_layout(sets, around.find)
        if isinstance(layout, Problem):
            return layout
        members = [member for role in sets for member in self._list_members(sets[role], layout.sets[role], role)]
        problem = check_objects(found) or check_versions(self._app_type, [member.version for member in members])
        if problem is not None:
            return problem
        if not count_replicas(found):
            return Problem("members", "it has no pods")
        return make_candidate(
            self._rules,
            found,
            around,
            layout,
            port=layout.sets[""].port,
            identity=str(found["metadata"]["uid"]),
            members=members,
            others={role: other for role, other in sets.items() if role},
        )

    def _list_members(self, found: Object, own: FoundSet, role: str) -> list[Member]:
        image = str(container_of(found, own)["image"])
        version = self._app_type.version_in(image, {}) or version_in_tag(image)
        pods = [f"{own.stateful_set}-{number}" for number in range(count_replicas(found))]
        return [Member(pod, "", role or self._app_type.ranks[-1], version) for pod in pods]

    def _find_sets(self, found: Object, around: Surroundings) -> dict[str, Object] | Problem:
        """Return the StatefulSets of one app by role, `found` being that of the first; or why it is not clear."""
        sets = {"": found}
        for role in self._app_type.roles[1:]:
            other = self._find_set(found, around, role.name)
            if isinstance(other, Problem):
                return other
            sets |= {role.name: other} if other is not None else {}
        return sets

    def _find_set(self, found: Object, around: Surroundings, role: str) -> Object | Problem | None:
        """Return the StatefulSet of another role of the same app: the one that is called as the first and the role, or
        has its label of a chart's release, or the only one there is for the only app.
        """
        beside = [one for one in around.sets if one["metadata"]["namespace"] == found["metadata"]["namespace"]]
        firsts = [_name(one) for one in beside if self.role_of(one, around.find) == ""]
        of_role = {_name(one): one for one in beside if self.role_of(one, around.find) == role}
        if (named := of_role.get(f"{_name(found)}-{role}")) is not None:
            return named
        free = [one for name, one in of_role.items() if name not in [f"{first}-{role}" for first in firsts]]
        of_release = [one for one in free if _instance(one) and _instance(one) == _instance(found)]
        fitting = of_release or [one for one in free if not _instance(one) or not _instance(found)]
        rivals = [first for first in firsts if first != _name(found) and f"{first}-{role}" not in of_role]
        if not fitting:
            return None
        if len(fitting) == 1 and (of_release or not rivals):
            return fitting[0]
        return Problem(
            "roles",
            f"it is not clear which pods of {role} are its own: {', '.join(map(_name, fitting))}",
            f"give the StatefulSets of one app the same label {INSTANCE}",
        )


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _instance(found: Object) -> str:
    return str((found["metadata"].get("labels") or {}).get(INSTANCE, ""))


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
