"""A Kubernetes cluster in memory: objects, the StatefulSet controller, claims with their volumes, and kubelets.

It does what a real one does to the pods of an app, in steps that a trial takes one at a time: `tick` lets every
controller and kubelet go one step. What a container does is for the engine's simulated members to say (`Members`).
Nothing is random, and time passes with ticks alone, so a trial ends the same way each time.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import orjson

from fleet.errors import ConflictError
from fleet.kit.observe.world import World
from fleet.kit.workload.jobs import JOB
from fleet.model.types import amount
from fleet.names import OPERATOR

Object = dict[str, Any]
NODES = ("node-1", "node-2", "node-3")
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TICK = datetime.timedelta(seconds=1)
MOUNTED = "PersistentVolumeClaim"


@dataclass(slots=True)
class Disk:
    """The volume of a claim, with what an engine wrote on it."""

    uid: str
    content: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod that is started: what the pod says, the files that it mounts, and its volume."""

    pod: str
    image: str
    arguments: tuple[str, ...]
    files: Mapping[str, str]
    volume: Disk | None
    prepared: tuple[str, ...] = ()  # the words of what ran before it in the pod


class Members(Protocol):
    """An engine's servers, one per pod: what a kubelet would learn of their processes."""

    def start(self, container: Container) -> str:
        """Start the server of a pod; return the last words of one that ends at once, else ""."""

    def stop(self, pod: str) -> None:
        """End the server of a pod, if it runs."""

    def is_ready(self, pod: str) -> bool:
        """Return whether the readiness probe of a pod succeeds now."""

    def tick(self) -> None:
        """Let the servers go one step: elect, replicate, catch up."""


@runtime_checkable
class Programs(Protocol):
    """What members have in addition whose engine has programs that Jobs run. Jobs of others stay at work."""

    def run_program(self, container: Container) -> str | None:
        """Return the last words of a program that failed, "" of one that ended well; None while it is at work."""


