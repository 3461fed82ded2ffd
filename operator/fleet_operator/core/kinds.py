"""The kinds of objects that the operator looks at and makes."""

from __future__ import annotations

from typing import Any

from fleet.kit.operate.engine import Engine
from fleet.kit.operations.operation import RESOURCE
from fleet.objects.resource import Resource

SERVICES = Resource("", "v1", "Service", "services", True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
SECRETS = Resource("", "v1", "Secret", "secrets", True)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True)
PODS = Resource("", "v1", "Pod", "pods", True)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", True)
REVISIONS = Resource("apps", "v1", "ControllerRevision", "controllerrevisions", True)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True)
JOBS = Resource("batch", "v1", "Job", "jobs", True)
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs", True)
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", True)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True)
OPERATIONS = RESOURCE
NODES = Resource("", "v1", "Node", "nodes", False)
VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", False)

CHILDREN = (SERVICES, CONFIG_MAPS, SECRETS, CLAIMS, PODS, STATEFUL_SETS, BUDGETS, JOBS, CRON_JOBS)
FURTHER = (ACCOUNTS, BINDINGS, ENDPOINT_SLICES)  # of apps whose type asks for them
SPARED = (NETWORK_POLICIES,)  # where these cannot be seen, apps are looked after all the same
BY_KIND = {resource.kind: resource for resource in (*CHILDREN, *FURTHER, *SPARED, REVISIONS, NODES, OPERATIONS)}


def children(engine: Engine[Any, Any]) -> tuple[Resource, ...]:
    """Return the kinds of what an engine's apps are made of."""
    return (*CHILDREN, *(BY_KIND[kind] for kind in engine.further_kinds))


def of(found: dict[str, object]) -> Resource:
    return BY_KIND[str(found["kind"])]
