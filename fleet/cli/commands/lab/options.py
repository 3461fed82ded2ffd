"""Options that the commands of `fleet lab` share, and what they stand for: a lab, and where a fault is to be.

It is a part of these commands and none of its own. Labs are opened when a command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from fleet.cli.output import print_message

if TYPE_CHECKING:
    from fleet.lab.faults import Fault
    from fleet.lab.faults.verb import TargetScope
    from fleet.lab.lab import Lab


def _complete_lab(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a lab."""
    from fleet.lab.spec import list_lab_names

    return [name for name in list_lab_names() if name.startswith(incomplete)]


name_option = click.option(
    "--name", default="default", show_default=True, help="Name of the lab.", shell_complete=_complete_lab
)


def open_lab(name: str) -> Lab:
    """Open a lab that exists; raise an error if there is none of that name."""
    from fleet.lab.lab import Lab

    return Lab.open(name)


@dataclass(frozen=True, slots=True)
class FaultScope:
    """Where the targets of a command are, and how long its fault is to last."""

    name: str
    cluster: str | None
    namespace: str
    seconds: float | None = None  # None until it is cleared

    @property
    def lab(self) -> Lab:
        return open_lab(self.name)

    @property
    def targets(self) -> TargetScope:
        """Return the cluster and the namespace in which targets are looked for."""
        from fleet.lab.faults.verb import TargetScope

        return TargetScope(self.lab.spec.cluster_or_first(self.cluster).name, self.namespace)

    def begin(self, fault: Fault) -> None:
        """Begin a fault that outlives this process, and tell the user how it ends."""
        from fleet.lab.faults import inject
        from fleet.lab.faults.registry import load_kind

        active = inject(self.lab, fault, seconds=self.seconds)
        if not load_kind(fault.kind).lasts:
            print_message(f"done: {fault}")
            return
        option = "" if self.name == "default" else f" --name {self.name}"
        end = f"undo it: fleet lab fault clear {active.id}{option}"
        print_message(f"fault {active.id}: {fault}; {end if self.seconds is None else f'for {self.seconds:g} s'}")
