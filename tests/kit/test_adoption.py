"""Adoption by declaration: of NATS, which knows nothing of it, and of a type with two roles, both of which are taken
together."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleet.kit import names
from fleet.kit.adoption.convergence import conditions
from fleet.kit.adoption.declared import DeclaredAdoption, DeclaredDiscovery
from fleet.kit.adoption.discovery import Candidate
from fleet.kit.adoption.hold import before
from fleet.kit.adoption.objections import foresee
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.adoption.takeover import adopt, place_app
from fleet.kit.app_type import AppType
from fleet.kit.decide.table import list_concerns
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Agreement, MemberState, Observation, role_spec
from fleet.kit.observe.world import World
from fleet.kit.order import Concern
from fleet.kit.step import Apply, Decision, Take
from fleet.kit.workload.template import mark_of
from fleet.model.app_settings import Resources
from fleet.model.resource import Adopt, Options
from tests.kit import nats, pair
from tests.kit.nats import NATS, Nats
from tests.kit.pair import PAIR

Object = dict[str, Any]
RESOURCES = Resources(cpu="250m", memory="1Gi")
MEANT = Options(adopt=Adopt(identity="uid-messages", stateful_set="messages"))


def stateful(name: str, container: Object, claim: str, size: str, *, replicas: int = 1) -> Object:
    spec = {
        "replicas": replicas,
        "serviceName": f"{name}-headless",
        "selector": {"matchLabels": {"run": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": {
            "metadata": {"labels": {"run": name}},
            "spec": {"containers": [{"name": "sidecar", "image": "log:1"}, container]},
        },
        "volumeClaimTemplates": [
            {"metadata": {"name": claim}, "spec": {"resources": {"requests": {"storage": size}}}},
        ],
    }
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "managedFields": []}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec, "status": {}}


def broker(**more: Any) -> Object:
    container = {
        "name": "broker",
        "image": "registry.example/nats:2.10.18-alpine",
        "args": ["-c", "/etc/own.conf"],
        "ports": [{"name": "client", "containerPort": 4333}],
        "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "jetstream", "mountPath": "/data"}],
        **more,
    }
    return stateful("messages", container, "jetstream", "4Gi")


def service(found: Object) -> Object:
    selector = found["spec"]["selector"]["matchLabels"]
    return {"metadata": {"name": "nats"}, "spec": {"selector": selector, "ports": [{"port": 4222, "targetPort": 4333}]}}


def described(found: Object) -> Candidate:
    understood = DeclaredDiscovery(NATS).understands(found, Surroundings(services=[service(found)]), {})
    assert isinstance(understood, Candidate), understood
    return understood


class Running:
    """StatefulSets of others with their pods, by role, and what was written of the app; steps take effect."""

    def __init__(self, app_type: AppType[Any], app: Any, sets: Mapping[str, Object]) -> None:
        self.app_type, self.app, self.sets = app_type, app, dict(sets)
        self.written: Object | None = None
        self.identity = ""  # that members say, of an engine that has one
        self.answers = Answers(app_type)

    def pods(self) -> Iterable[Object]:
        for found in self.sets.values():
            template = found["spec"]["template"]
            statuses = [{"name": one["name"], "state": {"running": {}}} for one in template["spec"]["containers"]]
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            for number in range(found["spec"]["replicas"]):
                metadata = {**template["metadata"], "name": f"{found['metadata']['name']}-{number}"}
                whole = {**status, "containerStatuses": statuses}
                yield {"kind": "Pod", "metadata": metadata, "spec": template["spec"], "status": whole}

    def observations(self) -> list[Observation[Any]]:
        written = [self.written] if self.written else []
        world = World.of([*self.sets.values(), *self.pods(), *written], None, World({}).now)
        placed = place_app(self.app_type, self.app, world)
        made = []
        for role in self.app_type.roles_of(self.app):
            spec = role_spec(self.app_type, placed.app, role.name)
            blank = Observation(placed.app, world, placed.ledger, spec, unfit=placed.unfit)
            if spec.quorum == "none":
                made.append(blank)
                continue
            states = {pod: MemberState(self.identity, f"id-{pod}", version="7.4.2") for pod in blank.pods}
            agreed = Agreement({pod: f"id-{pod}" for pod in blank.pods})
            made.append(replace(blank, states=states, agreement=agreed))
        return [replace(made[0], others=tuple(made[1:])), *made[1:]]

    def decide(self) -> Decision | None:
        looks = list_concerns(self.observations()[0], self.answers)
        return next((found for concern in Concern for look in looks.get(concern, ()) if (found := look())), None)

    def carry_out(self, step: Any) -> None:
        if isinstance(step, Take):
            assert step.manifest is not None
            found = step.object
            found["metadata"]["labels"] = step.manifest["metadata"]["labels"]
            found["metadata"]["annotations"] = step.manifest["metadata"]["annotations"]
            found["spec"] |= step.manifest["spec"]
            return
        assert isinstance(step, Apply)
        assert step.manifest["kind"] == "ConfigMap", step
        self.written = step.manifest

    def take(self) -> list[str]:
        """Take it over to the end, and return what was written on the way."""
        trail: list[str] = []
        while (decision := self.decide()) is not None and decision.reason == "Adopting":
            assert decision.steps, decision
            for step in decision.steps:
                found = step.object if isinstance(step, Take) else getattr(step, "manifest", {})
                trail.append(f"{type(step).__name__} {found['metadata']['name']}")
                self.carry_out(step)
        return trail


def test_a_broker_of_others_is_described_by_the_declaration() -> None:
    found = broker()
    assert DeclaredDiscovery(NATS).recognises(found, lambda kind, name: None) == "container broker runs NATS"
    candidate = described(found)
    app = candidate.app
    assert isinstance(app, Nats)
    assert (app.version, app.storage, app.resources.cpu, app.resources.memory) == ("2.10.18", "4Gi", "250m", "1Gi")
    assert app.adoption == Adopt(identity="uid-messages", service="nats")
    assert (candidate.identity, [member.name for member in candidate.members]) == ("uid-messages", ["messages-0"])
    assert "container sidecar" in candidate.kept
    assert "image registry.example/nats:2.10.18-alpine, until git says another version" in candidate.kept


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"image": "registry.example/nats:1.4.1"}, "version"),
        ({"volumeMounts": []}, ""),  # the only claim template is the one
        ({"command": ["redis-server"]}, "container"),
    ],
)
def test_what_is_no_broker_that_can_be_kept_is_refused(change: Object, field: str) -> None:
    understood = DeclaredDiscovery(NATS).understands(broker(**change), Surroundings(), {})
    assert getattr(understood, "field", "") == field


def test_a_broker_is_taken_without_a_write_of_its_template_and_given_back_as_it_was() -> None:
    found = broker()
    running = Running(NATS, nats.app(version="2.10", storage="4Gi", resources=RESOURCES, opts=MEANT), {"": found})
    original = copy.deepcopy(found["spec"])
    assert foresee(DeclaredAdoption(NATS), running.app, found) is None
    assert running.take() == ["Apply bus-members", "Take messages", "Apply bus-members"]
    assert found["spec"]["template"] == original["template"]
    assert found["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    assert found["metadata"]["labels"] == {"fleet.dev/app": "bus", "fleet.dev/kind": "Nats"}
    assert running.decide() is None
    (observation,) = running.observations()
    assert observation.ledger is not None
    assert (observation.ledger.identity, list(observation.ledger.places)) == ("uid-messages", ["messages-0"])
    assert names.claim(observation.app, "messages-0") == "jetstream-messages-0"
    assert [one[:3] for one in conditions(observation, reads_files=False)] == [
        ("Adopted", "True", "TakenOver"),
        ("Converged", "False", "NextRoll"),
    ]
    assert {**found["spec"], **before(found)} == original


def adopted_broker() -> Running:
    found = broker()
    running = Running(NATS, described(found).app, {"": found})
    running.take()
    return running


def test_the_next_version_in_git_changes_the_image_and_nothing_else_of_the_pod() -> None:
    running = adopted_broker()
    present = copy.deepcopy(running.sets[""]["spec"]["template"])
    running.app = running.app.model_copy(update={"version": "2.11"})
    decision = running.decide()
    while decision is not None and isinstance(decision.steps[0], Apply):
        if decision.steps[0].manifest["kind"] == "StatefulSet":
            break
        running.carry_out(decision.steps[0])
        decision = running.decide()
    assert decision is not None
    step = decision.steps[0]
    assert isinstance(step, Apply)
    template = step.manifest["spec"]["template"]
    container = template["spec"]["containers"][1]
    assert container["image"] == "docker.io/library/nats:2.11.10"
    assert mark_of(template)
    kept = {**container, "image": present["spec"]["containers"][1]["image"]}
    assert kept.pop("terminationMessagePolicy") == "FallbackToLogsOnError"
    assert [template["spec"]["containers"][0], kept] == present["spec"]["containers"]


def test_settings_that_members_would_not_read_are_refused() -> None:
    running = adopted_broker()
    running.app = running.app.model_copy(update={"max_payload": 2048})
    decision = running.decide()
    assert decision is not None
    assert (decision.reason, decision.steps) == ("KeptAsFound", ())


REFUSED: dict[str, tuple[Object, str, str]] = {
    "another version": ({"version": "2.11"}, "NotAsDescribed", "git says 2.11"),
    "other resources": ({"resources": nats.app().resources}, "NotAsDescribed", "memory is 1Gi, and git says"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_otherwise_than_git_says_is_not_touched(case: str) -> None:
    update, reason, words = REFUSED[case]
    found = broker()
    running = Running(NATS, described(found).app.model_copy(update=update), {"": found})
    decision = running.decide()
    assert decision is not None
    assert (decision.reason, decision.steps) == (reason, ()), decision
    assert words in decision.message
    foreseen = foresee(DeclaredAdoption(NATS), running.app, found)
    assert foreseen is not None
    assert foreseen.reason == reason


def both(app: Any) -> dict[str, Object]:
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    node = {
        "name": "redis",
        "image": "docker.io/library/redis:7.4.2",
        "command": ["redis-server", "/data/own.conf"],
        "resources": {"requests": {"cpu": app.resources.cpu, "memory": app.resources.memory}},
        "volumeMounts": [{"name": "disk", "mountPath": "/data"}],
    }
    node["resources"]["limits"] = {"memory": app.resources.memory}  # type: ignore[index]
    watcher = {
        "name": "watch",
        "image": "docker.io/library/redis:7.4.2",
        "command": ["redis-sentinel", "/state/own.conf"],
        "resources": resources,
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    return {
        "": stateful("redis-node", node, "disk", app.storage, replicas=3),
        "sentinel": stateful("cache-sentinel", watcher, "state", "64Mi", replicas=3),
    }


def running_pair() -> Running:
    adoption = Options(adopt=Adopt(identity="c1", stateful_set="redis-node"))
    app = pair.app(opts=adoption)
    running = Running(PAIR, app, both(app))
    running.identity = "c1"
    return running


def test_both_stateful_sets_of_a_pair_are_noted_then_taken_and_only_then_its_own() -> None:
    running = running_pair()
    templates = {role: copy.deepcopy(found["spec"]["template"]) for role, found in running.sets.items()}
    assert running.take() == ["Apply cache-members", "Take redis-node", "Take cache-sentinel", "Apply cache-members"]
    assert {role: found["spec"]["template"] for role, found in running.sets.items()} == templates
    node, watcher = running.observations()
    assert node.ledger is not None
    assert node.ledger.identity == "c1"
    assert (list(node.records), list(watcher.records)) == (
        ["redis-node-0", "redis-node-1", "redis-node-2"],
        ["cache-sentinel-0", "cache-sentinel-1", "cache-sentinel-2"],
    )
    assert (node.role.container, watcher.role.container) == ("redis", "watch")
    assert names.claim(node.app, "cache-sentinel-1") == "state-cache-sentinel-1"
    assert adopt(node, running.answers) is None
    for found in running.sets.values():
        assert before(found)["updateStrategy"] == {"type": "OnDelete"}


def _missing(running: Running) -> None:
    del running.sets["sentinel"]


def _others(running: Running) -> None:
    running.identity = "c2"


def _fewer(running: Running) -> None:
    running.sets["sentinel"]["spec"]["replicas"] = 2


def _larger(running: Running) -> None:
    container = running.sets["sentinel"]["spec"]["template"]["spec"]["containers"][1]
    container["resources"]["requests"]["cpu"] = "2"


def _no_watcher(running: Running) -> None:
    running.sets["sentinel"]["spec"]["template"]["spec"]["containers"][1]["command"] = ["redis-server"]


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (_missing, "NothingToAdopt", "there is no StatefulSet cache-sentinel"),
        (_others, "OtherCluster", "git means cluster c1"),
        (_fewer, "NotAsDescribed", "cache-sentinel has 2 members, and git says 3"),
        (_larger, "NotAsDescribed", "StatefulSet cache-sentinel is otherwise than git says: cpu is 2"),
        (_no_watcher, "CannotAdopt", "no container starts redis-sentinel"),
    ],
)
def test_a_pair_of_which_one_part_is_not_as_git_says_is_left_alone(change: Any, reason: str, words: str) -> None:
    running = running_pair()
    change(running)
    decision = adopt(running.observations()[0], running.answers)
    assert decision is not None
    assert (decision.reason, decision.steps) == (reason, ()), decision
    assert words in decision.message
