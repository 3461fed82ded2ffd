"""`fleet explain`: what the operator observed of an app, which concern decided, what it does and what it waits for.

The operator decides from what members say, and it alone talks to them; so it is asked, by an annotation of the app's
resource, and answers in a ConfigMap beside the app (`fleet_operator.core.explain`). Where it does not answer, there is
what the cluster says of the app: its status, its events, and how its objects are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.apps import AppQuery, LiveApp, app_options, find_app
from fleet.cli.options import Seconds
from fleet.cli.output import emit_result, output_option, print_message

if TYPE_CHECKING:
    from fleet.apps.replay import ReplayedDecision
    from fleet.kube.client.client import Client

MANAGER = "fleet-explain"  # the field manager of the annotation with which the operator is asked
POLL_INTERVAL = 0.3  # seconds between two looks for the answer
MOST_EVENTS = 5
Data = Mapping[str, Any]


@click.command()
@partial(app_options, required=False)
@click.option("--timeout", type=Seconds(), default="30s", show_default=True, help="How long to wait for the operator.")
@click.option(
    "--record",
    "record_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was observed and decided into this file, for a bug report.",
)
@click.option(
    "--replay",
    "replay_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Let this release decide again what a file of --record holds; no cluster is asked.",
)
@output_option
def explain(query: AppQuery, *, timeout: float, record_file: Path | None, replay_file: Path | None, form: str) -> int:
    """Say what the operator observed of APP, what it decided and why, and who or what it waits for.

    The operator is asked through the app's resource, which takes the right to patch it and to read ConfigMaps beside
    it. Without an answer you see what the status, events and objects of the app say. A record has names, settings and
    the last words of programs, and no data of Secrets: read it before you give it away.

    \b
    fleet explain registry --cluster eu-1
    fleet explain registry --record registry.json
    fleet explain --replay registry.json
    """
    if replay_file is not None:
        if query.name or record_file is not None:
            raise click.UsageError("--replay reads a file and asks no cluster: leave out APP and --record")
        return _replay(replay_file, form)
    if not query.name:
        raise click.UsageError("say which APP, or --replay FILE")
    return _explain(find_app(query), timeout, record_file, form)


def _explain(live: LiveApp, timeout: float, record_file: Path | None, form: str) -> int:
    import asyncio

    record, reason = asyncio.run(_ask_operator(live, timeout))
    if record is None:
        if record_file is not None:
            from fleet.errors import ResourceError

            raise ResourceError(
                f"{live}: there is nothing to record: {reason}",
                hint="`fleet operator status` says whether an operator runs; without --record you see what is known",
            )
        seen = asyncio.run(_read_objects(live))
        emit_result(_known_data(live, seen, reason), form, lambda: _format_known(live, seen, reason))
        return 0
    if record_file is not None:
        _write_record(record_file, record)
    decisions = [_without_observation(decision) for decision in record["decisions"]]
    data = {**_identify(live), "source": "operator", "release": record.get("release"), "decisions": decisions}
    try:
        text = _format_decisions(str(live), decisions)
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # whoever may write there can change an answer
        from fleet.kit.operate.record import RecordError

        raise RecordError(f"{live}: the answer is not as an operator of this release writes it: {error}") from error
    emit_result(data, form, lambda: text)
    return 0


# Asking


async def _ask_operator(live: LiveApp, seconds: float) -> tuple[dict[str, Any] | None, str]:
    """Return the operator's record of an app; or None, and why there is none."""
    from fleet.errors import AccessError, FleetError

    try:
        async with live.cluster.client() as client:
            return await _ask(client, live, seconds)
    except AccessError as error:
        return None, f"the operator cannot be asked: {error.message}"
    except FleetError as error:
        return None, f"the operator's answer cannot be had: {error.message}"


async def _ask(client: Client, live: LiveApp, seconds: float) -> tuple[dict[str, Any] | None, str]:
    import asyncio
    import secrets
    import time
    from base64 import b64decode

    from fleet.kit.operate.record import RECORD, read_record

    token = secrets.token_hex(8)
    await _write_question(client, live, token)
    try:
        deadline = time.monotonic() + seconds
        while (answer := await _read_answer(client, live, token)) is None:
            if time.monotonic() > deadline:
                return None, f"no operator answered in {seconds:g} s"
            await asyncio.sleep(POLL_INTERVAL)
    finally:
        await _take_back_question(client, live)
    return read_record(b64decode((answer.get("binaryData") or {}).get(RECORD, ""))), ""


async def _take_back_question(client: Client, live: LiveApp) -> None:
    """Have the operator delete its answer. Where that fails, there is an answer to show all the same."""
    from fleet.errors import FleetError

    try:
        await _write_question(client, live, "")
    except FleetError as error:
        print_message(f"the annotation that asked the operator stays on {live}: {error.message}")


