"""The five operations on an app that a test interrupts, one after the other, and what each of them did.

What it did is read where it cannot be missed: creations and deletions in the API server's audit log, changes of the
list of members in the log of a member that lives through them.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import FleetError
from fleet.testing import Cluster
from fleet.testing.audit import Request
from fleet.testing.traffic import TRAFFIC_ERRORS
from tests.operator.app_on_nodes import PATIENCE, REPOSITORY, App, Operator, definitions, release
from tests.operator.engine_under_test import EngineUnderTest
from tests.operator.writer import lost
from tests.served import wait_served

TINY = {"storage": "256Mi", "resources": {"cpu": "20m", "memory": "128Mi"}}
NAME = "db"


@dataclass(frozen=True)
class Operation:
    """`begin` says what is wanted, `done` whether it is so (and the app ready); `did` is all that the operator may do.

    Creations and deletions are the operator's own, with their kind and name; pods and claims of members are made by
    the StatefulSet's controller. `joined` and `left` count changes of the engine's list of members.
    """

    name: str
    begin: Callable[[App], Any]
    members: int
    version: str
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    joined: int = 0
    left: int = 0
    done: Callable[[App, Any], bool] = lambda app, before: True


def _create(version: str) -> Callable[[App], None]:
    return lambda app: app.want(**TINY, version=version, members=3)


def _lose(app: App) -> str:
    """A member's volume, and the pod that used it. The id that it had."""
    pod = f"{NAME}-2"
    identity: str = next(one["id"] for one in app.status["members"] if one["name"] == pod)
    app.cluster.kubectl("delete", "pvc", f"data-{pod}", "--wait=false")
    app.delete_pod(pod)
    return identity


def _is_another(app: App, lost: str) -> bool:
    return all(one.get("id") not in (lost, None) for one in app.status["members"])


def _wanted(**spec: Any) -> Callable[[App], None]:
    return lambda app: app.change(**spec)


def operations_of(engine: EngineUnderTest) -> tuple[Operation, ...]:
    """The same five for every engine whose members are clustered, over its two oldest series."""
    before, after = engine.app_type.versions.series[:2]
    return (
        Operation(
            "create",
            _create(before),
            members=3,
            version=before,
            created=(
                f"configmaps {NAME}-members",
                f"poddisruptionbudgets {NAME}",
                *(f"secrets {NAME}-{purpose}" for purpose in engine.secrets),
                f"services {NAME}",
                f"services {NAME}-peers",
                f"statefulsets {NAME}",
            ),
        ),
        Operation("3 to 5", _wanted(members=5), members=5, version=before, joined=2),
        Operation(
            "5 to 3",
            _wanted(members=3),
            members=3,
            version=before,
            deleted=(f"persistentvolumeclaims data-{NAME}-3", f"persistentvolumeclaims data-{NAME}-4"),
            left=2,
        ),
        Operation("upgrade", _wanted(version=after), members=3, version=after),
        Operation(
            "replace",
            _lose,
            members=3,
            version=after,
            deleted=(f"persistentvolumeclaims data-{NAME}-2", f"pods {NAME}-2"),
            joined=1,
            left=1,
            done=_is_another,
        ),
    )


@dataclass(frozen=True)
class Did:
    """What an operation did, and where it ended."""

    created: tuple[str, ...]
    deleted: tuple[str, ...]
    joined: int
    left: int
    members: tuple[str, ...]
    pods: tuple[str, ...]
    claims: tuple[str, ...]
    version: str


def expected(operation: Operation) -> Did:
    pods = tuple(f"{NAME}-{number}" for number in range(operation.members))
    return Did(
        created=operation.created,
        deleted=operation.deleted,
        joined=operation.joined,
        left=operation.left,
        members=pods,
        pods=pods,
        claims=tuple(f"data-{pod}" for pod in pods),
        version=operation.version,
    )


def said(request: Request) -> str:
    return f"{request.resource} {request.name}"


