"""Whether a fleet is what git says: objects, strangers' fields and objects, what was deleted, the status branch.

`difference` may be asked at any time and says what is still to come; `judge` is for a fleet that has come to rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from fleet.testing import AuditLog
from tests.bench.bare import path_of
from tests.soak.actions import Fleet, Stack
from tests.soak.stranger import OURS
from tests.soak.world import Place, World

Live = dict[tuple[str, str], dict[str, dict[str, Any]]]  # ConfigMaps by cluster and stack, and by name


def live(world: World) -> Live:
    places = [(cluster, stack.name) for cluster in world.clusters for stack in world.wanted]
    return {(cluster, stack): world.strangers[cluster].maps(stack) for cluster, stack in places}


def difference(world: World, found: Live) -> str:
    """The first thing in which clusters or status branch are not as git wants; "" when there is none."""
    for (cluster, name), objects in found.items():
        if said := of_stack(stack_of(world.wanted, name), cluster, objects):
            return f"{name} in {cluster}: {said}"
    for cluster, name in [*found, *((cluster, world.patient) for cluster in world.clusters)]:
        record = world.told.record(cluster, name)
        expected = ("Synced", world.repository.head, world.health[cluster] if name == world.patient else "Healthy")
        seen = (record.get("sync"), record.get("revision"), record.get("health"))
        if seen != expected:
            return f"the status branch has {seen} of {name} in {cluster}, and not {expected}: {record.get('message')}"
    return ""


def stack_of(fleet: Fleet, name: str) -> Stack:
    return next(one for one in fleet if one.name == name)


def of_stack(stack: Stack, cluster: str, objects: dict[str, dict[str, Any]]) -> str:
    """Of its namespace: each object that git wants once, under its name or a former one, and no other of ours."""
    ours = {name for name, one in objects.items() if (one["metadata"].get("labels") or {}).get(OURS) == stack.name}
    for item in stack.items:
        there = ours.intersection(item.names)
        if len(there) != 1:
            return f"of {item.name} there are {sorted(there) or 'none'}"
        (name,) = there
        data = objects[name]["data"]
        if (data.get("value"), data.get("cluster")) != (item.value, cluster):
            return f"{name} is {data}, and not {item.value}"
        ours -= there
    return f"nobody wants {sorted(ours)}" if ours else ""


def rendered(world: World) -> Iterator[str]:
    """In which fields that `fleet render` prints the clusters differ; read without any code of a sync."""
    command = [sys.executable, "-m", "fleet", "render", "--revision", world.repository.head, "-o", "json"]
    done = subprocess.run(command, cwd=world.repository.root, capture_output=True, text=True, check=True)
    former = {(one.name, item.name): item.names for one in world.wanted for item in one.items}
    for target in json.loads(done.stdout):
        stack, cluster = target["stack"], target["cluster"]
        for manifest in (one["manifest"] for one in target["objects"]):
            about, title = manifest["metadata"], f"{manifest['kind']} {manifest['metadata']['name']}"
            called = former.get((stack, about["name"]), ()) if manifest["kind"] == "ConfigMap" else ()
            under = [{**manifest, "metadata": {**about, "name": name}} for name in called or (about["name"],)]
            asked = [(one, world.strangers[cluster].again("GET", path_of(one))) for one in under]
            there = [(one, found) for one, found in asked if found is not None]
            if len(there) != 1:
                yield f"{cluster}: of {title} there are {len(there)}"
            elif path := differs(*there[0]):
                yield f"{cluster}: {title} differs from `fleet render` in {path}"


def differs(wanted: Any, found: Any, path: str = "") -> str:
    """Where what is wanted is not what is there; there may be more. Lists are compared whole."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            if said := differs(value, found.get(name), f"{path}.{name}"):
                return said
        return ""
    return "" if wanted == found else path or "."


