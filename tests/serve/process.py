"""`fleet serve` as users run it: a process of its own, its log, its endpoints; and what somebody waits for."""

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
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

SECONDS = 60.0


@dataclass
class Process:
    directory: Path
    url: str  # of the repository
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str, poll: str = "0.3s") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.starts += 1
        command = [sys.executable, "-m", "fleet", *self.words, "--poll", poll, "--log", "json"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--cache", str(self.directory / "mirrors"), *options]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    @property
    def words(self) -> list[str]:
        """Which command, and what it is about."""
        return ["serve", self.url]

    @property
    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> int:
        """As a person or a kubelet does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def log_file(self) -> Path:
        return self.directory / f"log-{self.starts}"

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_file.read_text().splitlines() if line.startswith("{")]

    def tail(self) -> str:
        return self.log_file.read_text()[-3000:]

    def ask(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and text; (0, …) while nobody answers."""
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data, headers or {}), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except (OSError, HTTPException) as error:  # also one that is killed while it answers
            return getattr(error, "code", 0), str(getattr(error, "reason", error))

    def metric(self, beginning: str) -> float:
        """The sum of the samples whose lines begin so."""
        lines = self.ask("/metrics")[1].splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))

    def until(self, what: str, condition: Callable[[], bool], seconds: float = SECONDS) -> float:
        """Wait for it, and say how long it took."""
        began = time.monotonic()
        while not condition():
            if self.has_ended:
                raise AssertionError(f"the service ended while waiting until {what}:\n{self.tail()}")
            if time.monotonic() - began > seconds:
                raise AssertionError(f"it did not come to pass that {what}:\n{self.tail()}")
            time.sleep(0.02)
        return time.monotonic() - began
