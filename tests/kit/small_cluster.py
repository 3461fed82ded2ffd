"""A cluster in memory, as far as an app in it can tell: what StatefulSets, kubelets and claims do with what is decided.

Pods are ready at once, unless a test says otherwise. Every step that is decided is carried out before the next look.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
from dataclasses import dataclass, field
from typing import Any

from fleet.kit.app_engine import AppEngine
from fleet.kit.members import LEDGER, Ledger, read
from fleet.kit.observation import Observation
from fleet.kit.order import decide
from fleet.kit.stateful_set import partition_of
from fleet.kit.step import Act, Apply, Decision, Delete, Object, Revert
from fleet.kit.template import mark_of
from fleet.kit.world import World

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LONG_AGO = "2026-01-01T00:00:00+00:00"
MOST_LOOKS = 60


@dataclass
class SmallCluster:
    engine: AppEngine[Any]
    app: Any
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    unready: dict[str, str] = field(default_factory=dict)  # pods that their kubelet calls unready, since when
    acts: list[tuple[str, str]] = field(default_factory=list)
    fails_with: str = ""  # words in the spec or the file of pods that do not become ready
    ticks: int = 0  # of ten seconds: one for each thing that happens

    # What the operator sees and does

    def world(self) -> World:
        now = datetime.datetime.fromisoformat(self.now())
        return World.of(copy.deepcopy(list(self.objects.values())), frozenset({"node-1"}), now)

    def observe(self) -> Observation[Any]:
        return asyncio.run(self.engine.observe(self.app, self.world()))

    def decision(self) -> Decision:
        seen = self.observe()
        return decide(self.engine.concerns(seen), self.engine.at_rest(seen))

    def look(self) -> Decision:
        """One reconcile."""
        seen = self.observe()
        decision = decide(self.engine.concerns(seen), self.engine.at_rest(seen))
        for step in decision.steps:
            self.carry_out(step, seen)
        return decision

    def settle(self) -> list[str]:
        """Look until there is nothing to do; return the reasons on the way."""
        reasons: list[str] = []
        for _ in range(MOST_LOOKS):
            decision = self.look()
            if not decision.steps:
                return [*reasons, decision.reason]
            if decision.reason not in reasons[-1:]:
                reasons.append(decision.reason)
        raise AssertionError(reasons)

    def now(self) -> str:
        return (NOW + datetime.timedelta(seconds=10 * self.ticks)).isoformat()

    def carry_out(self, step: Any, seen: Observation[Any]) -> None:
        self.ticks += 1
        match step:
            case Apply(manifest=manifest):
                self._apply(manifest)
            case Delete(object=found):
                self._delete(found)
            case Revert():
                raise AssertionError("nothing has failed")
            case Act(what=what, arguments=arguments):
                self.acts.append((what, str(arguments.get("pod", ""))))
                asyncio.run(self.engine.act(seen, step, lambda: None))
        self._control()

    # What is in it

    @property
    def ledger(self) -> Ledger:
        (found,) = (found for (kind, _), found in self.objects.items() if kind == "ConfigMap")
        return read(found["metadata"]["annotations"][LEDGER])

    def file(self, pod: str) -> str:
        """The file that a pod's own words name."""
        found = self.objects["Pod", pod]
        (config,) = (one for (kind, _), one in self.objects.items() if kind == "ConfigMap")
        revisions = [name for name in config["data"] if name.startswith(f"{pod}.")]
        words = str(found["spec"])
        return str(next(config["data"][name] for name in revisions if name.removeprefix(f"{pod}.") in words))

    def get(self, kind: str, name: str) -> Object:
        return self.objects[kind, name]

    def pods(self) -> list[str]:
        return sorted(name for kind, name in self.objects if kind == "Pod")

    # What clusters do by themselves

    def lose_volume(self, pod: str) -> None:
        """Its claim is lost, and its pod serves nobody any more."""
        self.objects["PersistentVolumeClaim", f"data-{pod}"]["status"] = {"phase": "Lost"}
        self.say_unready(pod)

    def _apply(self, manifest: Object) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        old = self.objects.get(key, {})
        found = copy.deepcopy({**old, **manifest})
        found["metadata"] = {**old.get("metadata", {}), **found["metadata"]}
        found["metadata"].setdefault("uid", self._uid())
        found["metadata"]["managedFields"] = [{"manager": "fleet-operator", "time": self.now()}]
        if manifest["kind"] == "PersistentVolumeClaim" and old:
            found["spec"] = {**old["spec"], **manifest["spec"]}
        self.objects[key] = found

    def _delete(self, found: Object) -> None:
        """A claim stays until its pod has gone."""
        kind, name = found["kind"], found["metadata"]["name"]
        pod = name.removeprefix("data-")
        if kind == "PersistentVolumeClaim" and ("Pod", pod) in self.objects:
            self.objects[kind, name]["metadata"]["deletionTimestamp"] = LONG_AGO
            return
        del self.objects[kind, name]
        claim = self.objects.get(("PersistentVolumeClaim", f"data-{name}"))
        if kind == "Pod" and claim is not None and "deletionTimestamp" in claim["metadata"]:
            del self.objects["PersistentVolumeClaim", f"data-{name}"]

    def _control(self) -> None:
        for (kind, name), found in list(self.objects.items()):
            if kind == "StatefulSet":
                self._control_set(name, found)

    def _control_set(self, name: str, found: Object) -> None:
        wanted = {f"{name}-{number}" for number in range(found["spec"]["replicas"])}
        for pod in [pod for pod in self.pods() if pod.rpartition("-")[0] == name and pod not in wanted]:
            del self.objects["Pod", pod]
        current = mark_of(found["spec"]["template"])
        for pod in sorted(wanted):
            present, ordinal = self.objects.get(("Pod", pod)), int(pod.rpartition("-")[2])
            if present is None or (mark_of(present) != current and ordinal >= partition_of(found)):
                self._start(pod, found, present)
            self._say_ready(pod)
        late = [pod for pod in wanted if mark_of(self.objects["Pod", pod]) != current or pod in self.unready]
        before = found.get("status", {}).get("currentRevision", current)
        found["status"] = {"currentRevision": before if late else current, "updateRevision": current}

    def _start(self, pod: str, found: Object, present: Object | None) -> None:
        if ("PersistentVolumeClaim", f"data-{pod}") not in self.objects:
            for template in found["spec"]["volumeClaimTemplates"]:
                metadata = {
                    **template["metadata"],
                    "name": f"{template['metadata']['name']}-{pod}",
                    "namespace": "shop",
                }
                self._apply({**template, "metadata": metadata})
            self.unready.pop(pod, None)
        template = copy.deepcopy(found["spec"]["template"])
        self.objects["Pod", pod] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": pod, "uid": self._uid(), "creationTimestamp": self.now()},
            "spec": {**template["spec"], "nodeName": "node-1"},
        }
        if self.fails_with and (self.fails_with in str(template) or self.fails_with in self.file(pod)):
            self.unready[pod] = self.now()

    def say_unready(self, pod: str) -> None:
        """Its kubelet calls it unready from now on."""
        self.unready[pod] = self.now()
        self._say_ready(pod)

    def _say_ready(self, pod: str) -> None:
        ready = pod not in self.unready
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": self.unready.get(pod, LONG_AGO)}
        found = self.objects["Pod", pod]
        names = [container["name"] for container in found["spec"]["containers"]]
        found["status"] = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [condition],
            "containerStatuses": [{"name": name, "restartCount": 0, "state": {"running": {}}} for name in names],
        }

    def _uid(self) -> str:
        self.ticks += 1
        return f"uid-{self.ticks}"