class Judge:
    """Remembers from one rest to the next which objects there were, and how far the audit logs were read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs = {
            name: AuditLog(world.lab.plane(world.lab.spec.cluster(name)).audit_log) for name in world.clusters
        }
        self._read = {name: log.mark() for name, log in self._logs.items()}
        self._uids: dict[Place, str] = {}
        self.kept = 0  # foreign fields that were looked for, and found

    def judge(self, found: Live) -> list[str]:
        """What is wrong, of all that must not have happened since the last time."""
        wrong = [*self._others(found), *self._fields(found), *self._same(found), *self._deletions(), *self._taken()]
        self._world.gone.clear()
        self._world.deleted.clear()
        self._uids = {
            (cluster, stack, name): one["metadata"]["uid"]
            for (cluster, stack), objects in found.items()
            for name, one in objects.items()
        }
        return wrong

    def _others(self, found: Live) -> list[str]:
        """Objects of strangers are as they left them, to the version."""
        wrong = []
        for (cluster, stack, name), left in self._world.owned.items():
            one = found[cluster, stack].get(name)
            about = one["metadata"] if one else {}
            seen = (about.get("uid"), about.get("resourceVersion"), (one or {}).get("data", {}).get("value"))
            if seen != left:
                wrong.append(f"the stranger's own {stack}/{name} in {cluster} is {seen} and was left as {left}")
        return wrong

    def _fields(self, found: Live) -> list[str]:
        """Fields of strangers are there, as long as the object is the one that they wrote them into."""
        wrong = []
        for ((cluster, stack, name), _), mark in list(self._world.marks.items()):
            one = found[cluster, stack].get(name)
            if one is None or one["metadata"]["uid"] != mark.uid:
                del self._world.marks[(cluster, stack, name), mark.value]  # whether it may be so, `_same` says
                continue
            fields = one["data"] if mark.section == "data" else one["metadata"]["labels"]
            self.kept += 1
            if fields.get(mark.value) != "theirs":
                wrong.append(f"the stranger's {mark.section} {mark.value} of {stack}/{name} in {cluster} is gone")
        return wrong

    def _same(self, found: Live) -> list[str]:
        """What git wanted all the time, and no stranger deleted, is the same object as before."""
        world, wrong = self._world, []
        for (cluster, stack, name), uid in self._uids.items():
            if (stack, name) in world.gone or (cluster, stack, name) in world.deleted:
                continue
            one = found[cluster, stack].get(name)
            if one is None or one["metadata"]["uid"] != uid:
                wrong.append(f"{stack}/{name} in {cluster} was deleted" + (" and made anew" if one else ""))
        return wrong

    def _taken(self) -> list[str]:
        """No commit was taken that must not be; how many were seen, and refused, is counted."""
        world, wrong = self._world, []
        bad = {revision[:12]: one for revision, one in world.bad.items()}
        world.bad.clear()
        if not bad:
            return []
        refused: set[str] = set()
        for line in world.lines():
            revision = str(line["revision"])
            if revision not in bad:
                continue
            if "evaluated" in line and bad[revision].is_no_fleet:
                wrong.append(f"{revision} was taken ({bad[revision].title}): {line['message']}")
            if line["level"] in ("error", "warning"):
                refused.add(revision)
        world.counts["refused"] += len(refused)
        return wrong

    def _deletions(self) -> list[str]:
        """Nothing was deleted by us but what git took away."""
        world, wrong = self._world, []
        stacks = {world.patient, *(one.name for one in world.wanted)}
        for cluster, log in self._logs.items():
            mark, self._read[cluster] = self._read[cluster], log.mark()
            for one in log.writes(mark, agent="fleet/"):
                ours = one.namespace in stacks or (one.resource == "namespaces" and one.name in stacks)
                if one.verb.startswith("delete") and ours and one.code < 300:
                    world.counts["objects deleted"] += 1
                    if one.resource != "configmaps" or (one.namespace, one.name) not in world.may_go:
                        wrong.append(f"{one.uri} was deleted in {cluster}")
        return wrong