async def _write_question(client: Client, live: LiveApp, token: str) -> None:
    """Write the annotation that asks the operator, or with "" remove it."""
    from fleet.errors import ResourceError
    from fleet.kube.client.errors import error_text
    from fleet.kube.objects import apply
    from fleet.names import EXPLAIN

    metadata: dict[str, Any] = {"name": live.name, "namespace": live.namespace}
    if token:
        metadata["annotations"] = {EXPLAIN: token}
    manifest = {"apiVersion": live.resource.api_version, "kind": live.resource.kind, "metadata": metadata}
    uid = str(live.manifest["metadata"]["uid"])
    response = await apply(client, live.resource, manifest, force=True, manager=MANAGER, uid=uid)
    if response.status >= 300:
        raise ResourceError(f"{live} changed meanwhile: {error_text(response.body)}", hint="try again")


async def _read_answer(client: Client, live: LiveApp, token: str) -> dict[str, Any] | None:
    from fleet.kit.operate.record import PURPOSE
    from fleet.kube.objects import get
    from fleet.names import EXPLAIN
    from fleet.objects.resource import Resource

    config_maps = Resource("", "v1", "ConfigMap", "configmaps", True)
    record = await get(client, config_maps, live.namespace, f"{live.name}-{PURPOSE}")
    is_answer = record is not None and (record["metadata"].get("annotations") or {}).get(EXPLAIN) == token
    return record if is_answer else None


async def _read_objects(live: LiveApp) -> dict[str, Any]:
    """Return the last events of an app, and the objects of it that are not well; what may not be read is a line."""
    from fleet.errors import FleetError
    from fleet.kube.health import State, judge
    from fleet.kube.objects import ObjectScope, pages
    from fleet.names import APP
    from fleet.objects.resource import Resource

    kinds = (
        Resource("apps", "v1", "StatefulSet", "statefulsets", True),
        Resource("", "v1", "Pod", "pods", True),
        Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True),
    )
    labels = f"{APP}={live.name},fleet.dev/kind={live.resource.kind}"
    unwell: list[dict[str, str]] = []
    events: list[dict[str, str]] = []
    unread: list[str] = []
    async with live.cluster.client() as client:
        for resource in kinds:
            try:
                async for page in pages(client, ObjectScope(resource, live.namespace, labels=labels)):
                    for item in page["items"]:
                        health = judge({"apiVersion": resource.api_version, "kind": resource.kind, **item})
                        if health.state is not State.HEALTHY:
                            name = f"{resource.kind} {item['metadata']['name']}"
                            unwell.append({"object": name, "health": health.state, "message": health.message})
            except FleetError as error:
                unread.append(error.message)
        try:
            fields = f"regarding.name={live.name},regarding.kind={live.resource.kind}"
            scope = ObjectScope(Resource("events.k8s.io", "v1", "Event", "events", True), live.namespace, fields=fields)
            events = [_read_event(event) async for page in pages(client, scope) for event in page["items"]]
        except FleetError as error:
            unread.append(error.message)
    return {
        "objects": unwell,
        "events": sorted(events, key=lambda event: event["time"])[-MOST_EVENTS:],
        "unread": unread,
    }


def _read_event(event: Data) -> dict[str, str]:
    last = (event.get("series") or {}).get("lastObservedTime")
    time = last or event.get("deprecatedLastTimestamp") or event.get("eventTime") or ""
    return {"time": str(time), "reason": str(event.get("reason", "")), "note": str(event.get("note", ""))}


# Records


def _write_record(file: Path, record: Data) -> None:
    import json

    from fleet.errors import ConfigurationError
    from fleet.text import count_noun

    text = json.dumps(record, indent=1)
    try:
        file.write_text(f"{text}\n")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}", field="--record") from error
    decisions = count_noun(len(record["decisions"]), "decision")
    print_message(
        f"{file}: {decisions}, {len(text) >> 10} KiB. It has no data of Secrets; read it before you give it away"
    )


def _replay(file: Path, form: str) -> int:
    from fleet.apps.replay import replay
    from fleet.errors import ConfigurationError, FleetError
    from fleet.kit.operate.record import MOST_TEXT, RecordError, read_record
    from fleet.version import __version__

    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_TEXT + 1)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}", field="--replay") from error
    try:
        record = read_record(content)
        decisions = replay(record)
    except FleetError as error:
        raise RecordError(f"{file}: {error.message}", hint=error.hint, field="--replay") from error
    data = {
        "app": record["app"],
        "recorded_by": str(record.get("release")),
        "replayed_by": __version__,
        "decisions": [_replayed_data(decision) for decision in decisions],
    }
    emit_result(data, form, lambda: _format_replay(record, decisions))
    return 0


def _replayed_data(decision: ReplayedDecision) -> dict[str, Any]:
    return {
        "recorded": _without_observation(decision.recorded),
        "replayed": decision.replayed,
        "error": decision.error,
        "differs": bool(decision.differences),
        "differences": list(decision.differences),
    }


