"""Bring one cluster to what its specification says: start what does not run, give it its objects, wait for its nodes.

An API server grants the rights of Kubernetes' own programs a second and more after it began to serve, so everything
else happens meanwhile, in the order in which one thing needs another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ResourceError
from fleet.lab import process
from fleet.lab.addons import addons
from fleet.lab.api import RefusedError
from fleet.lab.controlplane import Program
from fleet.lab.files import write
from fleet.lab.launch import PATIENCE, Started, launch, wait_listening, wait_ready, wait_until
from fleet.lab.spec import ClusterSpec
from fleet.lab.status import node_status

if TYPE_CHECKING:
    from fleet.lab.lab import Lab

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"  # no pod can be made before it is there


class Convergence:
    """One cluster of a lab on its way; `run` does nothing for one that has arrived."""

    def __init__(self, lab: Lab, cluster: ClusterSpec) -> None:
        self.lab = lab
        self.cluster = cluster
        self.plane = lab.plane(cluster)
        self.nodes = lab.nodes(cluster)
        self.names = [cluster.node_name(index + 1) for index in range(cluster.workers)]
        self.running = process.running(lab.directory)
        self.started: list[Started] = []
        self.cabled = False
        self.api = lab.api(cluster)

    def run(self) -> bool:
        """Whether there was anything to do."""
        etcd = self.plane.etcd()
        self._start(etcd)
        self._start_nodes()  # their runtimes start while the API server does
        apiserver, controllers, companions = self.plane.apiserver(), self.plane.controllers(), self.plane.companions()
        wait_listening(etcd, self.started)  # an API server that does not find it asks again a second later
        self._start(apiserver)
        objects = addons(self.cluster)
        wanted, given = orjson.dumps(objects), self.plane.directory / "ready.json"  # what it had when it was last ready
        untouched = not self.started and not self.cabled
        if untouched and all(one.role in self.running for one in (*controllers, *companions)):
            self._wait_ready(apiserver)
            if given.exists() and given.read_bytes() == wanted:
                return False
        self._give(objects)
        for program in companions:
            self._start(program)
        self._wait_ready(apiserver)
        for program in controllers:
            self._start(program)
        for program in (*controllers, *companions):
            self._wait_ready(program)
        for node in self.nodes:
            node.wait_for_runtime()
            self.lab.load_missing(node)
        wait_until(lambda: not self._missing(), self.started, self._why_missing)
        wait_until(lambda: self.api.has(DEFAULT_ACCOUNT), self.started, self._why_no_account)
        write(given, wanted)
        return True

    def _start(self, program: Program) -> None:
        if program.role not in self.running:
            self.started.append(launch(self.lab.directory, program))

    def _start_nodes(self) -> None:
        for node in self.nodes:
            first = self.running.get(node.role)
            if not first:
                self._start(node.program())
            # Also of one that runs: who started it may have died before it had its cable.
            self.cabled |= node.cable(first.pid if first else self.started[-1].process.pid)

    def _wait_ready(self, program: Program) -> None:
        wait_ready(program, self.started, self.plane.authority.certificate_file)

    def _give(self, objects: list[dict[str, Any]]) -> None:
        """An API server takes objects before it is ready, but not all: what it refuses until then is no error yet."""
        why = ""

        def given() -> bool:
            nonlocal why
            ready = self.api.has("/readyz")
            try:
                for one in objects:
                    self.api.apply(one)
            except ResourceError as error:
                if ready and isinstance(error, RefusedError):
                    raise
                why = str(error)
                return False
            return True

        wait_until(given, self.started, lambda: f"the API server takes no objects after {PATIENCE} s: {why}")

    def _missing(self) -> list[str]:
        ready = {node["name"] for node in node_status(self.api) if node["ready"]}
        return [name for name in self.names if name not in ready]

    def _why_missing(self) -> str:
        missing = self._missing()
        logs = [self.plane.log(f"{name}-{program}") for name in missing for program in ("kubelet", "containerd")]
        logs = [log for log in (*logs, self.plane.log("provisioner")) if log.exists()]
        tails = "\n".join(f"{log}:\n{process.tail(log)}" for log in logs)
        return f"nodes are not ready after {PATIENCE} s: {', '.join(missing)}\n{tails}"

    def _why_no_account(self) -> str:
        log = self.plane.log("kube-controller-manager")
        return f"no default service account after {PATIENCE} s; the end of {log}:\n{process.tail(log)}"
