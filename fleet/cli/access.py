"""What a sync needs from a cluster, checked one after the other; every finding is a line for people.

It asks clusters and changes nothing in them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.errors import AccessError, FleetError, ResourceError

if TYPE_CHECKING:
    from fleet.evaluate import ClusterData
    from fleet.kube.client.client import Client
    from fleet.kube.discovery import Discovery
    from fleet.objects.desired import Desired

OLDEST = (1, 31)  # the oldest release of Kubernetes that is supported
_VERBS = ("get", "list", "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class AccessFinding:
    """A thing that was checked. `problem` is None if it is as needed; `hint` may be given either way."""

    what: str
    detail: str
    problem: FleetError | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A thing that a sync must be allowed; "" as namespace stands for all, or for none where there are none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}{f' in {self.namespace}' if self.namespace else ''}"


async def check_access(
    cluster: ClusterData, desired: Sequence[Desired], kubeconfig: Path | None
) -> list[AccessFinding]:
    """Return all findings about a cluster, up to the first thing without which the rest cannot be known."""
    findings: list[AccessFinding] = []
    stage = "context"
    try:
        async with _connect(cluster, kubeconfig) as client:
            findings.append(AccessFinding(stage, cluster.kubeconfig_context))
            stage = "reachable"
            findings += await _check_version(client)
            stage = "definitions"
            discovery = await client.discovery()
            findings.append(_check_definitions(desired, discovery))
            stage = "rights"
            findings.append(await _check_rights(client, list_needed_rights(desired, discovery)))
    except FleetError as error:
        findings.append(AccessFinding(stage, error.message, error, error.hint))
    return findings


async def read_version(cluster: ClusterData, kubeconfig: Path | None) -> str:
    """Return the version of the API server; raise an error if it cannot be asked."""
    async with _connect(cluster, kubeconfig) as client:
        return str((await client.request("GET", "/version")).body["gitVersion"])


@asynccontextmanager
async def _connect(cluster: ClusterData, kubeconfig: Path | None) -> AsyncIterator[Client]:
    """Connect to a cluster of the repository."""
    from fleet.kube.client.client import Client

    async with Client.of(kubeconfig, cluster.kubeconfig_context, cluster=cluster.name) as client:
        yield client


def is_old(text: str) -> bool:
    """Return whether a version such as "v1.31.4+k3s1" is older than OLDEST; one that cannot be read is not."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return match is not None and (int(match[1]), int(match[2])) < OLDEST


def list_needed_rights(stacks: Iterable[Desired], discovery: Discovery) -> list[Right]:
    """Return the rights on what a sync touches: inventories, leases, namespaces, definitions, and objects of stacks."""
    from fleet.kube.resources import NAMESPACE
    from fleet.plan.effect import is_retained

    rights = {
        Right(verb, group, resource, NAMESPACE)
        for group, resource in (("", "configmaps"), ("coordination.k8s.io", "leases"))
        for verb in (*_VERBS, "update")
    }
    rights |= {Right("patch", "", "namespaces"), Right("get", "", "namespaces")}
    for desired in stacks:
        for item in desired.objects:
            resource = discovery.find(item.key.group, item.key.kind)
            if resource is None:  # the sync defines it first; before that the API server knows nothing of its objects
                rights |= {Right(verb, "apiextensions.k8s.io", "customresourcedefinitions") for verb in _VERBS[:4]}
                continue
            if (item.key.group, item.key.kind) == ("", "PersistentVolumeClaim"):  # is it well while no pod uses it?
                rights.add(Right("get", "storage.k8s.io", "storageclasses"))
            is_kept = item.retain_on_delete or is_retained(item.key, item.manifest)
            verbs = _VERBS[:4] if is_kept else _VERBS
            rights |= {Right(verb, resource.group, resource.plural, item.key.namespace) for verb in verbs}
    return sorted(rights)


async def _check_version(client: Client) -> list[AccessFinding]:
    """Return whether the API server answers, and whether its version is supported."""
    begin = time.perf_counter()
    response = await client.request("GET", "/version")
    milliseconds = (time.perf_counter() - begin) * 1000
    text = str(response.body["gitVersion"])
    oldest = ".".join(map(str, OLDEST))
    error = (
        ResourceError(f"Kubernetes {text} is older than {oldest}", hint="upgrade the cluster") if is_old(text) else None
    )
    return [
        AccessFinding("reachable", f"{client.place.server}, {milliseconds:.0f} ms"),
        AccessFinding("version", text if error is None else error.message, error, error.hint if error else None),
    ]


def _check_definitions(stacks: Iterable[Desired], discovery: Discovery) -> AccessFinding:
    """Return which of our custom resource definitions the cluster lacks; that is no error."""
    from fleet.apps.registry import usable_drivers

    types = [driver.app for driver in usable_drivers()]
    defined = [app.kind() for app in types if discovery.find(app.api_group, app.kind())]
    missing = sorted(app.kind() for app in types if app.kind() not in defined)
    used = {item.app for desired in stacks for item in desired.objects if item.app}
    if not missing:
        return AccessFinding("definitions", ", ".join(defined))
    names = ", ".join(f"{kind} (used)" if kind in used else kind for kind in missing)
    return AccessFinding(
        "definitions",
        f"not yet there: {names}",
        hint="the first sync that needs them defines them; beforehand: fleet crds | kubectl apply --server-side -f -",
    )


async def _check_rights(client: Client, rights: Sequence[Right]) -> AccessFinding:
    """Return which of the rights the API server does not grant."""
    allowed = await asyncio.gather(*(_has_right(client, right) for right in rights))
    missing = [right for right, is_allowed in zip(rights, allowed, strict=True) if not is_allowed]
    if not missing:
        return AccessFinding("rights", f"all {len(rights)} that a sync of this repository needs")
    shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    error = AccessError(f"may not {shown}", hint=f"check with: kubectl auth can-i --list{client.place.flag}")
    return AccessFinding("rights", error.message, error, error.hint)


async def _has_right(client: Client, right: Right) -> bool:
    """Ask the API server whether the user of these credentials has a right."""
    attributes: dict[str, Any] = {
        "verb": right.verb, "group": right.group, "resource": right.resource, "namespace": right.namespace,
    }  # fmt: skip
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    response = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    return bool(response.body["status"].get("allowed"))
