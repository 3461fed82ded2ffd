"""Faults made in a lab on purpose, each undone in the end, whatever happens to the process that made it.

A `Fault` is data: a kind and what it happens to. `inject` makes it so and `clear` undoes it:

    fault = Fault("freeze-pod", cluster="lab", targets=("pod/default/web-0",))
    active = inject(lab, fault, owner=identify(os.getpid()))
    clear(lab, [active.id])

**A new fault** is a module in `kinds` with a subclass of `Kind` and a `FaultVerb`, and one line in `registry.FAULTS`.
The signature of the verb's function declares the arguments, once: the command and its help, the methods of
`FaultBuilder` and of `fleet.testing.Faults`, and the choices of a schedule are derived from it (`verb.py`).

Of the kind:

- `resolve(lab, fault)` looks and changes nothing. It refuses what cannot be (ConfigurationError, NotFoundError) and
  returns *facts*: plain JSON with all that `begin` and `end` need to know, such as process ids or old bytes. `end`
  may run in another process, later, with the API server dead: it gets these facts and cannot ask for more.
- `begin(lab, active)` makes it so. The record is on disk before; a crash in the middle is undone by `end`.
- `end(lab, active)` undoes it. It may be called for one that never began, began half, or was undone already, and when
  the thing it happened to is gone; none of these is an error.
- `lasts = False` is for what happens once (a process is killed): `end` comes right after `begin` and brings it to its
  end, which is often nothing. If the process that makes it dies in between, `end` comes when that is noticed.

**A record** is `faults/ID.json` in the lab's directory, an `ActiveFault`: the fault, its facts, since when, `owner`
(process id and start time: the fault ends with that process) and `until` (it ends at that time). Without both it
stays until a user clears it. `list_active` reads them; `clear` ends those named, the last one first, and removes
their records.

**The guardian** (`guardian.py`) is one process per lab, started with the first fault that has an owner or an end. It
waits for the deaths of owners and for the time, and clears. If it was killed too, the next command about faults does
its work.

**A program that a fault needs** while it lasts (a proxy, a queue of packets) is started with
`records.start_program(lab, active, name, command)` in `begin` and ended with `records.stop_programs(lab, active)` in
`end`. It carries the lab's mark like all of its processes, so `lab down` ends it. **Packet rules** belong in the
network namespaces of nodes and pods (`kinds/packets.py`), which go with their nodes: nothing is ever added to the
machine's own. So `down` needs to know nothing about faults.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind
    from fleet.lab.faults.injection import clear, inject, list_active

_HOME = {
    **dict.fromkeys(("ActiveFault", "Facts", "Fault", "Kind"), "fleet.lab.faults.fault"),
    **dict.fromkeys(("clear", "inject", "list_active"), "fleet.lab.faults.injection"),
}

__all__ = ["ActiveFault", "Facts", "Fault", "Kind", "clear", "inject", "list_active"]


def __getattr__(name: str) -> object:
    """Return a public name of the package, and load its module first; raise AttributeError for any other name."""
    if name not in _HOME:
        raise AttributeError(f"module 'fleet.lab.faults' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
