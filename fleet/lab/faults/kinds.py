"""The kinds of faults by name. A new one is a module and a line here; it is imported when it is used."""

from __future__ import annotations

import importlib

from fleet.errors import ConfigurationError
from fleet.lab.faults.kind import Kind

KINDS: dict[str, str] = {}


def kind(name: str) -> Kind:
    if name not in KINDS:
        raise ConfigurationError(f"there is no fault {name!r}", hint=f"there are: {', '.join(KINDS)}")
    module, _, attribute = KINDS[name].partition(":")
    found: type[Kind] = getattr(importlib.import_module(f"fleet.lab.faults.{module}"), attribute)
    return found()
