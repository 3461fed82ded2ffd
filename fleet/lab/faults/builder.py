"""A builder of faults: for each verb of `registry.FAULTS` a method with the verb's arguments. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.lab.faults.fault import Fault
from fleet.lab.faults.methods import FaultMethods
from fleet.lab.faults.verb import FaultVerb, TargetScope


@dataclass(frozen=True, slots=True)
class FaultBuilder(TargetScope, FaultMethods):
    """A builder of faults of one cluster; pods and volumes without a namespace are in `namespace`."""

    def _use_verb(self, verb: FaultVerb, *arguments: Any, **options: Any) -> Fault:
        return verb.make(self, *arguments, **options)
