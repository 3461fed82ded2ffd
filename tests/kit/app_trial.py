"""A trial of one app of a type: the simulated cluster and its servers, with what tests ask and do by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from fleet.kit.app_type import AppType
from fleet.kit.operate.app_engine import AppEngine
from fleet.kit.operate.engine import Engine, Report
from fleet.kit.operate.plain_engine import PlainEngine
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.simulate.cluster import Object
from fleet.kit.step import Decision, State
from fleet.model.app import ROLL, App
from fleet.names import VERSION
from fleet.testing.conformance.plain_servers import PlainServers
from fleet.testing.conformance.trial import Trial

MOST = 200  # reconciles until an operation must be over


class AppTrial:
    """`moves` of before are left out: those since `begin` are counted."""

    def __init__(
        self,
        app_type: AppType[Any],
        app: App,
        *,
        permissions: Permissions = DEFAULT,
        servers: Any = None,
        make_engine: Callable[[Any], Engine[Any, Any]] | None = None,
    ) -> None:
        self.app_type, self.app = app_type, app
        self.servers: Any = servers if servers is not None else PlainServers()
        plain = lambda servers: PlainEngine(app_type, {}, permissions)  # noqa: E731
        manifest = {
            "apiVersion": f"{app.api_group}/{VERSION}",
            "kind": app.kind(),
            "metadata": {"name": app.name, "namespace": app.namespace, "uid": "app", "generation": 1},
            "spec": app.spec(),
        }
        self.trial = Trial(manifest, self.servers, make_engine or plain)
        self.cluster = self.trial.cluster

    @property
    def engine(self) -> AppEngine[Any]:
        found = self.trial.engine
        assert isinstance(found, AppEngine)
        return found

    @property
    def observed(self) -> Any:
        return self.trial.observed

    @property
    def report(self) -> Report:
        return self.engine.report(self.trial.observe(), None)

    @property
    def moves(self) -> list[str]:
        return self.trial.moves

    @property
    def pods_made(self) -> int:
        return self.cluster.pods_made

    def reconcile(self) -> Decision:
        decision = self.trial.reconcile_once()
        assert decision is not None
        self.trial.tick()
        return decision

    def until_rest(self) -> list[Decision]:
        """Reconcile until nothing is to do; return the decisions."""
        decisions: list[Decision] = []
        for _ in range(MOST):
            decisions.append(self.reconcile())
            if [each.state for each in decisions[-3:]] == [State.OK] * 3:
                return decisions
        raise AssertionError(f"not at rest: {[(each.reason, each.message) for each in decisions[-5:]]}")

    def installed(self) -> Self:
        """Come to rest, and forget how."""
        self.until_rest()
        self.moves.clear()
        return self

    def wants(self, **fields: Any) -> Self:
        """Have git say something else; `roll` is the word of `fleet roll`."""
        roll = fields.pop("roll", "")
        self.app = self.app.model_copy(update=fields)
        self.trial.change(**self.app.spec())
        if roll:
            self.trial.manifest["metadata"]["annotations"] = {ROLL: roll}
        return self

    def get(self, kind: str, name: str) -> Object:
        found = self.cluster.get(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def names(self, kind: str) -> list[str]:
        return [found["metadata"]["name"] for found in self.cluster.list_objects(kind)]
