"""`fleet serve` as users run it: a process of its own, its log, its endpoints; and what somebody waits for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

SECONDS = 180.0
LISTENING = re.compile(r'"listening at 127\.0\.0\.1:(\d+)"')


class NoAnswerError(AssertionError):
    """The service did not say how it is: that is no number, and above all not 0."""


@dataclass
class Process:
    directory: Path
    url: str  # of the repository
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    _port: int = 0

    def start(self, *options: str, poll: str = "0.3s", status_every: str = "0.2s") -> None:
        self.starts += 1
        self._port = 0
        command = [sys.executable, "-m", "fleet", *self.words, "--poll", poll, "--log", "json"]
        command += ["--status-every", status_every]
        command += ["--listen", "127.0.0.1:0", "--cache", str(self.directory / "mirrors"), *options]
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
    def port(self) -> int:
        """The one that it was given when it began to listen, from its log; 0 until then."""
        if not self._port and (found := LISTENING.search(self.said())):
            self._port = int(found[1])
        return self._port

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
        return self.process.wait(90)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def log_file(self) -> Path:
        return self.directory / f"log-{self.starts}"

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_file.read_text().splitlines() if line.startswith("{")]

    def said(self, since: int = 0) -> str:
        """The log of this start from there on: what was said before a mark is no answer to what came after it."""
        return self.log_file.read_text()[since:]

    def mark(self) -> int:
        return len(self.said())

    def tail(self) -> str:
        return self.said()[-3000:]

    def ask(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and text; (0, …) while nobody answers."""
        if not self.port:
            return 0, "it does not listen yet"
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data, headers or {}), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except (OSError, HTTPException) as error:  # also one that is killed while it answers
            return getattr(error, "code", 0), str(getattr(error, "reason", error))

    def metric(self, beginning: str) -> float:
        """The sum of the samples whose lines begin so; raises NoAnswerError, which `until` takes for not yet."""
        status, text = self.ask("/metrics")
        if status != 200:
            raise NoAnswerError(f"/metrics: {status} {text}")
        lines = text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))

    def until(self, what: str, condition: Callable[[], bool], seconds: float = SECONDS) -> float:
        """Wait for it, and say how long it took."""
        began = time.monotonic()
        while not _holds(condition):
            if self.has_ended:
                raise AssertionError(f"the service ended while waiting until {what}:\n{self.tail()}")
            if time.monotonic() - began > seconds:
                raise AssertionError(f"it did not come to pass that {what}:\n{self.tail()}")
            time.sleep(0.02)
        return time.monotonic() - began


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except NoAnswerError:
        return False
