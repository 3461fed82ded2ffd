"""Apps that run already, taken over and given back in memory under the operator's own decisions, which is killed after
every move of both.

What is tried is a type with StatefulSets as somebody may have made them. Whatever happens, no pod is made anew; what is
given back is as it was found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.kit.adoption.discovery import Candidate
from fleet.kit.adoption.giveback import ORDER, RELEASED, list_metadata_changes, list_spec_changes
from fleet.kit.adoption.hold import is_observed
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.app_type import AppType
from fleet.kit.operate.engine import Engine, Report
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.simulate.cluster import Object
from fleet.kit.step import Take
from fleet.model.app import App
from fleet.names import VERSION
from fleet.testing.conformance.plain_servers import PlainServers
from fleet.testing.conformance.trial import KilledError, Trial

STARTING = 5  # ticks until members that somebody set up are ready
OURS = ("fleet.dev/app", "fleet.dev/kind")


@dataclass(frozen=True, slots=True)
class AdoptionSubject:
    """What is tried. `describe` returns the app that git says, by the StatefulSets as they run: for engines that are
    known by objects alone it is what `fleet adopt` finds.
    """

    app_type: AppType[Any]
    sets: Sequence[Object]  # as they are applied, without anything that a server adds
    describe: Callable[[Sequence[Object]], App] | None = None
    make_servers: Callable[[], Any] = PlainServers
    make_engine: Callable[[Any], Engine[Any, Any]] | None = None

    def begin(self) -> AdoptionTrial:
        """Return a trial in which the members run, and no operator has looked at them."""
        servers, app_type = self.make_servers(), self.app_type
        make = self.make_engine or (lambda servers: PlainEngine(app_type, {}))
        trial = AdoptionTrial({"metadata": {}}, servers, make)
        for manifest in self.sets:
            trial.cluster.apply(copy.deepcopy(manifest))
        for _ in range(STARTING):
            trial.cluster.tick()
        present = trial.cluster.list_objects("StatefulSet")
        names = [manifest["metadata"]["name"] for manifest in self.sets]
        in_order = sorted(present, key=lambda found: names.index(found["metadata"]["name"]))
        app = (self.describe or self._find)(in_order)
        trial.manifest = {
            "apiVersion": f"{app.api_group}/{VERSION}",
            "kind": app.kind(),
            "metadata": {"name": app.name, "namespace": app.namespace, "uid": "app", "generation": 1},
            "spec": app.spec(),
        }
        trial.found = {manifest["metadata"]["name"]: _described(manifest) for manifest in in_order}
        trial.started = _pods(trial)
        trial.checks.append(_check_pods)
        return trial

    def _find(self, sets: Sequence[Object]) -> App:
        discovery = self.app_type.discovery()
        assert discovery is not None, f"{self.app_type.name} takes nothing over"
        judged = discovery.understands(sets[0], Surroundings(sets=sets), {})
        assert isinstance(judged, Candidate), f"it cannot be taken over: {judged}"
        return judged.app


class AdoptionTrial(Trial):
    """A trial in which others made the members."""

    found: Mapping[str, Object]  # the StatefulSets as they were, by name
    started: Mapping[str, str]  # the pods of then, with their UIDs

    async def _carry_out(self, seen: Any, step: Any, world: Any) -> None:
        if not isinstance(step, Take) or step.manifest is None:
            await super()._carry_out(seen, step, world)
            return
        own = step.manifest["metadata"]
        changes = {"metadata": {name: own[name] for name in ("labels", "annotations")}, "spec": step.manifest["spec"]}
        self._patch(step.object, changes, "take")

    def take(self) -> None:
        """Have it taken over; raise AssertionError unless it is, and as it was found."""
        self.settle()
        conditions = {one[0]: one[1] for one in self.report().conditions}
        assert conditions.get("Adopted") == "True", (conditions, self.decisions[-1])

    def report(self) -> Report:
        """Return what the operator says of it now."""
        return self.engine.report(self.observe(), None)

    def give_back(self) -> None:
        """Give it back, by a process that may be killed: the next one goes on."""
        while True:
            try:
                for _ in range(STARTING):
                    self._release()
                    self.tick()
                break
            except KilledError:
                self.restart()
        left = [f"{kind} {one['metadata']['name']}" for kind in ORDER for one in self._owned(kind)]
        assert not left, f"still the app's: {left}"
        for found in self.cluster.list_objects("StatefulSet"):
            described = _described(found)
            assert described == self.found[found["metadata"]["name"]], f"given back as {described}"

    def _release(self) -> None:
        """One look of an operator that is asked to give it back."""
        for kind in ORDER:
            for found in self._owned(kind):
                if kind == "StatefulSet":
                    if not is_observed(found):
                        return
                    if changes := list_spec_changes(found):
                        self._patch(found, {"spec": changes}, "restore")
                self._patch(found, {"metadata": list_metadata_changes(found)}, "release")

    def _owned(self, kind: str) -> list[Object]:
        app = self.manifest["metadata"]["name"], self.manifest["kind"]
        present = self.cluster.list_objects(kind)
        return [one for one in present if tuple((one["metadata"].get("labels") or {}).get(of) for of in OURS) == app]

    def _patch(self, found: Object, changes: Object, verb: str) -> None:
        if self.cluster.patch(found, changes):
            self._moved(f"{verb} {found['kind']} {found['metadata']['name']}")


def check_adoption(subject: AdoptionSubject) -> tuple[list[str], list[str]]:
    """Take over and give back, killed after every move of either, and given back after every move of taking over.

    Return the moves of both, undisturbed. Raise AssertionError with the moves until then.
    """
    straight = subject.begin()
    straight.take()
    taken, taking = _content(straight), list(straight.moves)
    straight.give_back()
    given, giving = _content(straight), straight.moves[len(taking) :]
    for number in range(1, len(taking) + 1):
        trial = subject.begin()
        trial.kill_after = number
        trial.take()
        assert _content(trial) == taken, f"killed after {taking[number - 1]}: {trial.moves}"
        trial = subject.begin()
        trial.kill_after = number
        while trial.reconcile_once() is not None:
            trial.tick()
        trial.give_back()  # git did not mean it after all
    for number in range(1, len(giving) + 1):
        trial = subject.begin()
        trial.take()
        trial.kill_after = number
        trial.give_back()
        assert _content(trial) == given, f"killed after {giving[number - 1]}: {trial.moves}"
    again = subject.begin()
    again.take()
    again.give_back()
    again.take()
    assert _content(again) == taken, f"taken over, given back and taken over again: {again.moves}"
    return taking, giving


def _check_pods(trial: Trial) -> None:
    assert isinstance(trial, AdoptionTrial)
    assert _pods(trial) == trial.started, f"pods were made anew after {trial.moves[-3:]}"
    assert trial.members.lost_writes() == 0


def _pods(trial: Trial) -> dict[str, str]:
    return {found["metadata"]["name"]: found["metadata"]["uid"] for found in trial.cluster.list_objects("Pod")}


def _described(found: Object) -> Object:
    """What a person means by a StatefulSet."""
    own = found["metadata"]
    marks = {name: own.get(name) or {} for name in ("labels", "annotations")}
    return copy.deepcopy({**marks, "spec": found["spec"]})


def _content(trial: Trial) -> dict[str, Object]:
    """All objects but pods, without what says when they were written or that they were given back once."""
    kinds = (*ORDER, "Job")
    return {
        f"{kind} {found['metadata']['name']}": {
            **{name: value for name, value in found.items() if name not in ("metadata", "status")},
            "labels": found["metadata"].get("labels") or {},
            "annotations": {
                name: text for name, text in (found["metadata"].get("annotations") or {}).items() if name != RELEASED
            },
        }
        for kind in kinds
        for found in trial.cluster.list_objects(kind)
    }