# What is printed


def _identify(live: LiveApp) -> dict[str, Any]:
    return {
        "app": live.name,
        "kind": live.resource.kind,
        "cluster": live.cluster.name,
        "namespace": live.namespace,
    }


def _known_data(live: LiveApp, seen: Data, reason: str) -> dict[str, Any]:
    return {**_identify(live), "source": "status", "reason": reason, "status": live.status, **seen}


def _without_observation(decision: Data) -> dict[str, Any]:
    return {name: value for name, value in decision.items() if name != "observation"}


def _format_known(live: LiveApp, seen: Data, reason: str) -> str:
    lines = [f"{live}: {live.status.get('health', 'Unknown')}", f"  {reason}; so this is what the cluster says of it:"]
    lines.append(f"  status     {live.status.get('message') or 'no operator has said anything yet'}")
    for condition in live.status.get("conditions", ()):
        head = f"{condition.get('type')} is {condition.get('status')} since {condition.get('lastTransitionTime')}"
        lines.append(f"  condition  {head}, {condition.get('reason')}: {condition.get('message', '')}")
    lines += [f"  object     {item['object']} {item['health']}: {item['message']}" for item in seen["objects"]]
    lines += [f"  event      {event['time']} {event['reason']}: {event['note']}" for event in seen["events"]]
    lines += [f"  not read   {message}" for message in seen["unread"]]
    return _join(lines)


def _format_decisions(title: str, decisions: Sequence[Data]) -> str:
    """Return the newest decision with all that led to it, and a line for each one before."""
    if not decisions:
        return f"{title}: nothing was decided yet"
    newest = decisions[-1]
    lines = [f"{title}: {newest['state']}, {newest['reason']}", *_describe(newest)]
    if newest.get("until"):
        lines.append(f"  observed   {newest['until']}, decided so since {newest['since']}")
    earlier = decisions[-2::-1]
    before = [f"{past.get('since')} {past['state']}, {past['reason']}: {past['message']}" for past in earlier]
    lines += [f"  {'before' if number == 0 else '':9}  {text}" for number, text in enumerate(before)]
    return _join(lines)


def _describe(decision: Data) -> list[str]:
    """Return the lines about one decision: who was seen how, what decided, what follows."""
    explanation = decision.get("explanation") or {}
    lines = []
    members = explanation.get("members") or ()
    width = max((len(member["pod"]) for member in members), default=0)
    for number, member in enumerate(members):
        known = " ".join(filter(None, (member["role"], member["version"], member["phase"])))
        lines.append(
            f"  {'' if number else 'members':9}  {member['pod']:{width}}  {known or 'unknown'}: {member['says']}"
        )
    agreed = explanation.get("agreed")
    if agreed is not None:
        lines.append(f"  agreed     {', '.join(agreed) or 'nobody'}")
    if explanation.get("paused"):
        lines.append("  paused     nothing of it is carried out")
    concern = explanation.get("concern", "")
    lines.append(f"  diagnosis  {f'{concern.lower()}: ' if concern else ''}{explanation.get('about', '')}")
    lines.append(f"  decision   {decision['message']}")
    for number, step in enumerate(decision.get("steps") or ()):
        note = f": {step['note']}" if step.get("note") not in ("", None, decision["message"]) else ""
        lines.append(f"  {'' if number else 'steps':9}  {step['verb']} {step['object']}{note}")
    if decision.get("error"):
        lines.append(f"  met        {decision['error']}")
    waits = explanation.get("waits") or ()
    if not waits:
        lines.append(f"  waits for  nothing{': it takes these steps now' if decision.get('steps') else ''}")
    for number, wait in enumerate(waits):
        lines.append(f"  {'' if number else 'waits for':9}  {wait['name']}: {wait['why']}")
    lines.append(f"  again      in {decision.get('after', 0):g} s, or when something changes")
    return lines


def _format_replay(record: Data, decisions: Sequence[ReplayedDecision]) -> str:
    from fleet.version import __version__

    kind, app = record["engine"]["kind"], record["app"]
    head = (
        f"{kind} {app['namespace']}/{app['name']}, recorded by fleet {record.get('release')}, replayed by {__version__}"
    )
    lines = [head]
    for decision in decisions:
        recorded = decision.recorded
        outcome = decision.error and f"not replayed: {decision.error}"
        outcome = outcome or ("differs" if decision.differences else "the same decision")
        head = f"{recorded.get('since', '')} {recorded['state']}, {recorded['reason']}".strip()
        lines.append(f"{head}: {outcome}")
        lines += [f"  {difference}" for difference in decision.differences]
    newest = decisions[-1].replayed if decisions else None
    return _join([*lines, *(_describe(newest) if newest is not None else ())])


def _join(lines: Sequence[str]) -> str:
    from fleet.plan.views.escape import escape_line

    return "\n".join(map(escape_line, lines))
