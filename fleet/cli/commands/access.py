"""What a sync needs from a cluster, looked at one by one; every finding is a line for people. It changes nothing."""

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

OLDEST = (1, 31)
_VERBS = ("get", "list", "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `problem` is None when it is well; `hint` may be there either way."""

    what: str
    detail: str
    problem: FleetError | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One thing that a sync must be allowed; "" as namespace is all of them, or none for what has none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}{f' in {self.namespace}' if self.namespace else ''}"


async def look(cluster: ClusterData, wanted: Sequence[Desired], kubeconfig: Path | None) -> list[Finding]:
    """Everything about one cluster, up to the first thing without which the rest cannot be known."""
    findings: list[Finding] = []
    stage = "context"
    try:
        async with _connected(cluster, kubeconfig) as client:
            findings.append(Finding(stage, cluster.kubeconfig_context))
            stage = "reachable"
            findings += await _reached(client)
            stage = "definitions"
            discovery = await client.discovery()
            findings.append(_definitions(wanted, discovery))
            stage = "rights"
            findings.append(await _rights(client, needed(wanted, discovery)))
    except FleetError as error:
        findings.append(Finding(stage, error.message, error, error.hint))
    return findings


async def version(cluster: ClusterData, kubeconfig: Path | None) -> str:
    """The server's version; raises why it cannot be told."""
    async with _connected(cluster, kubeconfig) as client:
        return str((await client.request("GET", "/version")).body["gitVersion"])


@asynccontextmanager
async def _connected(cluster: ClusterData, kubeconfig: Path | None) -> AsyncIterator[Client]:
    from fleet.kube.client.client import Client

    async with Client.of(kubeconfig, cluster.kubeconfig_context, cluster=cluster.name) as client:
        yield client


def is_old(text: str) -> bool:
    """Whether a version such as "v1.31.4+k3s1" is older than what is supported; one that cannot be read is not."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return match is not None and (int(match[1]), int(match[2])) < OLDEST


def needed(wanted: Iterable[Desired], discovery: Discovery) -> list[Right]:
    """What a sync does in the cluster: its own memory, namespaces, the definitions of kinds, and what stacks hold."""
    from fleet.kube.resources import NAMESPACE
    from fleet.plan.effect import is_retained

    rights = {
        Right(verb, group, resource, NAMESPACE)
        for group, resource in (("", "configmaps"), ("coordination.k8s.io", "leases"))
        for verb in (*_VERBS, "update")
    }
    rights |= {Right("patch", "", "namespaces"), Right("get", "", "namespaces")}
    for desired in wanted:
        for each in desired.objects:
            resource = discovery.find(each.key.group, each.key.kind)
            if resource is None:  # the sync defines it first; before that nobody can be asked about its objects
                rights |= {Right(verb, "apiextensions.k8s.io", "customresourcedefinitions") for verb in _VERBS[:4]}
                continue
            if (each.key.group, each.key.kind) == ("", "PersistentVolumeClaim"):  # is it well while no pod uses it?
                rights.add(Right("get", "storage.k8s.io", "storageclasses"))
            stays = each.retain_on_delete or is_retained(each.key, each.manifest)
            verbs = _VERBS[:4] if stays else _VERBS
            rights |= {Right(verb, resource.group, resource.plural, each.key.namespace) for verb in verbs}
    return sorted(rights)


async def _reached(client: Client) -> list[Finding]:
    begin = time.perf_counter()
    answer = await client.request("GET", "/version")
    took = (time.perf_counter() - begin) * 1000
    text = str(answer.body["gitVersion"])
    least = ".".join(map(str, OLDEST))
    old = (
        ResourceError(f"Kubernetes {text} is older than {least}", hint="upgrade the cluster") if is_old(text) else None
    )
    return [
        Finding("reachable", f"{client.place.server}, {took:.0f} ms"),
        Finding("version", text if old is None else old.message, old, old.hint if old else None),
    ]


def _definitions(wanted: Iterable[Desired], discovery: Discovery) -> Finding:
    from fleet.apps.registry import kinds
    from fleet.model.app import GROUP

    there = [kind for kind in kinds() if discovery.find(GROUP, kind)]
    missing = sorted({kind for kind in kinds() if kind not in there})
    used = {each.key.kind for desired in wanted for each in desired.objects if each.key.group == GROUP}
    if not missing:
        return Finding("definitions", ", ".join(there))
    names = ", ".join(f"{kind} (used)" if kind in used else kind for kind in missing)
    return Finding(
        "definitions",
        f"not yet there: {names}",
        hint="the first sync that needs them defines them; beforehand: fleet crds | kubectl apply --server-side -f -",
    )


async def _rights(client: Client, rights: Sequence[Right]) -> Finding:
    allowed = await asyncio.gather(*(_may(client, right) for right in rights))
    missing = [right for right, yes in zip(rights, allowed, strict=True) if not yes]
    if not missing:
        return Finding("rights", f"all {len(rights)} that a sync of this repository needs")
    shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    error = AccessError(f"may not {shown}", hint=f"check with: kubectl auth can-i --list{client.place.flag}")
    return Finding("rights", error.message, error, error.hint)


async def _may(client: Client, right: Right) -> bool:
    attributes: dict[str, Any] = {
        "verb": right.verb, "group": right.group, "resource": right.resource, "namespace": right.namespace,
    }  # fmt: skip
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    return bool(answer.body["status"].get("allowed"))
