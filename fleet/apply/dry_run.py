"""Dry run of a plan: every request that a sync would send, which the server checks and does not store.

Admission, validation, quotas and webhooks are asked, and their objections are known before the merge. What cannot be
tried yet (its namespace or its kind is made by the same plan) is left out, and so is what the user may not try.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.errors import AccessError, FleetError
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.client.errors import UnansweredError
from fleet.kube.concurrency import gather
from fleet.kube.discovery import Discovery
from fleet.kube.objects import apply, delete
from fleet.kube.openapi import secret_fields_for
from fleet.objects.desired import Key
from fleet.objects.redaction import SecretValues
from fleet.objects.resource import NEVER, Resource
from fleet.plan.step import Plan, Step, Verb


@dataclass(slots=True)
class DryRun:
    """The outcome of a dry run."""

    objections: dict[Key, str] = field(default_factory=dict)
    forbidden: list[Key] = field(default_factory=list)  # no right to try it


async def dry_run(client: Client, plan: Plan) -> DryRun:
    """Return what the server has against the steps. A missing answer is raised: it says nothing about the plan."""
    discovery = await client.discovery()
    new_namespaces = {
        step.key.name for step in plan.having(Verb.CREATE) if (step.key.group, step.key.kind) == ("", "Namespace")
    }
    result = DryRun()
    steps = [step for step in plan.steps if step.verb.writes and step.key.namespace not in new_namespaces]
    await gather([_try_step(client, discovery, step, result) for step in steps])
    return result


async def _try_step(client: Client, discovery: Discovery, step: Step, result: DryRun) -> None:
    version = step.manifest["apiVersion"].rpartition("/")[2] if step.manifest else None
    resource = discovery.find(step.key.group, step.key.kind, version)
    if resource is None:
        return
    try:
        objection = await _objection_of(client, resource, step)
    except UnansweredError:
        raise
    except AccessError:
        result.forbidden.append(step.key)
        return
    except FleetError as error:
        objection = error.message
    if objection:
        manifests = [step.manifest] if step.manifest else []
        hidden = SecretValues.of(manifests, await secret_fields_for(client, [step]), public=step.key)
        result.objections[step.key] = hidden.redact(objection)


async def _objection_of(client: Client, resource: Resource, step: Step) -> str:
    key = step.key
    if step.verb is Verb.DELETE:
        uid, version = step.uid or "", step.resource_version
        answer = await delete(client, resource, key.namespace, key.name, uid=uid, resource_version=version, dry=True)
        return "" if answer.status in (200, 202, 404) else errors.error_text(answer.body)
    if step.manifest is None:
        return ""
    if step.verb is Verb.CREATE:
        answer = await apply(client, resource, step.manifest, force=False, dry=True, resourceVersion=NEVER)
    else:
        answer = await apply(client, resource, step.manifest, force=True, dry=True, uid=step.uid or "")
    return "" if answer.status in (200, 201) else errors.error_text(answer.body)
