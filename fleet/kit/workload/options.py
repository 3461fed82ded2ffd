"""Settings of an engine that have no field of their own, given by name: which names an app may give. Pure.

What the operator decides itself, because members depend on it, cannot be set so, nor whom members let in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.kit.workload.settings_text import SettingsError, read_value
from fleet.model.base import FrozenMap
from fleet.model.validation import invalid_value


@dataclass(frozen=True, slots=True)
class OptionRules:
    """The rules of one engine."""

    engine: str
    fields: Mapping[str, str]  # by the option's name: the field that says the same
    owned: re.Pattern[str]  # what the operator sets
    trust: re.Pattern[str]  # whom members let in, without dashes: a file may know names of the engine's own source, too

    def check(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options. Raises ValueError for the first that cannot be given."""
        for name, text in options.items():
            bare = name.lstrip("-")
            if name != bare:
                raise invalid_value(f"{name!r} begins with a dash", f"write {bare!r}")
            if name in self.fields:
                raise invalid_value(f"{name!r} has a field of its own", f"set {self.fields[name]} instead")
            if self.owned.fullmatch(name):
                why = "is set by the operator: members would not find each other"
                raise invalid_value(f"{name!r} {why}", "leave it out")
            if self.trust.fullmatch(name.replace("-", "")):
                why = "says whom members let in, which is for the app's tls to say"
                raise invalid_value(f"{name!r} {why}", "leave it out")
            if not re.fullmatch(r"[a-z0-9][-a-z0-9]*", name):
                raise invalid_value(
                    f"{name!r} is not a flag of {self.engine}", "flags are lower-case words with dashes"
                )
            try:
                read_value(text)
            except SettingsError as problem:
                hint = 'such as "5000", "true" or "[a, b]"'
                raise invalid_value(f"the value of {name!r} {problem}", hint) from None
        return FrozenMap(options)
