"""An etcd that others set up without TLS, and whose git says so no more: a world in which every step takes effect.

Pods are made anew as a StatefulSet's controller does it, members keep the URLs that they were given, and what is not
carried out has not happened: so a pass may be ended anywhere.
"""

from __future__ import annotations

import copy
import datetime
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from fleet.apps.etcd import layout as layouts
from fleet.apps.etcd.engine.encrypt import STAGES
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.protocol import Member, MemberStatus
from fleet.apps.etcd.layout import Layout
from fleet.kit import members as ledgers
from fleet.kit.adoption.convergence import conditions
from fleet.kit.members import LEDGER
from fleet.kit.observe.world import template_of
from fleet.kit.step import Act, Apply, Decision, Revert
from fleet.kit.workload.stateful_set import partition_of
from tests.operator.etcd.observations import decided, said
from tests.operator.etcd.test_adoption import IMAGES, Found, Object

ON = {"tls": {"enabled": True}}
ENOUGH = 80  # passes from the first to the last


@dataclass
class Encrypting(Found):
    version: str = "3.5.16"
    urls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    made: dict[str, Object] = field(default_factory=dict)  # the template that each pod was made with
    leader: str = ""

    def __post_init__(self) -> None:
        self.set_up = replace(self.set_up, series=self.version.rpartition(".")[0])
        super().__post_init__()
        self.made = {pod: copy.deepcopy(self.set["spec"]["template"]) for pod in self.pods}
        self.before = copy.deepcopy(self.set["spec"]["template"])

    def turned_on(self) -> Encrypting:
        self.taken()
        self.spec = {**self.spec, **ON}
        return self

    @property
    def kept(self) -> Layout:
        return layouts.read(ledgers.read(self.written[0]["metadata"]["annotations"][LEDGER]).layout)

    @property
    def stage(self) -> str:
        return self.kept.secured

    def decision(self) -> Decision:
        return decided(self.seen(), IMAGES)

    def passed(self) -> Decision:
        """One pass, to its end."""
        if self.written:
            self.hold(self.seen().world.now)
        decision = self.decision()
        for step in decision.steps:
            self.carry_out(step)
        return decision

    def until(self, there: Callable[[], bool]) -> list[str]:
        """What was done on the way."""
        trail: list[str] = []
        for _ in range(ENOUGH):
            if there():
                return trail
            trail += [said(step) for step in self.passed().steps]
        raise AssertionError(f"{self.decision()}: {trail}")

    def at(self, stage: str) -> Encrypting:
        self.turned_on().until(lambda: self.stage == "open")
        if stage != "open":
            self.roll = "1"
            self.until(lambda: self.stage == stage)
        return self

    def is_settled(self) -> bool:
        return self.decision().reason == "Healthy"

    def converged(self) -> tuple[str, str, str]:
        _, status, reason, words = conditions(self.seen(), STAGES.pending(self.seen()))[1]
        return status, reason, words

    def secrets(self) -> dict[str, dict[str, bytes]]:
        """What stands around the members, by name and key."""
        seen = self.seen()
        return _read(EtcdEngine(IMAGES).surroundings(self.app, seen.world, seen.world.now))

    def secrets_held(self) -> dict[str, dict[str, bytes]]:
        return _read(self.written[1:])

    def file(self, pod: str) -> dict[str, Any]:
        """The one that the pod reads."""
        (container,) = (one for one in self.made[pod]["spec"]["containers"] if one["name"] == self.set_up.container)
        name = container["args"][0].rpartition("/")[2].replace("$(FLEET_POD)", pod)
        read: dict[str, Any] = yaml.safe_load(self.written[0]["data"][name])
        return read

    def hold(self, now: datetime.datetime) -> None:
        """The Secrets of a pass are there with the next."""
        made = EtcdEngine(IMAGES).surroundings(self.app, self.seen().world, now)
        self.written = [self.written[0], *made]

    def carry_out(self, step: Any) -> None:
        if isinstance(step, Act):
            if step.what == "readdress":
                pod = next(one for one in self.pods if int(one[-1]) + 0x10 == step.arguments["member"])
                self.urls[pod] = tuple(step.arguments["peer_urls"].split(","))
            if step.what == "lead":
                self.leader = step.arguments["pod"]
            return
        if isinstance(step, Revert):
            self.set["spec"]["template"] = copy.deepcopy(self.before)
            self.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 3
        elif isinstance(step, Apply) and step.manifest["kind"] == "StatefulSet":
            if template_of(self.set) != template_of({**step.manifest, "spec": step.manifest["spec"]}):
                self.before = copy.deepcopy(self.set["spec"]["template"])
            super().carry_out(step)
        else:
            secrets = self.written[1:]
            super().carry_out(step)
            self.written = [*self.written[:1], *secrets]
        self._controlled()

    def _controlled(self) -> None:
        """What the StatefulSet's controller does."""
        partition = partition_of(self.set)
        if self.set["spec"]["updateStrategy"]["type"] == "OnDelete":
            return
        for pod in self.pods:
            if int(pod[-1]) >= partition:
                self.made[pod] = copy.deepcopy(self.set["spec"]["template"])
        through = all(one == self.set["spec"]["template"] for one in self.made.values())
        self.set["status"] = {"currentRevision": "now" if through else "before", "updateRevision": "now"}

    def _pod(self, name: str) -> Object:
        template = self.made[name]
        containers = [{"name": one["name"], "state": {"running": {}}} for one in template["spec"]["containers"]]
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": containers}
        return {
            "kind": "Pod",
            "metadata": {"name": name, "uid": name, **template["metadata"]},
            "spec": template["spec"],
            "status": {"phase": "Running", "podIP": "10.0.0.1", **ready},
        }

    def _status(self, name: str) -> MemberStatus:
        return replace(super()._status(name), leader=0x10 + int(self.leader[-1:] or 0))

    def _member(self, name: str) -> Member:
        found = super()._member(name)
        return Member(found.id, name, self.urls.get(name, found.peer_urls), found.client_urls, is_learner=False)


def _read(secrets: list[Object]) -> dict[str, dict[str, bytes]]:
    return {one["metadata"]["name"]: {key: b64decode(text) for key, text in one["data"].items()} for one in secrets}