class SimulatedCluster:
    """The objects of one namespace, and everything that happens to them."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.now = START
        self._objects: dict[tuple[str, str], Object] = {}
        self._volumes: dict[str, Disk] = {}  # by the UID of their claim
        self._templates: dict[str, dict[str, Object]] = {}  # by StatefulSet and revision: the pod template
        self._annotated: dict[tuple[str, str], frozenset[str]] = {}  # annotations that the operator applied
        self._last_number = 0
        self._world: World | None = None  # as it was read last, until anything happens
        self.nodes = frozenset(NODES)
        self.away: set[str] = set()  # pods whose node is away: nothing of them runs until it comes back
        self.most_cpu = math.inf  # of a node: pods that ask for more are not scheduled
        self.pods_made = 0
        self.created: list[str] = []  # kind and name of every object that somebody created
        self.deleted: list[str] = []

    def copy(self) -> SimulatedCluster:
        """Return another cluster that goes on from here, with its servers."""
        made = copy.copy(self)
        made.members, made._volumes = copy.deepcopy((self.members, self._volumes))
        made._objects = {key: copy_object(found) for key, found in self._objects.items()}
        made._templates = {name: dict(templates) for name, templates in self._templates.items()}
        made.away, made.created, made.deleted = set(self.away), list(self.created), list(self.deleted)
        made._annotated = dict(self._annotated)
        made._world = None
        return made

    # Objects, as an API server has them

    def get(self, kind: str, name: str) -> Object | None:
        """Return a copy of an object; None if there is none."""
        found = self._objects.get((kind, name))
        return copy_object(found) if found is not None else None

    def list_objects(self, kind: str) -> list[Object]:
        return [copy_object(found) for (of, _), found in sorted(self._objects.items()) if of == kind]

    def apply(self, manifest: Object) -> bool:
        """Apply an object as the operator does; return whether anything changed."""
        kind, own = manifest["kind"], manifest["metadata"]
        present = self._objects.get((kind, own["name"]))
        if present is None:
            self._world = None
            self._create(manifest)
            return True
        if "uid" in own and own["uid"] != present["metadata"]["uid"]:
            raise AssertionError(f"{kind} {own['name']} is not the object that was looked at")
        if "resourceVersion" in own and own["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise ConflictError(f"{kind} {own['name']} was changed since it was looked at")
        before = _content(present)
        _merge(present, {key: value for key, value in manifest.items() if key not in ("metadata", "status")})
        if "annotations" in own:  # what the operator set before, and sets no more, goes
            for name in self._annotated.get((kind, own["name"]), frozenset()) - own["annotations"].keys():
                present["metadata"].get("annotations", {}).pop(name, None)
            self._annotated[kind, own["name"]] = frozenset(own["annotations"])
        for part in ("labels", "annotations"):
            if part in own:
                present["metadata"][part] = {**present["metadata"].get(part, {}), **own[part]}
        changed = before != _content(present)
        if changed:
            self._world = None
            self._note_write(present)
        return changed

    def patch(self, found: Object, changes: Object) -> bool:
        """Merge changes into the very object that was looked at; None removes a field. Return whether it changed."""
        self._world = None
        present = self._objects.get((found["kind"], found["metadata"]["name"]))
        if present is None or present["metadata"]["uid"] != found["metadata"]["uid"]:
            return False
        before = _content(present)
        _patch_values(present, changes)
        changed = before != _content(present)
        if changed:
            self._note_write(present)
        return changed

    def set_status(self, found: Object, status: Mapping[str, Any]) -> bool:
        """Write the status of the very object that was looked at; return whether anything changed."""
        self._world = None
        present = self._objects.get((found["kind"], found["metadata"]["name"]))
        if present is None or present["metadata"]["uid"] != found["metadata"]["uid"] or present["status"] == status:
            return False
        present["status"] = copy.deepcopy(dict(status))
        return True

    def delete(self, found: Object) -> None:
        """Delete the very object that was looked at; nothing happens if it is gone or another one."""
        self._world = None
        present = self._objects.get((found["kind"], found["metadata"]["name"]))
        if present is None or present["metadata"]["uid"] != found["metadata"]["uid"]:
            return
        if "deletionTimestamp" in present["metadata"]:
            return
        self.deleted.append(f"{found['kind']} {found['metadata']['name']}")
        present["metadata"]["deletionTimestamp"] = self._time()
        if found["kind"] not in ("Pod", "PersistentVolumeClaim"):
            del self._objects[found["kind"], found["metadata"]["name"]]
        if found["kind"] == "StatefulSet":  # its pods go with it
            for pod in self._of("Pod"):
                if pod["metadata"]["name"].rpartition("-")[0] == found["metadata"]["name"]:
                    pod["metadata"].setdefault("deletionTimestamp", self._time())
        if found["kind"] == "Job":
            self._end_pods_of(found)

    def lose_volume(self, claim: str) -> None:
        """Empty the volume of a claim, as a disk does that was replaced."""
        self._world = None
        self._volumes[self._objects[MOUNTED, claim]["metadata"]["uid"]].content.clear()

    def lose_claim(self, claim: str) -> None:
        """Lose the volume of a claim for good: Kubernetes knows, and its pod ends."""
        self._world = None
        found = self._objects[MOUNTED, claim]
        found["status"]["phase"] = "Lost"
        self._volumes[found["metadata"]["uid"]].content.clear()
        self.kill_pod(claim.split("-", 1)[1])

    def lose_node(self, pod: str) -> None:
        """Lose the node of a pod for good, with the volumes that can be reached from there alone."""
        self._world = None
        found = self._objects["Pod", pod]
        node = found["spec"]["nodeName"]
        self.nodes -= {node}
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
        for claim in claims_in(found):
            name = self._objects[MOUNTED, claim]["spec"]["volumeName"]
            spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
            self._objects["PersistentVolume", name] = {
                "kind": "PersistentVolume",
                "metadata": {"name": name, "uid": name},
                "spec": spec,
            }
        self.kill_pod(pod)

    def kill_pod(self, pod: str) -> None:
        """End a pod at once, as an eviction does."""
        self._world = None
        found = self._objects.get(("Pod", pod))
        if found is not None:
            self.members.stop(pod)
            del self._objects["Pod", pod]

    def edit(self, kind: str, name: str) -> Object:
        """Return the very object that there is, for a user who changes it behind the operator's back."""
        self._world = None
        found = self._objects[kind, name]
        found["metadata"]["generation"] += 1
        return found

    def remove(self, kind: str, name: str) -> None:
        """Delete an object as a user does who leaves what hangs on it."""
        self._world = None
        del self._objects[kind, name]

    def volume_of(self, claim: str) -> Disk | None:
        found = self._objects.get((MOUNTED, claim))
        return self._volumes.get(found["metadata"]["uid"]) if found else None

    def world(self) -> World:
        """Return what an operator's caches have: nobody may change that."""
        if self._world is None or self._world.now != self.now:
            objects = [copy_object(found) for _, found in sorted(self._objects.items())]
            self._world = World.of(objects, self.nodes, self.now)
        return self._world

    # Controllers and kubelets

    def tick(self) -> None:
        """Let a second pass: every controller and kubelet does what it has to, once."""
        self._world = None
        self.now += TICK
        self._end_deleted()
        for found in [one for (kind, _), one in sorted(self._objects.items()) if kind == "StatefulSet"]:
            self._keep_stateful_set(found)
        for found in [one for (kind, _), one in sorted(self._objects.items()) if kind == "Job"]:
            self._keep_job(found)
        servers = [one for (kind, _), one in sorted(self._objects.items()) if kind == "Pod" and not _job_of(one)]
        for found in servers:
            self._keep_pod(found)
        self.members.tick()
        for found in servers:
            self._probe(found)
        for found in [one for (kind, _), one in self._objects.items() if kind == "StatefulSet"]:
            self._keep_status(found)

    def _end_deleted(self) -> None:
        for (kind, name), found in list(self._objects.items()):
            if kind == "Pod" and "deletionTimestamp" in found["metadata"]:
                self.members.stop(name)
                del self._objects[kind, name]
        used = {claim for found in self._of("Pod") for claim in claims_in(found)}
        for (kind, name), found in list(self._objects.items()):
            if kind == MOUNTED and "deletionTimestamp" in found["metadata"] and name not in used:
                self._volumes.pop(found["metadata"]["uid"], None)
                del self._objects[kind, name]

    def _keep_stateful_set(self, found: Object) -> None:
        name, spec = found["metadata"]["name"], found["spec"]
        wanted = self._revision(name, spec["template"])
        status = found["status"]
        status["updateRevision"] = wanted
        status.setdefault("currentRevision", wanted)
        status["observedGeneration"] = found["metadata"]["generation"]
        start, count = int((spec.get("ordinals") or {}).get("start", 0)), int(spec["replicas"])
        ordinals = range(start, start + count)
        pods = {
            int(pod["metadata"]["name"].rpartition("-")[2]): pod
            for pod in self._of("Pod")
            if pod["metadata"]["name"].rpartition("-")[0] == name
        }
        strategy = spec.get("updateStrategy") or {}
        on_delete = strategy.get("type") == "OnDelete"
        partition = 0 if on_delete else int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        for ordinal in ordinals:
            if ordinal not in pods:
                is_new = on_delete or ordinal - start >= partition
                self._create_pod(found, ordinal, wanted if is_new else status["currentRevision"])
        for ordinal in sorted(pods, reverse=True):
            if ordinal not in ordinals and "deletionTimestamp" not in pods[ordinal]["metadata"]:
                pods[ordinal]["metadata"]["deletionTimestamp"] = self._time()
                return
        if on_delete or any(not _is_ready(pod) for pod in pods.values()) or len(pods) < count:
            # As the controller does without `maxUnavailable`: the next one only when all are well.
            self._restart_unready(pods, wanted, partition, start, on_delete=on_delete)
            return
        for ordinal in sorted(pods, reverse=True):
            if (
                ordinal - start >= partition
                and pods[ordinal]["metadata"]["labels"]["controller-revision-hash"] != wanted
            ):
                pods[ordinal]["metadata"]["deletionTimestamp"] = self._time()
                return

    def _restart_unready(
        self, pods: Mapping[int, Object], wanted: str, partition: int, start: int, *, on_delete: bool
    ) -> None:
        """Replace the highest pod that is to be updated, if it is the one that is not ready."""
        if on_delete:
            return
        for ordinal in sorted(pods, reverse=True):
            if ordinal - start < partition:
                return
            outdated = pods[ordinal]["metadata"]["labels"]["controller-revision-hash"] != wanted
            if outdated and "deletionTimestamp" not in pods[ordinal]["metadata"]:
                pods[ordinal]["metadata"]["deletionTimestamp"] = self._time()
                return
            if not _is_ready(pods[ordinal]):
                return

    def _keep_status(self, found: Object) -> None:
        name, status = found["metadata"]["name"], found["status"]
        pods = [pod for pod in self._of("Pod") if pod["metadata"]["name"].rpartition("-")[0] == name]
        revisions = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods}
        strategy = found["spec"].get("updateStrategy") or {}
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        whole = len(pods) == int(found["spec"]["replicas"]) and all(map(_is_ready, pods))
        updated = revisions == {status.get("updateRevision")}
        if whole and updated and partition == 0 and strategy.get("type") != "OnDelete":
            status["currentRevision"] = status["updateRevision"]
        status["replicas"] = len(pods)
        status["readyReplicas"] = sum(map(_is_ready, pods))
        status["updatedReplicas"] = sum(
            pod["metadata"]["labels"]["controller-revision-hash"] == status.get("updateRevision") for pod in pods
        )

    def _create_pod(self, parent: Object, ordinal: int, revision: str) -> None:
        name = f"{parent['metadata']['name']}-{ordinal}"
        template = copy_object(self._templates[parent["metadata"]["name"]][revision])
        volumes = template["spec"].setdefault("volumes", [])
        for claim in parent["spec"].get("volumeClaimTemplates", ()):
            claim_name = f"{claim['metadata']['name']}-{name}"
            present = self._objects.get((MOUNTED, claim_name))
            if present is not None and "deletionTimestamp" in present["metadata"]:
                return  # as the controller does: no pod is made on a claim that goes
            if present is None:
                self._create_claim(parent, claim, claim_name)
            volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
        metadata = template.get("metadata") or {}
        labels = {**metadata.get("labels", {}), "controller-revision-hash": revision}
        labels["statefulset.kubernetes.io/pod-name"] = name
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": name, "namespace": parent["metadata"]["namespace"], "labels": labels},
            "spec": {**template["spec"], "hostname": name},
            "status": {"phase": "Pending", "conditions": []},
        }
        self._store(pod)
        self.pods_made += 1

    def _create_claim(self, parent: Object, template: Object, name: str) -> None:
        claim = copy_object(template)
        claim |= {"apiVersion": "v1", "kind": MOUNTED}
        claim["metadata"] = {**claim["metadata"], "name": name, "namespace": parent["metadata"]["namespace"]}
        claim["status"] = {"phase": "Bound"}
        stored = self._store(claim)
        stored["spec"]["volumeName"] = f"pv-{stored['metadata']['uid']}"

    def _keep_pod(self, found: Object) -> None:
        status, name = found["status"], found["metadata"]["name"]
        if "deletionTimestamp" in found["metadata"]:
            return
        if name in self.away:
            self.members.stop(name)
            status["containerStatuses"] = []
            return
        if status["phase"] == "Pending":
            if any((MOUNTED, claim) not in self._objects for claim in claims_in(found)):
                return
            if not self._is_scheduled(found):
                return
            found["spec"]["nodeName"] = NODES[int(found["metadata"]["name"].rpartition("-")[2]) % len(NODES)]
            status["phase"], status["podIP"] = "Running", f"127.1.0.{10 + self._next_number() % 200}"
        state = self._container_state(found)
        if "running" in state.get("state", {}):
            return
        restarts = int(state.get("restartCount", -1)) + 1
        words = self.members.start(self._container(found))
        name = found["spec"]["containers"][0]["name"]
        if words:
            ended = {"terminated": {"exitCode": 1, "message": words}}
            waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
            entry = {"name": name, "restartCount": restarts, "state": waits, "lastState": ended, "ready": False}
        else:
            entry = {"name": name, "restartCount": restarts, "state": {"running": {"startedAt": self._time()}}}
        entry["image"] = found["spec"]["containers"][0]["image"]
        status["containerStatuses"] = [entry]

    def _keep_job(self, found: Object) -> None:
        """Run the program of a Job, each try in a pod of its own, until one ends well or there were too many."""
        status = found["status"]
        if not isinstance(self.members, Programs) or status.get("conditions"):
            return
        name, pods = found["metadata"]["name"], self._pods_of_job(found)
        at_work = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        words = self.members.run_program(self._container(at_work[0])) if at_work else None
        for pod in at_work if words is not None else ():
            ended = {"terminated": {"exitCode": 1 if words else 0, "message": words}}
            pod["status"]["phase"] = "Failed" if words else "Succeeded"
            pod["status"]["containerStatuses"] = [{"name": pod["spec"]["containers"][0]["name"], "state": ended}]
        since = datetime.datetime.fromisoformat(found["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
        end = {"status": "True", "lastTransitionTime": self._time()}
        if words == "":
            status["conditions"] = [{"type": "Complete", **end}]
        elif (self.now - since).total_seconds() > found["spec"]["activeDeadlineSeconds"]:
            status["conditions"] = [{"type": "Failed", "message": "it was active longer than it may be", **end}]
            self._end_pods_of(found)
        elif words and len(pods) > found["spec"]["backoffLimit"]:
            status["conditions"] = [{"type": "Failed", "message": "it has reached the backoff limit", **end}]
        elif not at_work:
            self._create_pod_of_job(found, f"{name}-{len(pods)}")

    def _create_pod_of_job(self, found: Object, name: str) -> None:
        template = copy_object(found["spec"]["template"])
        own = found["metadata"]
        labels = {**template["metadata"]["labels"], JOB: own["name"]}
        running = [{"name": template["spec"]["containers"][0]["name"], "state": {"running": {}}}]
        self._store(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": own["namespace"], "labels": labels},
                "spec": template["spec"],
                "status": {"phase": "Running", "conditions": [], "containerStatuses": running},
            }
        )

    def _pods_of_job(self, found: Object) -> list[Object]:
        return [pod for pod in self._of("Pod") if _job_of(pod) == found["metadata"]["name"]]

    def _end_pods_of(self, found: Object) -> None:
        for pod in self._pods_of_job(found):
            del self._objects["Pod", pod["metadata"]["name"]]

    def _is_scheduled(self, found: Object) -> bool:
        """Tell whether a node takes a pod; its conditions say why not."""
        conditions = [each for each in found["status"]["conditions"] if each["type"] != "PodScheduled"]
        requests = found["spec"]["containers"][0].get("resources", {}).get("requests", {})
        volumes = {self._objects[MOUNTED, claim]["spec"]["volumeName"] for claim in claims_in(found)}
        fits = amount(requests.get("cpu", "0")) <= self.most_cpu
        fits = fits and not any(("PersistentVolume", name) in self._objects for name in volumes)
        if not fits:
            why = {"reason": "Unschedulable", "message": "no node has that much"}
            conditions.append({"type": "PodScheduled", "status": "False", **why})
        found["status"]["conditions"] = conditions
        return fits

    def crash(self, pod: str, words: str) -> None:
        """Let the server of a pod end, with its last words."""
        self._world = None
        found = self._objects.get(("Pod", pod))
        if found is None:
            return
        self.members.stop(pod)
        state = self._container_state(found)
        state["lastState"] = {"terminated": {"exitCode": 1, "message": words}}
        state["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}

    def _container_state(self, found: Object) -> Object:
        states: list[Object] = found["status"].get("containerStatuses") or [{}]
        return states[0]

    def _container(self, found: Object) -> Container:
        container, name = found["spec"]["containers"][0], found["metadata"]["name"]
        files: dict[str, str] = {}
        for volume in found["spec"].get("volumes", ()):
            source = volume.get("configMap")
            if source:
                files |= self._objects.get(("ConfigMap", source["name"]), {}).get("data", {})
        claims = claims_in(found)
        uid = self._objects[MOUNTED, claims[0]]["metadata"]["uid"] if claims else ""
        before = [word for each in found["spec"].get("initContainers") or () for word in _words(each, name)]
        arguments = tuple(_words(container, name))
        return Container(name, container["image"], arguments, files, self._volumes.get(uid), tuple(before))

    def _probe(self, found: Object) -> None:
        name = found["metadata"]["name"]
        runs = "running" in self._container_state(found).get("state", {})
        ready = runs and "deletionTimestamp" not in found["metadata"] and self.members.is_ready(name)
        conditions = {one["type"]: one for one in found["status"]["conditions"]}
        value = "True" if ready else "False"
        if conditions.get("Ready", {}).get("status") != value:
            conditions["Ready"] = {"type": "Ready", "status": value, "lastTransitionTime": self._time()}
        found["status"]["conditions"] = list(conditions.values())

    # Bookkeeping

    def _create(self, manifest: Object) -> None:
        made = copy_object(manifest)
        self.created.append(f"{made['kind']} {made['metadata']['name']}")
        made.setdefault("status", {})
        made["metadata"].pop("resourceVersion", None)
        self._annotated[made["kind"], made["metadata"]["name"]] = frozenset(made["metadata"].get("annotations") or ())
        self._note_write(self._store(made))

    def _store(self, made: Object) -> Object:
        uid = f"uid-{self._next_number()}"
        made["metadata"] |= {"uid": uid, "creationTimestamp": self._time(), "generation": 0}
        self._objects[made["kind"], made["metadata"]["name"]] = made
        if made["kind"] == MOUNTED:
            self._volumes[uid] = Disk(uid)
        return made

    def _note_write(self, found: Object) -> None:
        found["metadata"]["generation"] += 1
        found["metadata"]["resourceVersion"] = str(found["metadata"]["generation"])
        found["metadata"]["managedFields"] = [{"manager": OPERATOR, "operation": "Apply", "time": self._time()}]

    def _revision(self, name: str, template: Object) -> str:
        revision = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        self._templates.setdefault(name, {}).setdefault(revision, copy_object(template))
        return revision

    def current_template(self, found: Object) -> Object:
        """Return the template of the revision that a StatefulSet calls its current one."""
        templates = self._templates[found["metadata"]["name"]]
        made: Object = copy_object(templates[found["status"]["currentRevision"]])
        return made

    def _of(self, kind: str) -> Iterator[Object]:
        return (found for (of, _), found in list(self._objects.items()) if of == kind)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")


def copy_object(value: Any) -> Any:
    """Return a copy of a manifest, by its JSON: most of what a trial does is this."""
    return orjson.loads(orjson.dumps(value))


def _words(container: Object, pod: str) -> list[str]:
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    return [word.replace("$(POD_NAME)", pod) for word in words]


def claims_in(pod: Object) -> list[str]:
    """Return the names of the claims that a pod uses."""
    volumes = pod["spec"].get("volumes") or ()
    return [str(one["persistentVolumeClaim"]["claimName"]) for one in volumes if "persistentVolumeClaim" in one]


def _job_of(pod: Object) -> str:
    """Return the Job that a pod is of; "" of a member's."""
    return str((pod["metadata"].get("labels") or {}).get(JOB, ""))


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _content(found: Object) -> bytes:
    own = {part: found["metadata"].get(part) for part in ("labels", "annotations")}
    rest = {key: value for key, value in found.items() if key not in ("metadata", "status")}
    return orjson.dumps([own, rest], option=orjson.OPT_SORT_KEYS)


def _merge(present: Object, wanted: Object) -> None:
    """Set what is wanted: whole objects, but of claims the operator sends the size alone."""
    for name, value in wanted.items():
        if present["kind"] == MOUNTED and isinstance(value, dict) and isinstance(present.get(name), dict):
            _merge_values(present[name], value)
        else:
            present[name] = copy_object(value)


def _patch_values(present: Object, changes: Object) -> None:
    for name, value in changes.items():
        if value is None:
            present.pop(name, None)
        elif isinstance(value, dict):
            inner = present.get(name)
            if not isinstance(inner, dict):
                present[name] = inner = {}
            _patch_values(inner, value)
        else:
            present[name] = copy.deepcopy(value)


def _merge_values(present: Object, wanted: Object) -> None:
    for name, value in wanted.items():
        if isinstance(value, dict) and isinstance(present.get(name), dict):
            _merge_values(present[name], value)
        else:
            present[name] = copy_object(value)
