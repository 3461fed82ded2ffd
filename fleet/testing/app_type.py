"""What every app type must hold, checked without a cluster: three lines are a test of a package's own.

def test_it_is_an_app_type() -> None:
    check_app_type(TYPE, Nats("sample", version="2.11"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise, permutations
from typing import Any

from fleet.apps.registry import driver
from fleet.kit import names
from fleet.kit.app_type import AppService, AppType, Role
from fleet.kit.driver import Refusal
from fleet.kit.members import founders
from fleet.kit.workload.files import files, revision
from fleet.kit.workload.pods import pod_template, stateful_set, surroundings
from fleet.model.app import App
from fleet.render.crd import definition
from fleet.testing.conformance import cases, declared_subject

LONGEST_NAME = 63  # of Services and pods
_UNFILLED = re.compile(r"\{[\w:.-]+\}")


def check_app_type(app_type: AppType[Any], app: App) -> None:
    """Check a type by an app of it, and the operator's work for it in memory; raise AssertionError for what is wrong.

    A type that names a half that acts brings a `Subject` of its own: see `fleet.testing.conformance`.
    """
    _check_spec(app_type, app)
    _check_versions(app_type)
    unknown = [service.name or "of clients" for service in app_type.services if _needs_answers(service)]
    assert app_type.engine or not unknown, (
        f"the Service {unknown[0]}: nobody asks members which of them takes writes; a half that acts must"
    )
    for role in app_type.roles_of(app):
        _check_pods(app_type, app, role)
    if app_type.engine:
        module, _, name = app_type.engine.partition(":")
        assert hasattr(import_module(module), name), f"engine: {app_type.engine} is not there"
        return
    for case in cases(declared_subject(app_type, app)):
        try:
            case.run()
        except AssertionError as problem:
            raise AssertionError(f"{case}: {problem}") from problem


def _needs_answers(service: AppService) -> bool:
    return service.kept_by == "operator" and service.to in ("primary", "replicas")


def _check_spec(app_type: AppType[Any], app: App) -> None:
    known = driver(app.kind(), app.api_group)
    assert known is app_type, f"{app.kind()} is not installed: its package announces the type by an entry point"
    crd = definition(app_type)
    manifest = {
        "apiVersion": f"{app.api_group}/{crd['spec']['versions'][0]['name']}",
        "kind": app.kind(),
        "metadata": {"name": app.name, "namespace": app.namespace},
        "spec": app.spec(),
    }
    again = type(app).from_manifest(manifest)
    assert again.spec() == app.spec(), "what a cluster has of the app is read as another one"
    problems = [str(problem) for problem in app_type.validate(app)]
    assert not problems, f"the app is refused: {'; '.join(problems)}"
    fields = app_type.app.model_fields
    costs = (*app_type.costs, *(setting.field for setting in app_type.settings if setting.field))
    unknown = [name for name in costs if name.partition(".")[0] not in fields]
    assert not unknown, f"the spec has no field {unknown[0]!r}, of which the type says what a change costs"


def _check_versions(app_type: AppType[Any]) -> None:
    """Check that every two series have a way between them, or a reason why there is none."""
    for current, target in permutations(app_type.versions.series, 2):
        path = app_type.path(current, target)
        if isinstance(path, Refusal):
            assert path.reason, f"no way from {current} to {target}, and no reason for it"
            continue
        assert path, f"no step on the way from {current} to {target}"
        assert all(before.target == after.current for before, after in pairwise(path)), f"the way {path} has a gap"
        reached = app_type.versions.series_of(path[-1].target)
        assert reached == app_type.versions.series_of(target), f"the way to {target} ends at {path[-1].target}"


def _check_pods(app_type: AppType[Any], app: App, role: Role[Any]) -> None:
    image = app_type.image(app, {})
    assert image, "there is no image"
    if role.files and (role.bootstrap != "alone" or role.joining != "itself"):
        kept = type(app_type).read_settings is AppType.read_settings
        assert not kept, "files of an older revision would not say what a member's volume may become: `read_settings`"
    template = pod_template(app_type, app, image, role=role.name)
    again = pod_template(app_type, app, image, role=role.name)
    assert json.dumps(template) == json.dumps(again), "the same spec gives another template: members would restart"
    words = [word for word in _words(template) if _UNFILLED.search(word)]
    assert not words, f"nothing is filled in for {words[0]!r}"
    stateful_sets = [stateful_set(app_type, app, template, replicas=role.count(app), role=role.name)]
    for manifest in (*stateful_sets, *surroundings(app_type, app)):
        assert len(manifest["metadata"]["name"]) <= LONGEST_NAME, f"{manifest['metadata']['name']} is too long a name"
    pods = [names.pod(app, ordinal, role.name) for ordinal in range(role.count(app))]
    written = files(app_type, app, founders(pods, role.name), {}, ())
    wanted = re.findall(r"\{file:([^}]+)\}", " ".join((*role.command, *role.arguments, *map(" ".join, role.prepare))))
    for pod in pods:
        for name in wanted:
            key = f"{pod}.{revision(app_type, app, role.name)}.{name}"
            assert key in written, f"{pod} starts with the file {name}, which `files` does not write"


def _words(template: dict[str, Any]) -> Iterator[str]:
    spec = template["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        yield from (*container.get("command", ()), *container.get("args", ()))
