"""What an app type knows of its engine where others set it up: the questions that adoption asks it. Pure.

`fleet.kit.adoption.declared` answers them by the declaration alone, for every type that says nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from fleet.kit import names
from fleet.kit.adoption.describe import describe
from fleet.kit.adoption.workload import Find
from fleet.kit.app_type import AppType
from fleet.kit.driver import Problem
from fleet.kit.names import AdoptedNames
from fleet.model.app import App

A = TypeVar("A", bound=App)
L = TypeVar("L", bound=AdoptedNames)
Object = dict[str, Any]


class AdoptionRules(Generic[A, L]):
    """The rules of one app type. `L` is how it keeps what it found."""

    prefix: ClassVar[str] = ""  # begins the variables that are settings of the engine; "" if none are
    reads_files: ClassVar[bool] = False  # whether members read the app's files from their first roll on

    def __init__(self, app_type: AppType[A]) -> None:
        self.app_type = app_type

    # What was found

    def set_name(self, app: A, role: str) -> str:
        """Return the name of the StatefulSet that git means for a role."""
        adoption = app.adoption
        if adoption is None:
            return names.role_name(app, role)
        named = adoption.stateful_sets.get(role) if role else adoption.stateful_set
        return named or names.role_name(app, role)

    def find_container(self, found: Object, find: Find, role: str = "") -> str | None:
        """Return the container of a StatefulSet in which the engine runs, by its words; None if there is none."""
        raise NotImplementedError

    def read_layout(self, sets: Mapping[str, Object], find: Find) -> L | Problem:
        """Return what these StatefulSets, by role, say of the members; or why that could not be kept.

        `find` gives the texts of ConfigMaps and Secrets in their namespace.
        """
        raise NotImplementedError

    def load_layout(self, data: Mapping[str, Any]) -> L:
        """Return the layout that a ledger holds."""
        raise NotImplementedError

    def dump_layout(self, layout: L) -> dict[str, Any]:
        """Return what a ledger holds of a layout."""
        raise NotImplementedError

    def with_baselines(self, layout: L, baselines: Mapping[str, Mapping[str, Any]]) -> L:
        """Return the layout with what git said of each role when it was taken over."""
        raise NotImplementedError

    # What it is like, in the words of an app

    def describe(self, found: Object, layout: L, claims: Sequence[Object], kept: list[str]) -> dict[str, Any]:
        """Return the fields of an app that is set up so, without those that have their defaults.

        What no field says is added to `kept`. `claims` are those of the namespace.
        """
        fields = describe(self.app_type, found, layout.sets[""], claims, kept)
        return {**fields, **self.describe_engine(layout, kept)}

    def describe_engine(self, layout: L, kept: list[str]) -> dict[str, Any]:
        """Return the fields that the engine alone can read out of what was found: its settings, its encryption."""
        return {}

    def is_encrypted(self, layout: L) -> bool | None:
        """Tell whether members were found with TLS; None for an engine of which that is not read."""
        return None

    def list_differences(self, app: A, runs: A, layout: L) -> Iterable[str]:
        """Yield what git says of the engine's settings and is not so. `runs` is the app that was described."""
        return ()

    def list_secrets(self, layout: L) -> frozenset[str]:
        """Return the names of the Secrets that the engine is known to read."""
        return frozenset()

    def list_facts(self, app: A, layout: L) -> Mapping[str, str]:
        """Return what to tell people about an engine that was found, by title."""
        return {}

    # What day two changes

    def settings_in_git(self, app: A, role: str) -> dict[str, Any]:
        """Return what git says of settings, as a baseline has it: another value of it is a change of git's."""
        return {}

    def revision(self, app: A, role: str) -> str:
        """Return the revision of the files that members are to read; "" if they read none of the app's."""
        return ""

    def equip(self, pod: Object, container: Object, app: A, layout: L, role: str) -> None:
        """Give a pod's spec, and the engine's container in it, what the next roll brings beside image and resources."""