@dataclass
class Story:
    """One app through all operations; `written` are the numbers that it must have in the end."""

    cluster: Cluster
    directory: Path
    engine: EngineUnderTest
    written: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / "operator.log"
        self.log.touch()
        self.moves = self.directory / "moves"
        self.moves.touch()
        self.app = App(self.cluster, Operator(self.cluster, self.log, self.engine), NAME)
        self.operations = operations_of(self.engine)

    # Processes

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that is ended with the block if it has not ended by itself."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env=self.engine.environment,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(40)

    def product(self, kubeconfig: Path | None = None) -> list[str]:
        """The command line of the operator as it is shipped."""
        return [
            *("fleet_operator", "run", "--no-lease", f"--kubeconfig={kubeconfig or self.cluster.kubeconfig}"),
            *(f"--context={self.cluster.context}", f"--namespace={self.cluster.namespace}"),
            f"--image={self.engine.name}={self.engine.image}",
        ]

    def mortal(self, *options: str) -> list[str]:
        """The same that ends at a move."""
        return [
            "tests.operator.kill_points",
            *(f"--kubeconfig={self.cluster.kubeconfig}", f"--context={self.cluster.context}"),
            *(
                f"--namespace={self.cluster.namespace}",
                f"--engine={self.engine.source}",
                f"--moves={self.moves}",
                *options,
            ),
        ]

    def made(self) -> list[tuple[str, str]]:
        """The moves of mortals so far: in which life, and what."""
        lines = (line.partition(" ") for line in self.moves.read_text().splitlines())
        return [(life, what) for life, _, what in lines]

    # An operation from its beginning to its end

    def go_through(self, operation: Operation, run: Callable[[Callable[[], bool]], None]) -> Did:
        """`run` has operators do it, and is told by the function that it is given when it is done."""
        mark, changes, there = self.cluster.audit.mark(), self._changes(), self._objects()
        before = operation.begin(self.app)

        def done() -> bool:
            return operation.done(self.app, before) and self.app.is_ready()

        try:
            run(done)
            did = self._did(operation, mark, changes, there)
            self._check_data()
        except (AssertionError, FleetError, OSError) as problem:
            raise AssertionError(f"{operation.name}: {problem}\n{self.app.story()}") from problem
        return did

    def wait(self, done: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> bool:
        """Until it is done (True) or the process has ended (False)."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if process is not None and process.poll() is not None:
                return False
            with suppress(FleetError, KeyError):
                if done():
                    return True
            time.sleep(0.1)
        raise AssertionError(f"not done within {PATIENCE:g} s")

    def to_its_end(self, done: Callable[[], bool], *command: str) -> None:
        with self.running(*command) as process:
            assert self.wait(done, process), f"the operator ended by itself with {process.poll()}"

    def _did(self, operation: Operation, mark: int, before: int, there: Set[str]) -> Did:
        asked = [one for one in self.cluster.audit.writes(mark, agent="fleet-operator") if self._is_own(one)]
        made = [one for one in asked if one.code < 300]
        names = {one["metadata"]["name"] for one in self.cluster.get("pvc")["items"]}
        changes = self._changes_since(before) if operation.joined or operation.left else []
        status = self.app.status
        assert all(one["ready"] and one["role"] != "learner" for one in status["members"]), status["members"]
        return Did(
            created=tuple(sorted([*(said(one) for one in made if one.code == 201), *self._uncertain(asked, there)])),
            deleted=tuple(sorted(said(one) for one in made if one.verb == "delete")),
            joined=sum(kind == "added" for kind, _ in changes),
            left=sum(kind == "removed" for kind, _ in changes),
            members=tuple(one["name"] for one in status["members"]),
            pods=tuple(sorted(self.app.pods())),
            claims=tuple(sorted(names)),
            version=".".join(status["version"].split(".")[:2]),
        )

    def _is_own(self, request: Request) -> bool:
        return request.namespace == self.cluster.namespace and request.resource != "events"

    def _uncertain(self, asked: list[Request], there: Set[str]) -> Set[str]:
        """What is there now since a request that nobody waited for any more was carried out all the same."""
        cut = {said(one) for one in asked if not 100 <= one.code < 499} - {
            said(one) for one in asked if one.code == 201
        }
        return (cut & self._objects()) - there if cut else cut

    def _objects(self) -> set[str]:
        """Of the kinds that operations create."""
        kinds = sorted({name.partition(" ")[0] for one in self.operations for name in one.created})
        found = self.cluster.get(",".join(kinds))["items"]
        return {f"{one['kind'].lower()}s {one['metadata']['name']}" for one in found}

    def _changes(self) -> int:
        return len(self._changes_since(0))

    def _changes_since(self, number: int) -> list[tuple[str, str]]:
        """Changes of the list of members that the first member has carried out, each with an id."""
        try:
            log = self.cluster.kubectl("logs", f"{NAME}-0")
        except FleetError:  # there is no such pod yet
            return []
        return list(self.engine.changes_in(log))[number:]

    # Its data

    def write(self) -> None:
        number = len(self.written)

        async def write() -> None:
            async with asyncio.timeout(10):
                connection = await self.engine.traffic.connect(self.app.places()[0], self.app.tls())
                try:
                    await connection.write(number)
                finally:
                    connection.close()

        asyncio.run(write())
        self.written.add(number)

    def _check_data(self) -> None:
        """Every member has all that was written before, and takes one more."""
        for attempt in range(3):
            try:
                for place in self.app.places():
                    missing = lost(self.engine.traffic, frozenset(self.written), place, self.app.tls())
                    assert not missing, f"{missing} at {place}"
                self.write()
                break
            except TRAFFIC_ERRORS:  # on a machine this busy an election may come between
                if attempt == 2:
                    raise
                time.sleep(2)

    def close(self) -> None:
        release(self.cluster, self.engine)


def stage(cluster: Cluster, engine: EngineUnderTest) -> None:
    """What every story needs in its cluster."""
    cluster.images(engine.name)
    cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    wait_served(cluster, engine.resource.title)


def beside(cluster: Cluster, name: str) -> Cluster:
    """The same cluster with another namespace."""
    found = Cluster(cluster.lab, cluster.name, f"{name}-{secrets.token_hex(3)}")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace}}
    cluster.kubectl("create", "-f", "-", input=orjson.dumps(namespace).decode())
    return found


def leave(cluster: Cluster) -> None:
    cluster.kubectl("delete", "namespace", cluster.namespace, "--wait=false", "--ignore-not-found")
