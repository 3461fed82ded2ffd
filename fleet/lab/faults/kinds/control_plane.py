"""Faults of the control plane's programs, above all the API server. Simulated nodes suffice for them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil

from fleet.errors import ConfigurationError
from fleet.lab.cluster.controlplane import Program
from fleet.lab.faults import lookup
from fleet.lab.faults.fault import ActiveFault, Facts, Fault, Kind
from fleet.lab.faults.kinds import signals
from fleet.lab.locks import lock_lab
from fleet.lab.programs import process
from fleet.lab.programs.launch import launch, wait_ready

if TYPE_CHECKING:
    from fleet.lab.lab import Lab


def _resolve_program(lab: Lab, fault: Fault) -> Facts:
    return {"process": process.identify(lookup.find_program(lab, fault.cluster, fault.targets[0]).pid)}


class KillProgram(Kind):
    """The death of a program, which does not start again until the fault is over."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_program(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        victims = signals.find_processes([active.facts["process"]])
        signals.send(victims, signal.SIGKILL)
        psutil.wait_procs(victims, timeout=10)

    def end(self, lab: Lab, active: ActiveFault) -> None:
        program = _find_program(lab, active.fault)
        with lock_lab(lab.spec.name):  # `lab up` may be starting it
            if program.role not in process.running_processes(lab.directory):
                launch(lab.directory, program)

    def settle(self, lab: Lab, active: ActiveFault) -> None:
        authority = lab.plane(lab.spec.cluster(active.fault.cluster)).authority
        wait_ready(_find_program(lab, active.fault), [], authority.certificate_file)


class FreezeProgram(Kind):
    """A program that stands still: its port takes connections, and then nothing comes."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return _resolve_program(lab, fault)

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        signals.freeze(lambda: signals.find_processes([active.facts["process"]]))

    def end(self, lab: Lab, active: ActiveFault) -> None:
        signals.send(signals.find_processes([active.facts["process"]]), signal.SIGCONT)


def _find_program(lab: Lab, fault: Fault) -> Program:
    plane, name = lab.plane(lab.spec.cluster(fault.cluster)), fault.targets[0]
    for program in (plane.etcd(), plane.apiserver(), *plane.controllers(), *plane.companions()):
        if program.role == f"{fault.cluster}/{name}":
            return program
    raise ConfigurationError(f"cluster {fault.cluster!r} has no program {name!r}")
