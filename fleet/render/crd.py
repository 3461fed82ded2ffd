"""The CustomResourceDefinition of an app type, generated from its model and its driver's facts."""

from __future__ import annotations

from typing import Any

from fleet.apps.driver import Driver
from fleet.apps.registry import drivers
from fleet.apps.status import Status
from fleet.model.adopt import Adopt
from fleet.model.app import ADOPTION, IDENTITY
from fleet.model.group import API_VERSION, GROUP, VERSION
from fleet.model.rule import VALIDATIONS
from fleet.model.types.name import LONGEST_APP
from fleet.render.schema import schema

_HEADER = "# Generated from the models by `fleet crds`: change those, not this.\n"
_COLUMNS = (  # name, type, path, and 1 for what only `-o wide` shows
    ("Version", "string", ".status.version", 0),
    ("Desired", "string", ".spec.version", 1),
    ("Ready", "string", ".status.ready", 0),
    ("Leader", "string", ".status.leader", 0),
    ("Health", "string", ".status.health", 0),
    ("Last Backup", "date", ".status.lastBackup.time", 0),
    ("Endpoint", "string", ".status.endpoint", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
_NAME = {
    "rule": f"self.metadata.name.size() <= {LONGEST_APP} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": f"the name must start with a letter, have no dots and at most {LONGEST_APP} characters: "
    "Services and pods are named after it",
}


def definitions() -> dict[str, dict[str, Any]]:
    """Every definition, by the name of the file that holds it in crds/."""
    return {f"{GROUP}_{_plural(driver)}.yaml": definition(driver) for driver in drivers()}


def definition(driver: Driver[Any]) -> dict[str, Any]:
    kind, plural = driver.app.kind(), _plural(driver)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "fleet"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(driver.meta.short_names),
                "categories": ["fleet"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
                    "schema": {"openAPIV3Schema": _root(driver)},
                }
            ],
        },
    }


def text(definition: dict[str, Any]) -> str:
    """As a file of crds/ has it."""
    from fleet.yaml_text import dump  # noqa: PLC0415 - for files only

    return _HEADER + dump(definition)


def _root(driver: Driver[Any]) -> dict[str, Any]:
    spec = schema(driver.app, leave_out=IDENTITY)
    name = driver.meta.name
    spec["properties"][ADOPTION] = schema(Adopt)
    spec["properties"][ADOPTION]["description"] = "Members that run already and are taken over as they are."
    spec["description"] = f"What {name} should be: written in git, applied by `fleet sync`."
    status = schema(Status)
    status["description"] = f"What {name} is: written by the operator."
    return {
        "type": "object",
        "description": driver.meta.words,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {driver.app.kind()}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        VALIDATIONS: [_NAME],
    }


def _column(name: str, kind: str, path: str, wide: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


def _plural(driver: Driver[Any]) -> str:
    kind = driver.app.kind().lower()
    return kind if kind.endswith("s") else f"{kind}s"
