"""`fleet serve` as a process of its own, while strangers open pull requests that attack it and others use it.

It follows two repositories of a forge, which is the tests' own server: to one of them strangers propose each of the
ATTACKS from forks, and push again as soon as they are told what came of it; the other is of people who do nothing
wrong. How long these wait is measured: from the webhook of a pull request until its preview is told, and for an answer
of the endpoints.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

from fleet.testing.git import git
from tests.forge.server import Asked, Reply, Server, serving
from tests.serve.forks import ATTACKS, FILES, WITHOUT_CLUSTERS, Fork
from tests.serve.process import Process

SECRET = "s3cret"
TOKEN = "token-of-the-service"
PULL = re.compile(r"/api/v1/repos/(\w+)/remote/pulls/(\d+)$")
COMMENTS = re.compile(r"/api/v1/repos/(\w+)/remote/issues/(\d+)/comments")
COMMENT = re.compile(r"/api/v1/repos/\w+/remote/issues/comments/(\d+)$")
STATUS = re.compile(r"/api/v1/repos/\w+/remote/statuses/(\w+)$")


@dataclass
class Proposals:
    """The forge: pull requests, comments on them and statuses of their heads, as Gitea shows them."""

    url: str = ""
    pulls: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)  # by repository and number
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)  # the last status of each head
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, asked: Asked) -> Reply:
        with self._changed:
            if found := STATUS.search(asked.target):
                self.told[found[1]] = asked.json
                self._changed.notify_all()
                return Reply(201, {})
            if found := PULL.search(asked.target):
                pull = self.pulls.get((found[1], int(found[2])))
                return Reply(200, pull) if pull else Reply(404, {"message": "not found"})
            if found := COMMENT.search(asked.target):
                self.comments[int(found[1])]["body"] = asked.json["body"]
                return Reply(200, self.comments[int(found[1])])
            if found := COMMENTS.search(asked.target):
                if asked.method == "GET":
                    return Reply(200, [one for one in self.comments.values() if one["number"] == int(found[2])])
                number = len(self.comments) + 1
                about = {"id": number, "number": int(found[2]), "user": {"login": "fleet"}, "html_url": "https://x"}
                self.comments[number] = {**about, "body": asked.json["body"]}
                return Reply(201, self.comments[number])
            if asked.target.endswith("/user"):
                return Reply(200, {"login": "fleet"})
            return Reply(200, [one for (name, _), one in self.pulls.items() if f"/{name}/remote/pulls" in asked.target])

    def propose(self, repository: str, number: int, head: str, author: str, *, fork: bool) -> dict[str, Any]:
        here = {"id": 1, "full_name": f"{repository}/remote"}
        with self._changed:
            self.pulls[repository, number] = {
                "number": number,
                "title": "a change",
                "state": "open",
                "html_url": f"{self.url}/{repository}/remote/pulls/{number}",
                "user": {"login": author},
                "base": {"ref": "main", "sha": head, "repo": here},
                "head": {"ref": "change", "sha": head, "repo": {"id": 2} if fork else here},
            }
            return self.pulls[repository, number]

    def is_told(self, head: str) -> bool:
        return bool(self.told.get(head, {"state": "pending"})["state"] != "pending")

    def wait(self, head: str, seconds: float = 120) -> None:
        """Wait until the preview of a head is told."""
        with self._changed:
            if not self._changed.wait_for(partial(self.is_told, head), seconds):
                raise AssertionError(f"no preview of {head} within {seconds:g} s")


class Both(Process):
    """The service of two repositories."""

    repositories: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return ["serve", *self.repositories]


@dataclass
class Attacked:
    proposals: Proposals
    process: Both
    theirs: Fork  # what strangers attack
    others: Fork
    rounds: int = 0  # how many attacks came to an end
    outcomes: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in ATTACKS})
    probes: list[float] = field(default_factory=list)  # seconds that /healthz took, since they were last taken
    _numbers: Iterator[int] = field(default_factory=lambda: count(100))
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _attackers: list[threading.Thread] = field(default_factory=list)
    _calm: threading.Event = field(default_factory=threading.Event)

    def preview(self) -> float:
        """Have somebody propose a change to the other repository; return how long it took until that was previewed."""
        number = next(self._numbers)
        head = self.others.head({"stacks/more.py": f"import fleet\n\nNUMBER = {number}\n"})
        begun = time.monotonic()
        self._push(self.others, "others", number, head, "colleague", fork=False)
        self.proposals.wait(head)
        took = time.monotonic() - begun
        told = self.proposals.told[head]
        assert told["state"] == "success", told
        return took

    def watch(self) -> None:
        """Ask for /healthz over and over, until the end."""
        self._begin(self._probe)

    def attack(self) -> None:
        """Have strangers attack without a pause, each with one of the ATTACKS."""
        for number, name in enumerate(ATTACKS, start=1):
            head = self.theirs.head(ATTACKS[name])
            self._attackers.append(self._begin(partial(self._attack, number, name, head)))

    def calm(self) -> None:
        """Have the strangers stop, once each was told of the attack that is under way."""
        self._calm.set()
        for thread in self._attackers:
            thread.join(60)
        self._attackers.clear()
        self._calm.clear()

    def take_probes(self) -> list[float]:
        probes, self.probes = self.probes, []
        return probes

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        self.process.kill()

    def _begin(self, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _attack(self, number: int, name: str, head: str) -> None:
        tree = git(self.theirs.root, "rev-parse", f"{head}^{{tree}}").strip()
        for again in count():
            self._push(self.theirs, "theirs", number, head, f"stranger-{number}", fork=True)
            while not self.proposals.is_told(head):
                if self._ended.wait(0.02):
                    return
            body = next(one["body"] for one in self.proposals.comments.values() if one["number"] == number)
            self.outcomes[name].add(f"{self.proposals.told[head]['description']} {body}")
            self.rounds += 1
            if self._calm.is_set():
                return
            # The same files once more, as another commit.
            head = git(
                self.theirs.remote.path, *AS_STRANGER, "commit-tree", tree, "-p", "main", "-m", f"{again}"
            ).strip()

    def _push(self, repository: Fork, name: str, number: int, head: str, author: str, *, fork: bool) -> None:
        repository.remote.git("update-ref", f"refs/pull/{number}/head", head)
        pull = self.proposals.propose(name, number, head, author, fork=fork)
        about = {"full_name": f"{name}/remote", "html_url": f"{self.proposals.url}/{name}/remote"}
        event = json.dumps({"action": "synchronized", "repository": about, "pull_request": pull}).encode()
        signature = hmac.new(SECRET.encode(), event, hashlib.sha256).hexdigest()
        headers = {"X-Gitea-Event": "pull_request", "X-Gitea-Signature": signature}
        status, text = self.process.ask("/hooks/gitea", event, headers)
        if status not in (0, 202):  # 0: the service has ended
            raise AssertionError(f"{status} {text}")

    def _probe(self) -> None:
        while not self._ended.wait(0.02):
            begun = time.monotonic()
            connection = HTTPConnection("127.0.0.1", self.process.port, timeout=60)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except OSError:  # it has ended
                continue
            finally:
                connection.close()
            self.probes.append(time.monotonic() - begun)


AS_STRANGER = ("-c", "user.name=Stranger", "-c", "user.email=stranger@example.com")


@contextmanager
def attacked(directory: Path) -> Iterator[Attacked]:
    """Start all of it, at rest. It ends with the block."""
    proposals = Proposals()
    with serving(proposals.answer) as server:
        proposals.url = server.url
        theirs, others = (_repository(directory / name, server, files) for name, files in REPOSITORIES.items())
        process = Both(directory, theirs.remote.url)
        process.repositories = (theirs.remote.url, others.remote.url)
        process.environment |= {"FLEET_FORGE_TOKEN": TOKEN, "FLEET_WEBHOOK_SECRET": SECRET}
        process.environment |= {"KUBECONFIG": str(directory / "none")}
        made = Attacked(proposals, process, theirs, others)
        try:
            process.start("--no-status", "--no-statuses", poll="1h")
            process.until("it is ready", lambda: process.ask("/readyz")[0] == 200)
            yield made
        finally:
            made.end()


REPOSITORIES = {"theirs": FILES, "others": WITHOUT_CLUSTERS}


def _repository(directory: Path, server: Server, files: Mapping[str, str]) -> Fork:
    directory.mkdir()
    where = f'[forge]\nkind = "gitea"\nurl = "{server.url}"\nrepository = "{directory.name}/remote"\n'
    return Fork.make(directory, where, files)
