"""The table of faults: every verb, the place of its declaration, and its line in the help. Kinds are found by it too.

It loads nothing before a fault is used, so that `fleet lab fault --help` and shell completion answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleet.errors import ConfigurationError

if TYPE_CHECKING:
    from fleet.lab.faults.fault import Kind
    from fleet.lab.faults.verb import FaultVerb

# A schedule draws in this order. An old seed has to give the events that it gave, so new lines come last, and what they
# let chance draw is drawn only for users who ask for it (`is_default=False`).
FAULTS = {
    "kill": (
        "fleet.lab.faults.kinds.processes:KILL",
        "Kill a pod's processes, a node or a program, as by kill -9 or a loss of power.",
    ),
    "freeze": (
        "fleet.lab.faults.kinds.processes:FREEZE",
        "Let a pod's processes, a node or a program stand still: it holds what it has and answers nothing.",
    ),
    "stop": ("fleet.lab.faults.kinds.nodes:STOP", "Shut a node down in good order."),
    "partition": (
        "fleet.lab.faults.kinds.network:PARTITION",
        "Let no packet through between nodes or pods and others, the API server for instance.",
    ),
    "disturb": (
        "fleet.lab.faults.kinds.network:DISTURB",
        "Delay, drop and reorder packets between nodes or pods and others.",
    ),
    "fill": (
        "fleet.lab.faults.kinds.volumes:FILL",
        "Fill a volume: whoever writes to it is told that no space is left.",
    ),
    "corrupt": ("fleet.lab.faults.kinds.volumes:CORRUPT", "Change bytes of a file on a volume."),
    "lose": (
        "fleet.lab.faults.kinds.volumes:LOSE",
        "Lose all that is on a volume, or a node with all its disks, for good.",
    ),
    "api fail": ("fleet.lab.faults.api.kinds:FAIL", "Answer requests with an error; they are not carried out."),
    "api slow": ("fleet.lab.faults.api.kinds:SLOW", "Carry requests out later."),
    "api forget": (
        "fleet.lab.faults.api.kinds:FORGET",
        "End watches with 410, as a server does that has forgotten the past: clients have to list anew.",
    ),
    "api skew": (
        "fleet.lab.faults.api.kinds:SKEW",
        "Show times in Leases shifted: who judges a holder by them takes it for dead, or for alive.",
    ),
}


def list_verbs(group: str = "") -> dict[str, str]:
    """Return the verbs of a group of commands, each with its line of help; nothing is loaded for it."""
    split_keys = {key: key.rpartition(" ") for key in FAULTS}
    return {name: FAULTS[key][1] for key, (own_group, _, name) in split_keys.items() if own_group == group}


def load_verb(name: str, group: str = "") -> FaultVerb:
    """Return the verb of this name, and import what declares it; raise KeyError if there is none."""
    module, _, attribute = FAULTS[f"{group} {name}".strip()][0].partition(":")
    verb: FaultVerb = getattr(import_module(module), attribute)
    return verb


def load_verbs() -> list[FaultVerb]:
    """Return all verbs in the order of the table."""
    return [load_verb(name, group) for group, _, name in (key.rpartition(" ") for key in FAULTS)]


def load_kind(name: str) -> Kind:
    """Return the kind of this name, which begins with its verb; raise ConfigurationError if there is none."""
    for group, _, verb_name in (key.rpartition(" ") for key in FAULTS):
        if name.partition("-")[0] == verb_name and (kind := load_verb(verb_name, group).kinds.get(name)):
            return kind()
    kinds = [kind for verb in load_verbs() for kind in verb.kinds]
    raise ConfigurationError(f"there is no fault {name!r}", hint=f"there are: {', '.join(kinds)}")
