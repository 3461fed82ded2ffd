"""A plan, tried out: every request that a sync would send, as a dry run that the server checks and does not store.

Admission, validation, quotas and webhooks have their say, and what they say is known before anybody merges. What cannot
be tried yet (its namespace or its kind is made by the same plan) is left out, and so is what nobody may try.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.errors import AccessError, FleetError
from fleet.kube.client import errors
from fleet.kube.client.client import Client
from fleet.kube.client.errors import UnansweredError
from fleet.kube.concurrency import together
from fleet.kube.discovery import Discovery, Resource
from fleet.kube.objects import NEVER, apply, delete
from fleet.kube.secret_fields import secrecy_for
from fleet.objects.desired import Key
from fleet.objects.redaction import SecretValues
from fleet.plan.step import Plan, Step, Verb


@dataclass(slots=True)
class Rehearsal:
    objections: dict[Key, str] = field(default_factory=dict)
    forbidden: list[Key] = field(default_factory=list)  # no right to try it


async def rehearse(client: Client, plan: Plan) -> Rehearsal:
    """What the server has against the steps. An answer that does not come is raised: it says nothing about the plan."""
    discovery = await client.discovery()
    made = {step.key.name for step in plan.having(Verb.CREATE) if (step.key.group, step.key.kind) == ("", "Namespace")}
    found = Rehearsal()
    tried = [step for step in plan.steps if step.verb.writes and step.key.namespace not in made]
    await together([_try(client, discovery, step, found) for step in tried])
    return found


async def _try(client: Client, discovery: Discovery, step: Step, found: Rehearsal) -> None:
    version = step.manifest["apiVersion"].rpartition("/")[2] if step.manifest else None
    resource = discovery.find(step.key.group, step.key.kind, version)
    if resource is None:
        return
    try:
        said = await _said(client, resource, step)
    except UnansweredError:
        raise
    except AccessError:
        found.forbidden.append(step.key)
        return
    except FleetError as problem:
        said = problem.message
    if said:
        manifests = [step.manifest] if step.manifest else []
        hidden = SecretValues.of(manifests, await secrecy_for(client, [step]), public=step.key)
        found.objections[step.key] = hidden.redact(said)


async def _said(client: Client, resource: Resource, step: Step) -> str:
    key = step.key
    if step.verb is Verb.DELETE:
        uid, version = step.uid or "", step.resource_version
        answer = await delete(client, resource, key.namespace, key.name, uid=uid, resource_version=version, dry=True)
        return "" if answer.status in (200, 202, 404) else errors.said(answer.body)
    if step.manifest is None:
        return ""
    if step.verb is Verb.CREATE:
        answer = await apply(client, resource, step.manifest, force=False, dry=True, resourceVersion=NEVER)
    else:
        answer = await apply(client, resource, step.manifest, force=True, dry=True, uid=step.uid or "")
    return "" if answer.status in (200, 201) else errors.said(answer.body)
