"""Names that fleet uses in clusters: the API group of its custom resources, labels, annotations and programs.

They are alone in their module, for callers that need no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP = "fleet.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
ON_DELETE = f"{GROUP}/on-delete"  # annotation of an object that holds data: "delete" lets it go when it leaves git
MANAGER = "fleet"  # the field manager of the command line, the service and the agent
OPERATOR = "fleet-operator"  # its field manager, Deployment, ServiceAccount and Lease, and what its bindings are called
SYSTEM = "fleet-system"  # the namespace of fleet's own programs
PROGRAMS = frozenset({OPERATOR, "fleet-serve", "fleet-agent"})  # each has a Lease of its name
STACK = f"{GROUP}/stack"  # the label of an object with the stack that owns it
APP = f"{GROUP}/app"  # the label of an object that an app's operator makes, with the app's name
APP_TYPES = f"{GROUP}/app-types"  # the annotation of the operator's Lease with the types that it knows
EXPLAIN = f"{GROUP}/explain"  # the annotation with which `fleet explain` asks, and the operator says what it answers
NAME = f"{GROUP}/name"  # the label of a custom resource with the name in git of an app that was renamed there


def name_in_git(manifest: Mapping[str, Any]) -> str:
    """Return what an app is called in git; a renamed one keeps its former name in the cluster."""
    metadata = manifest["metadata"]
    return str((metadata.get("labels") or {}).get(NAME) or metadata["name"])
