"""A cluster in memory for one app: the operator's steps take effect, and controllers act as real ones.

StatefulSets have revisions, a partition and their pods' claims; pods become ready unless their image is one that cannot
be had. Time moves with each reconcile.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
from dataclasses import dataclass, field
from typing import Any, Self

from fleet.kit.app_type import AppType
from fleet.kit.observe.world import World
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.order import decide
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.step import Act, Apply, Decision, Delete, Object, Revert, State, Step
from fleet.kit.workload.stateful_set import changed, partition_of, updates_on_delete
from fleet.kit.workload.template import mark_of

START = datetime.datetime(2031, 5, 1, tzinfo=datetime.UTC)
MOST = 80  # reconciles until an operation must be over


@dataclass
class PlainCluster:
    """The objects of one app, by kind and name."""

    app_type: AppType[Any]
    app: Any
    permissions: Permissions = DEFAULT
    bad: set[str] = field(default_factory=set)  # images that cannot be had
    cpu: str = ""  # if it is given, what a node has at most: pods that ask for more are not scheduled
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    revisions: dict[tuple[str, str], Object] = field(default_factory=dict)  # templates by StatefulSet and mark
    now: datetime.datetime = START
    writes: list[str] = field(default_factory=list)
    made: int = 0  # pods, over all time
    unready: set[str] = field(default_factory=set)  # pods that their kubelet calls unready though they run
    acts: list[tuple[str, str]] = field(default_factory=list)  # what members were asked for, and about which pod

    def __post_init__(self) -> None:
        self.engine: AppEngine[Any] = self.make_engine()

    def make_engine(self) -> AppEngine[Any]:
        """Return the engine of a new operator."""
        return PlainEngine(self.app_type, {}, self.permissions)

    # The operator

    def world(self) -> World:
        return World.of(copy.deepcopy(list(self.objects.values())), None, self.now)

    def decision(self) -> Decision:
        for manifest in self.engine.surroundings(self.app, self.world(), self.now):
            self.apply(manifest)
        self.observed = asyncio.run(self.engine.observe(self.app, self.world()))
        self.report = self.engine.report(self.observed, None)
        return decide(self.engine.concerns(self.observed), self.engine.at_rest(self.observed))

    def reconcile(self, *, steps: int | None = None) -> Decision:
        """One reconcile, of which only the first steps are carried out before the operator ends."""
        decision = self.decision()
        for each in decision.steps[:steps]:
            self.carry_out(each)
        self.control()
        self.now += datetime.timedelta(seconds=30)
        return decision

    def until_rest(self) -> list[Decision]:
        """Reconcile until nothing is to do; return the decisions."""
        decisions = []
        for _ in range(MOST):
            decisions.append(self.reconcile())
            if decisions[-1].state is State.OK:
                return decisions
        raise AssertionError(f"not at rest: {[(each.reason, each.message) for each in decisions[-5:]]}")

    def wants(self, **fields: Any) -> Self:
        """Have git say something else."""
        roll = fields.pop("roll", None)
        self.app = self.app.model_copy(update=fields)
        if roll is not None:
            self.app.__dict__["_roll"] = roll
        return self

    # What the API server does

    def carry_out(self, each: Step) -> None:
        match each:
            case Apply(manifest=manifest):
                self.apply(manifest)
            case Delete(object=found):
                self.delete(found["kind"], found["metadata"]["name"])
            case Revert(stateful_set=found):
                name = found["metadata"]["name"]
                template = self.revisions[name, found["status"]["currentRevision"]]
                self.apply(changed(found, template=template, partition=int(found["spec"]["replicas"])))
            case Act(what=what, arguments=arguments):
                self.acts.append((what, str(arguments.get("pod", ""))))
                asyncio.run(self.engine.act(self.observed, each, lambda: None))
            case _:
                raise AssertionError(each)

    def apply(self, manifest: Object) -> None:
        manifest = copy.deepcopy(manifest)
        key = (manifest["kind"], manifest["metadata"]["name"])
        present = self.objects.get(key)
        if present is None:
            own = {"uid": f"uid-{len(self.writes)}", "generation": 1, "creationTimestamp": self.now.isoformat()}
            self.objects[key] = {**manifest, "metadata": {**manifest["metadata"], **own}}
        elif key[0] == "PersistentVolumeClaim":
            present["spec"]["resources"] = manifest["spec"]["resources"]
        else:
            before = {name: value for name, value in present.items() if name not in ("metadata", "status")}
            after = {name: value for name, value in manifest.items() if name not in ("metadata", "status")}
            annotations = manifest["metadata"].get("annotations")
            if before == after and annotations == present["metadata"].get("annotations"):
                return
            metadata = {**present["metadata"], **manifest["metadata"]}
            metadata["generation"] += 1
            self.objects[key] = {**present, **manifest, "metadata": metadata}
        self.objects[key]["metadata"]["managedFields"] = [{"time": self.now.isoformat()}]
        self.writes.append(f"{key[0]} {key[1]}")

    def delete(self, kind: str, name: str) -> None:
        """A claim stays, marked, until the pod that uses it has gone."""
        if kind == "PersistentVolumeClaim" and ("Pod", name.partition("-")[2]) in self.objects:
            self.objects[kind, name]["metadata"]["deletionTimestamp"] = self.now.isoformat()
            self.writes.append(f"delete {kind} {name}")
            return
        del self.objects[kind, name]
        for key in [key for key in self.objects if key[0] == "PersistentVolumeClaim" and kind == "Pod"]:
            if key[1].partition("-")[2] == name and "deletionTimestamp" in self.objects[key]["metadata"]:
                del self.objects[key]
        self.writes.append(f"delete {kind} {name}")

    # What controllers and kubelets do

    def get(self, kind: str, name: str) -> Object:
        return self.objects[kind, name]

    def names(self, kind: str) -> list[str]:
        return sorted(name for known, name in self.objects if known == kind)

    def control(self) -> None:
        for _, name in [key for key in self.objects if key[0] == "StatefulSet"]:
            self._control_set(self.objects["StatefulSet", name])
        sets = self.names("StatefulSet")
        for pod in self.names("Pod"):
            if pod.rpartition("-")[0] not in sets:
                del self.objects["Pod", pod]

    def _control_set(self, found: Object) -> None:
        name, count, template = found["metadata"]["name"], int(found["spec"]["replicas"]), found["spec"]["template"]
        mark = mark_of(template)
        self.revisions[name, mark] = copy.deepcopy(template)
        status = found.setdefault("status", {"currentRevision": mark})
        status |= {"updateRevision": mark, "observedGeneration": found["metadata"]["generation"]}
        pods = {number: self.objects.get(("Pod", f"{name}-{number}")) for number in range(64)}
        for number in [number for number in pods if number >= count and pods[number] is not None]:
            del self.objects["Pod", f"{name}-{number}"]
        held = set() if updates_on_delete(found) else set(range(min(partition_of(found), count)))
        outdated = [number for number in range(count) if (pod := pods[number]) and mark_of(pod) != mark]
        if not updates_on_delete(found) and all(pod is None or _is_ready(pod) for pod in list(pods.values())[:count]):
            for number in reversed([number for number in outdated if number not in held][-1:]):
                del self.objects["Pod", f"{name}-{number}"]
        for number in range(count):
            if ("Pod", f"{name}-{number}") not in self.objects:
                self._start(found, number, status["currentRevision"] if number in held else mark)
        present = [self.objects["Pod", f"{name}-{number}"] for number in range(count)]
        for pod in present:
            pod["status"] = self._status(pod)
        if all(mark_of(pod) == mark and _is_ready(pod) for pod in present) and not updates_on_delete(found):
            status["currentRevision"] = mark

    def _start(self, found: Object, number: int, mark: str) -> None:
        own, template = found["metadata"], self.revisions[found["metadata"]["name"], mark]
        name = f"{own['name']}-{number}"
        if ("PersistentVolumeClaim", f"data-{name}") not in self.objects:
            self.unready.discard(name)  # whatever was wrong with the data of before
        metadata = {**copy.deepcopy(template["metadata"]), "name": name, "namespace": own["namespace"]}
        metadata |= {"creationTimestamp": self.now.isoformat(), "uid": f"pod-{self.made}"}
        self.made += 1
        self.objects["Pod", name] = {"kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}
        for claim in found["spec"]["volumeClaimTemplates"]:
            key = ("PersistentVolumeClaim", f"{claim['metadata']['name']}-{name}")
            if key not in self.objects:
                labelled = {**claim["metadata"], "name": key[1], "namespace": own["namespace"], "uid": f"c-{self.made}"}
                self.objects[key] = {**copy.deepcopy(claim), "metadata": labelled}

    def _status(self, pod: Object) -> Object:
        container = pod["spec"]["containers"][0]
        since = {"lastTransitionTime": pod["metadata"]["creationTimestamp"]}
        if self.cpu and container["resources"]["requests"]["cpu"] > self.cpu:
            words = {"reason": "Unschedulable", "message": "no node has that much"}
            return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", **words, **since}]}
        is_bad = container["image"] in self.bad
        if pod["metadata"]["name"] in self.unready:
            return {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "False", **since}],
                "containerStatuses": [{"name": container["name"], "state": {"running": {}}, "restartCount": 0}],
            }
        state = {"waiting": {"reason": "CreateContainerError", "message": "no"}} if is_bad else {"running": {}}
        return {
            "phase": "Pending" if is_bad else "Running",
            "conditions": [{"type": "Ready", "status": "False" if is_bad else "True", **since}],
            "containerStatuses": [{"name": container["name"], "state": state, "restartCount": 0}],
        }


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
