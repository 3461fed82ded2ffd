"""The settings of an engine that others set up, out of its process's flags, its environment and its file. Pure.

A file beats all else, and flags beat the environment. What cannot be known, or could not be kept once members read the
app's files, is a problem with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.kit.adoption.flags import InFile
from fleet.kit.adoption.workload import Find, Process, claim_at, file_of, flags, hook_words, processes
from fleet.kit.driver import Problem
from fleet.kit.workload.settings_text import SettingsError, read_settings

Object = dict[str, Any]
Settings = dict[str, Any]
_OPEN = re.compile(r"[$`]|\{(pod|ip|[a-z]+\.[^{}]+)\}")


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """How an engine takes its settings."""

    program: str  # that starts it
    prefix: str  # of variables that are settings; what follows is a flag in capitals
    table: Mapping[str, InFile]  # the flags that a file can say
    own: re.Pattern[str]  # the flags that are each member's own
    signs: frozenset[str]  # flags and variables that nothing but this engine has
    file_flag: str  # the flag that names its file

    def find_process(self, found: Object, find: Find) -> Process | None:
        """Return the process that is the engine by its command line or environment; whether it is, its port must say.

        Variables that only begin like the engine's are those of its clients, too.
        """
        template, namespace = found["spec"]["template"], found["metadata"]["namespace"]
        candidates = list(processes(template, namespace, find, self.program))
        certain = [process for process in candidates if process.program]
        if certain:
            return certain[0]
        return next((process for process in candidates if self.signs & self._given(process).keys()), None)

    def read(self, process: Process, find: Find, found: Object) -> Settings | Problem:
        """Return the settings of a process as the engine's own file would have them."""
        given = {name: value for name, value in self._given(process).items() if name in self.table or self.is_own(name)}
        given |= flags(process.words)  # which the engine refuses if it does not know them, unlike variables
        path = given.get(self.file_flag, "")
        if path:
            return self._read_file(path, process, find, found)
        settings: Settings = {}
        for name, value in given.items():
            if self.is_own(name):
                settings[name] = value
            elif name not in self.table:
                return Problem(name, f"--{name} cannot be said in a file, which members read from their first roll on")
            elif (typed := self.table[name].read(value)) is None:
                return Problem(name, f"{value!r} is nothing that could be written in a file")
            else:
                self.table[name].put(settings, name, typed)
        return settings

    def is_own(self, name: str) -> bool:
        """Tell whether a setting is each member's own."""
        return self.own.fullmatch(name) is not None

    def check_one_way(
        self, found: Object, process: Process, find: Find, common: Callable[[Settings], Settings]
    ) -> Problem | None:
        """Say that a script starts the engine in more than one way, but for what is a member's own.

        `common` makes of settings what all members have.
        """
        template, namespace = found["spec"]["template"], found["metadata"]["namespace"]
        known = self.read(process, find, found)
        for other in processes(template, namespace, find, self.program):
            if other.container != process.container or not other.program:
                continue
            settings = self.read(other, find, found)
            if isinstance(settings, Problem) or isinstance(known, Problem) or common(settings) != common(known):
                program = self.program
                return Problem(
                    "command", f"its script starts {program} in different ways, and which one runs is not known"
                )
        return None

    def _given(self, process: Process) -> dict[str, str]:
        """Return what the environment and then the words of a process say, by flag."""
        variables = {
            name.removeprefix(self.prefix).lower().replace("_", "-"): value
            for name, value in process.environment.items()
            if name.startswith(self.prefix)
        }
        return variables | flags(process.words)

    def _read_file(self, given: str, process: Process, find: Find, found: Object) -> Settings | Problem:
        """Return the settings of the file that the first member reads, where it is in a ConfigMap or Secret."""
        first = f"{found['metadata']['name']}-0"
        path = given.replace("{pod}", first)
        held = file_of(found["spec"]["template"], process.container, path, frozenset())
        text = (
            (find(held.kind, held.name) or {}).get(held.key)
            if held is not None and held.kind in ("ConfigMap", "Secret")
            else None
        )
        if text is None:
            return Problem(self.file_flag, f"{path} is in no ConfigMap or Secret that can be read")
        try:
            return read_settings(text.replace(first, "{pod}") if "{pod}" in given else text)
        except SettingsError as problem:
            return Problem(self.file_flag, f"{path} is not a file of {self.program}'s: it {problem}")


def check_known(process: Process, common: Mapping[str, Any]) -> Problem | None:
    """Say what differs from pod to pod, or is known only when a member runs: no file for all of them can say it."""
    if "/" in process.program and not process.program.startswith("/"):
        return Problem("command", f"where {process.program} is depends on the script that starts it")
    for name, value in common.items():
        entries = value.items() if isinstance(value, dict) else [(name, value)]
        for key, text in entries:
            if isinstance(text, str) and _OPEN.search(text):
                return Problem(key, f"{text} is known only when a member runs, or is not the same for all of them")
    return None


def check_leaving(found: Object, process: Process, find: Find, words: frozenset[str], engine: str) -> Problem | None:
    """Say that a hook takes a member out of its cluster whenever its pod stops: it has all of these words in it.

    Such members cannot be restarted one after the other.
    """
    hook = hook_words(found, process.container, "preStop", find)
    if all(word in hook for word in words):
        return Problem("lifecycle.preStop", f"its hook takes the member out of {engine} whenever the pod stops")
    return None


def find_data(found: Object, process: Process, data: tuple[str, str], *beside: tuple[str, str]) -> str | Problem:
    """Return the claim template of the volume with the data; or why data does not last, or is in several places.

    Each place is a setting with its path; those `beside` must be on the same volume.
    """
    setting, path = data
    claim = claim_at(found, process.container, path)
    if claim is None:
        return Problem(setting, f"{path or 'its default'} is on no volume of a claim template, so data does not last")
    for other, further in beside:
        if further != path and claim_at(found, process.container, further) != claim:
            why = "is not on the volume of the data, and one without the other is no member"
            return Problem(other, f"{further} {why}")
    return claim
