"""A cluster as a test sees it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fleet.lab.lab import Lab
from fleet.testing.audit import AuditLog


@dataclass(frozen=True, slots=True)
class Cluster:
    """One real cluster with a namespace of the test's own."""

    lab: Lab
    name: str
    namespace: str

    @property
    def kubeconfig(self) -> Path:
        return self.lab.kubeconfig

    @property
    def context(self) -> str:
        return self.name

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.lab.plane(self.lab.spec.cluster(self.name)).audit_log)

    @property
    def node_names(self) -> list[str]:
        """Return the nodes that the cluster has now; a lab can grow while it runs."""
        return [node["metadata"]["name"] for node in self.get("nodes")["items"]]

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 120) -> str:  # noqa: A002
        """Run kubectl in the test's namespace and return what it printed; an error of kubectl fails the test."""
        return self.lab.kubectl(self.name, f"--namespace={self.namespace}", *arguments, input=input, timeout=timeout)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Apply objects; those without a namespace go to the test's own."""
        items = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}).decode()
        self.kubectl("apply", "--server-side", "-f", "-", input=items)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Run `kubectl get … -o json`, and return the object or list."""
        document: dict[str, Any] = orjson.loads(self.kubectl("get", *arguments, "-o", "json"))
        return document

    def execute(self, pod: str, *command: str, timeout: float = 60) -> str:
        """Run a command in a pod, and return what it printed."""
        return self.kubectl("exec", pod, "--", *command, timeout=timeout)

    def wait(self, what: str, condition: Callable[[], bool], timeout: float = 60) -> None:
        """Wait until `condition` holds; a failure of the API meanwhile counts as "not yet"."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                if condition():
                    return
                reason = ""
            except Exception as error:  # whatever it is, it is shown when time is up
                reason = f": {error}"
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen within {timeout:g} s{reason}")
            time.sleep(0.2)

    def images(self, *names: str) -> None:
        """Build images by recipe and give them to the cluster's nodes."""
        from fleet.lab.images.bake import bake
        from fleet.lab.images.recipes import find_recipes

        self.lab.load_images([bake(recipe) for name in names for recipe in find_recipes(name)])

    def process(self, program: str) -> int:
        """Return the process id of a program of the control plane, or of a node by its name."""
        from fleet.lab.programs import process

        return process.running_processes(self.lab.directory)[f"{self.name}/{program}"].pid

    def run(self, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command on this machine with the cluster's kubeconfig."""
        environment = self.lab.environment()
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
