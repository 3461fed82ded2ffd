"""`fleet serve` as users run it: a process, its log, its endpoints; and what a test waits for."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from fleet.lab.api import Api, RefusedError
from fleet.testing import Cluster
from fleet.testing.git import git
from tests.sync.fleet_repository import FleetRepository

SECONDS = 60.0


@dataclass
class Served:
    repository: FleetRepository
    directory: Path
    port: int = 0
    url: str = ""  # of the repository, where it is not the test's own remote
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    apis: dict[str, Api] = field(default_factory=dict)

    def push(self, message: str = "change") -> str:
        """Commit what is there and push it; returns the commit."""
        revision = self.repository.commit(message)
        git(self.repository.root, "push", "--quiet", "origin", "HEAD:main")
        return revision

    def start(self, *options: str, poll: str = "0.3s") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.starts += 1
        command = [
            sys.executable,
            "-m",
            "fleet",
            "serve",
            self.url or self.repository.remote.url,
            "--poll",
            poll,
            "--log",
            "json",
        ]
        command += ["--listen", f"127.0.0.1:{self.port}", "--cache", str(self.directory / "mirrors"), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=(self.directory / f"log-{self.starts}").open("wb"),
            cwd=self.directory,
            env={**os.environ, **self.environment},
            start_new_session=True,
        )

    def stop(self) -> int:
        """As a person or a kubelet does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log(self) -> list[dict[str, Any]]:
        text = (self.directory / f"log-{self.starts}").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def ask(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and text; (0, …) while nobody answers."""
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data, headers or {}), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except URLError as error:
            return getattr(error, "code", 0), str(getattr(error, "reason", error))

    def metric(self, beginning: str) -> float:
        """The sum of the samples whose lines begin so."""
        lines = self.ask("/metrics")[1].splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))

    def until(self, what: str, condition: Callable[[], bool], seconds: float = SECONDS) -> float:
        """Wait for it, and say how long it took."""
        began = time.monotonic()
        while not condition():
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the service ended while waiting until {what}:\n{self.tail()}")
            if time.monotonic() - began > seconds:
                raise AssertionError(f"it did not come to pass that {what}:\n{self.tail()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def tail(self) -> str:
        return (self.directory / f"log-{self.starts}").read_text()[-3000:]

    def data(self, cluster: Cluster, name: str, namespace: str = "") -> dict[str, str] | None:
        """The data of a ConfigMap; None when it is not there. A kubectl each time would be most of a test."""
        api = self.apis.setdefault(cluster.name, cluster.lab.api(cluster.lab.spec.cluster(cluster.name)))
        try:
            found = api.get(f"/api/v1/namespaces/{namespace or self.repository.namespace}/configmaps/{name}")
        except RefusedError:
            return None
        return dict(found.get("data", {}))

    def record(self, cluster: str, stack: str = "") -> dict[str, Any]:
        """What the status branch says, {} while it says nothing."""
        path = f"clusters/{cluster}/{stack or self.repository.stack}.json"
        try:
            found: dict[str, Any] = json.loads(self.repository.remote.git("show", f"fleet/status:{path}"))
        except AssertionError:
            return {}
        return found
