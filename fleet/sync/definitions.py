"""Kinds that a cluster does not know yet. The definitions of fleet's own apps are installed where they are missing.

Only where they are missing: to change one that is there affects every stack of the cluster, so that is `fleet crds`'
job, or the operator's. They belong to no stack, and no sync ever deletes one. Kinds of others are refused by name
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.errors import AccessError, ConfigurationError, ConflictError, FleetError
from fleet.kube.client import Client
from fleet.kube.discovery import Discovery
from fleet.model.desired import Key
from fleet.plan import Plan, Step, Verb
from fleet.suggestion import closest

GROUP = "fleet.dev"
INSTALL = "install its CustomResourceDefinition there first, or put it into the stack as a fleet.Manifest"
Kind = tuple[str, str, str]  # group, version, kind


async def unserved(client: Client, made: Plan) -> dict[Kind, Step]:
    """What is to be created but neither served there nor defined by the plan itself, each with a step that needs it."""
    discovery = await client.discovery()
    defined = {
        (step.manifest["spec"]["group"], step.manifest["spec"]["names"]["kind"])
        for step in made.steps
        if step.manifest and step.key.kind == "CustomResourceDefinition"
    }
    return {
        (step.key.group, step.entry.version, step.key.kind): step
        for step in reversed(made.having(Verb.CREATE))
        if step.entry
        and (step.key.group, step.key.kind) not in defined
        and discovery.find(step.key.group, step.key.kind, step.entry.version) is None
    }


def refusal(cluster: str, kinds: Mapping[Kind, Step], discovery: Discovery) -> FleetError | None:
    """Return the error for the first kind that is not ours to define, with the served one that was probably meant."""
    for (group, version, kind), step in kinds.items():
        if not _is_ours(group, kind):
            return ConfigurationError(
                f"{cluster} does not know the kind {kind} ({f'{group}/' if group else ''}{version})",
                hint=_meant(discovery, group, kind) or INSTALL,
                source=step.source,
            )
    return None


def _meant(discovery: Discovery, group: str, kind: str) -> str | None:
    """Return a hint that names what is served and differs in its version, in the spelling of its kind, or its group."""
    from fleet.apps.registry import kinds as own_kinds  # noqa: PLC0415 - on the way to an error alone

    if versions := discovery.versions.get((group, kind)):
        return f"there it is served as {' and '.join(found.api_version for found in versions.values())}"
    known_kinds = {name for known, name in discovery.versions if known == group}
    if near := closest(kind, known_kinds.union(own_kinds() if group == GROUP else ()), cutoff=0.75):
        return f"did you mean {near!r}?"
    groups = {known: found for (known, name), found in discovery.versions.items() if name == kind}
    if len(groups) == 1 or closest(group, groups):
        found = groups[closest(group, groups) or next(iter(groups))]
        return f"did you mean apiVersion: {next(iter(found.values())).api_version}?"
    return None


async def define(client: Client, kinds: Iterable[Kind]) -> None:
    """Install the definitions of our own kinds and wait until they are served."""
    from fleet.kube.execute import Execution  # noqa: PLC0415 - what writes is loaded when there is something to write

    for kind in sorted({kind for _, _, kind in kinds}):
        manifest = _definition(kind)
        step = Step(Verb.CREATE, Key.of(manifest), manifest)
        result = await Execution(client, "fleet").run(step)
        if isinstance(result.error, ConflictError):
            client.forget_discovery()  # somebody else was quicker
        elif isinstance(result.error, AccessError):
            result.error.hint = "somebody who may: fleet crds | kubectl apply --server-side -f -"
            raise result.error
        elif result.error:
            raise result.error


def _is_ours(group: str, kind: str) -> bool:
    from fleet.apps.registry import driver  # noqa: PLC0415 - the app types are loaded only when one is missing

    return group == GROUP and driver(kind) is not None


def _definition(kind: str) -> dict[str, Any]:
    from fleet.apps.registry import driver  # noqa: PLC0415
    from fleet.render.crd import definition  # noqa: PLC0415

    found = driver(kind)
    if found is None:
        raise ValueError(f"{kind} is not one of our kinds")
    return definition(found)
