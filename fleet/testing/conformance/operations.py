"""Operations in trials: what a person asks of the app while it runs is one more change that it must take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.kit.operations.operation import KIND, Operation, Verb, read_operation
from fleet.kit.operations.queue import list_operations
from fleet.names import API_VERSION, GROUP
from fleet.testing.conformance.subject import Change

if TYPE_CHECKING:
    from fleet.testing.conformance.trial import Trial


def make_operation(trial: Trial, do: Verb, name: str = "", **fields: Any) -> None:
    """Make an Operation about the app of a trial, as an API server keeps it."""
    app = trial.manifest
    named = {
        "kind": app["kind"],
        "group": app["apiVersion"].partition("/")[0] or GROUP,
        "name": app["metadata"]["name"],
    }
    trial.cluster.apply(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name or do, "namespace": app["metadata"]["namespace"]},
            "spec": {"app": named, "do": do, **fields},
        }
    )


def ask(do: Verb, *, interrupts: bool = False, **fields: Any) -> Change:
    """Return the change that a person asks for with an Operation."""
    return Change(f"operation {do}", lambda trial: make_operation(trial, do, **fields), interrupts)


def operations_of(trial: Trial) -> list[Operation]:
    """Return the Operations of a trial, the oldest first."""
    return list_operations(trial.cluster.list_objects(KIND))


def operation_of(trial: Trial, name: str) -> Operation:
    """Return one Operation of a trial."""
    found = trial.cluster.get(KIND, name)
    assert found is not None, f"the operation {name} is gone"
    return read_operation(found)
