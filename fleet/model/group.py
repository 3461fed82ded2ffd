"""The API group of our custom resources, and its words. Alone in its module, for those who need no model."""

from __future__ import annotations

GROUP = "fleet.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
ON_DELETE = f"{GROUP}/on-delete"  # annotation of an object that holds data: "delete" lets it go when it leaves git
OPERATOR = "fleet-operator"  # its Deployment, ServiceAccount and Lease, and what its bindings are called
PROGRAMS = frozenset({OPERATOR, "fleet-serve", "fleet-agent"})  # each has a Lease of its name
