"""Plans for programs: plain data with stable names, for JSON and YAML, and back. `json_schema` says what each field
means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fleet.errors import Source
from fleet.objects.compare import Change
from fleet.objects.desired import Key
from fleet.plan.effect import Effect, EffectKind, effect_of
from fleet.plan.inventory import Inventory
from fleet.plan.step import NOWHERE, Plan, Step, Verb, plan_hash
from fleet.plan.views.summary import LIVE_HEADER, NamedRevision, PlanView, ViewHeader, count_verbs

if TYPE_CHECKING:
    from fleet.plan.views import json_schema

SCHEMA = "fleet.dev/preview/v1"


def plan_data(views: Iterable[PlanView], *, unchanged: bool = False, about: ViewHeader = LIVE_HEADER) -> dict[str, Any]:
    views = sorted(views, key=lambda view: (view.stack, view.cluster))
    counts = count_verbs(views)
    steps = [_step_data(view, step) for view in views for step in view.steps(unchanged=unchanged)]
    return {
        "schemaVersion": SCHEMA,
        "depth": about.depth,
        **_revisions_data(about),
        "planHash": about.plan_hash or plan_hash(view.plan for view in views if view.plan),
        "changeSummary": {verb.value: counts[verb] for verb in Verb},
        "destructive": sum(step["destructive"] for step in steps),
        "clusters": [_plan_view_data(view, about) for view in views],
        "steps": sorted(steps, key=lambda step: not step["destructive"]),
        "remarks": list(about.remarks),
    }


def key_data(key: Key) -> dict[str, str]:
    return {"group": key.group, "kind": key.kind, "namespace": key.namespace, "name": key.name}


def read_key_data(data: json_schema.Object) -> Key:
    """Return the key of an object in a document."""
    return Key(data["group"], data["kind"], data["namespace"], data["name"])


def _revisions_data(about: ViewHeader) -> dict[str, Any]:
    sides = {"base": about.base, "head": about.head}
    data: dict[str, Any] = {name: _revision_data(side) for name, side in sides.items() if side}
    return {**data, "tree": about.tree} if about.tree else data


def _revision_data(side: NamedRevision) -> dict[str, str]:
    return {"name": side.name, "commit": side.commit, "subject": side.subject}


def _plan_view_data(view: PlanView, about: ViewHeader) -> dict[str, Any]:
    data: dict[str, Any] = {"stack": view.stack, "cluster": view.cluster}
    digest = about.hashes.get((view.stack, view.cluster), "")
    if digest or view.plan:
        data["planHash"] = digest or plan_hash([view.plan] if view.plan else ())
    if view.problem:
        data["error"] = view.problem
    if view.note:
        data["note"] = view.note
    return {**data, "takenFrom": view.taken_from} if view.taken_from else data


def _step_data(view: PlanView, step: Step) -> dict[str, Any]:
    effect = effect_of(step)
    data: dict[str, Any] = {
        "stack": view.stack,
        "cluster": view.cluster,
        "verb": step.verb.value,
        "object": key_data(step.key),
        "does": effect.does.value,
        "effect": effect.words,
        "destructive": effect.destructive,
    }
    if effect.note:
        data["note"] = effect.note
    if step.source.file:
        data["source"] = {"file": step.source.file, "line": step.source.line}
    if step.reason:
        data["reason"] = step.reason
    if step.meanings:
        data["meanings"] = list(step.meanings)
    if step.changes:
        data["changes"] = [
            {"path": change.path, "before": change.before, "after": change.after} for change in step.changes
        ]
    if step.drift:
        data["drift"] = True
    return {**data, "objection": step.objection} if step.objection else data


def read_plan_data(data: json_schema.Document) -> tuple[list[PlanView], ViewHeader]:
    """Return the plans of a document, as far as views show them: nothing in them can be applied.

    Raise ValueError for a step that belongs to no plan of the document, and for a plan that is in it twice. All else is
    the schema's to check.
    """
    steps: dict[tuple[str, str], list[Step]] = {
        (pair["stack"], pair["cluster"]): [] for pair in data["clusters"] if "planHash" in pair
    }
    if len({(pair["stack"], pair["cluster"]) for pair in data["clusters"]}) < len(data["clusters"]):
        raise ValueError("a stack is twice in the same cluster")
    for number, step in enumerate(data["steps"]):
        placement = (step["stack"], step["cluster"])
        if placement not in steps:
            raise ValueError(f"steps[{number}] is of no plan that is in clusters")
        steps[placement].append(_read_step(step))
    views = [_read_plan_view(pair, steps.get((pair["stack"], pair["cluster"]))) for pair in data["clusters"]]
    hashes = {(pair["stack"], pair["cluster"]): pair["planHash"] for pair in data["clusters"] if "planHash" in pair}
    sides = (data.get("base"), data.get("head"))
    base, head = (NamedRevision(side["name"], side["commit"], side["subject"]) if side else None for side in sides)
    about = ViewHeader(
        data["depth"], base, head, data.get("tree", ""), data["planHash"], hashes, tuple(data["remarks"])
    )
    return views, about


def _read_plan_view(pair: json_schema.Pair, steps: list[Step] | None) -> PlanView:
    stack, cluster, taken_from = pair["stack"], pair["cluster"], pair.get("takenFrom", "")
    inventory = Inventory(stack, cluster, repository=taken_from)
    plan = (
        None if steps is None else Plan(stack, cluster, tuple(steps), inventory, repository="new" if taken_from else "")
    )
    return PlanView(stack, cluster, plan, pair.get("error", ""), pair.get("note", ""))


def _read_step(data: json_schema.Step) -> Step:
    step = Step(
        Verb(data["verb"]),
        read_key_data(data["object"]),
        changes=tuple(Change(change["path"], change["before"], change["after"]) for change in data.get("changes", ())),
        meanings=tuple(data.get("meanings", ())),
        reason=data.get("reason", ""),
        source=Source(data["source"]["file"], data["source"]["line"]) if "source" in data else NOWHERE,
        drift=data.get("drift", False),
        objection=data.get("objection", ""),
    )
    effect = Effect(EffectKind(data["does"]), data["effect"], data["destructive"], data.get("note", ""))
    return step if effect == effect_of(step) else step._replace(effect=effect)
