"""Pull requests on a real forge: comment and status by webhook, no clusters for forks, merges applied."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import yaml

from fleet.errors import ResourceError
from fleet.evaluate.pool import Pool
from fleet.forge.comments import approval_command
from fleet.forge.forge import Action, ForgeRepository, PullRequestEvent
from fleet.forge.forge import PullRequest as Asked
from fleet.kube.runtime.metrics import Counter
from fleet.serve.branch import CurrentCommit
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, evaluate_commit
from fleet.serve.options import ServeOptions
from fleet.serve.report import preview_process
from fleet.serve.report import previews as previews_module
from fleet.serve.report.attempts import Attempts
from fleet.serve.report.previews import Previews
from fleet.testing import Cluster, Forge, GitRemote
from fleet.testing.forge import PullRequest, Repository
from fleet.testing.git import git
from tests.serve.counters import counts
from tests.serve.forks import LOOPS
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map

SECRET = "s3cret"


class Relay:
    """The forge at another address than its own: git goes by this one, and what is asked by `[forge] url`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._socket.accept()
                theirs = socket.create_connection(self._target)
                for one, other in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 16):
                other.sendall(part)
            other.shutdown(socket.SHUT_WR)


@pytest.fixture
def relay(forge: Forge) -> Iterator[Relay]:
    place = urlsplit(forge.url)
    made = Relay((place.hostname or "", place.port or 443))
    yield made
    made.close()


def in_secret(cluster: Cluster, management: Cluster, name: str) -> None:
    """The way to a cluster, as people put it beside the service."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    text = yaml.safe_dump({**config, "current-context": cluster.name})
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-system"}}
    about = {"name": name, "namespace": "fleet-system"}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": {"kubeconfig": text}}
    flags = ("-n", "fleet-system", "apply", "--server-side", "--field-manager=test", "-f", "-")
    management.kubectl(*flags, input=yaml.safe_dump_all([space, made]))


def comment_of(request: PullRequest) -> dict[str, Any]:
    ours = [one for one in request.comments() if one["body"].startswith("<!-- fleet preview ")]
    assert len(ours) <= 1, "there is one comment, and it is edited in place"
    return ours[0] if ours else {"body": "", "id": 0}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of processes elsewhere, which set no event
        await asyncio.sleep(0.05)


def test_what_nobody_foresaw_is_said_and_ends_no_previews(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever says what is served is the caller; here it is at its wits' end, with a secret on its lips."""
    origin, counted = (
        FollowedRepository(str(tmp_path)),
        Counter("previews", "", ("repository", "result"), registry=None),
    )
    place = ForgeRepository("gitea", "https://git.example.com", "team/fleet")
    request = Asked(0, "", "", "", "main", "", "change", "1" * 40, fork=False)

    class Confused:
        @property
        def evaluated(self) -> EvaluatedCommit | None:
            raise RuntimeError(SECRET)

    async def heard(previews: Previews) -> bool:
        running = asyncio.create_task(previews.run(origin.mirror(tmp_path / "cache")))
        for number in (1, 2):
            previews.hear(PullRequestEvent(place, replace(request, number=number), Action.PUSHED))
        async with asyncio.timeout(10):
            await until(lambda: running.done() or counts(counted).get((str(origin), "failed"), 0) > 2)
        goes_on = not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return goes_on

    confused = cast(CurrentCommit, Confused())
    assert asyncio.run(heard(Previews(origin, ServeOptions(), confused, counted)))
    said = caplog.text
    assert "pull request 1: RuntimeError, an unexpected error" in said
    assert "pull request 2: RuntimeError" in said
    assert "no previews of pull requests of" in said
    assert "in evaluated" in said
    assert SECRET not in said


def test_what_came_to_no_end_is_not_tried_again_for_the_same_commit_by_whoever_comes_later(tmp_path: Path) -> None:
    def later() -> Attempts:
        return Attempts.beside(tmp_path / "mirror.git")

    attempts = later()
    attempts.begin(1, "a", live=False)
    assert later().reason(1, "a", live=False) == "", "once is nothing: services are ended"
    later().begin(1, "a", live=False)
    assert later().reason(1, "a", live=False) == "the service ended 2 times while it was made"
    assert later().reason(1, "b", live=False) == "", "another commit"
    assert later().reason(1, "a", live=True) == "", "somebody asked for more"
    later().begin(1, "b", live=False)
    assert later().reason(1, "b", live=False) == ""
    later().give_up(1, "b", "too long", live=False)
    later().give_up(2, "c", "too large", live=False)
    assert [later().reason(1, "b", live=False), later().reason(2, "c", live=False)] == ["too long", "too large"]
    later().forget(1)
    later().only({1})
    assert [later().reason(1, "b", live=False), later().reason(2, "c", live=False)] == ["", ""]
    (tmp_path / "mirror.previews.json").write_text('{"1": 2}')
    assert later().reason(1, "b", live=False) == "", "what cannot be read remembers nothing"


def fleet_without_clusters(forge: Forge, directory: Path, name: str) -> tuple[Repository, Path, str]:
    """Make a repository on the forge with nothing in its fleet; return it, its clone and the commit on main."""
    remote: Repository = forge.repository(name)
    root = remote.clone(directory)
    where = f'kind = "gitea"\nurl = "{forge.url}"\nrepository = "{remote.owner}/{name}"\n'
    (root / "fleet.toml").write_text(f'[fleet]\nname = "{name}"\n[forge]\n{where}')
    for folder in ("stacks", "clusters"):
        (root / folder).mkdir()
        (root / folder / "README").touch()
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "a fleet")
    return remote, root, remote.push(root)


def test_an_attack_from_a_fork_is_ended_told_and_not_repeated_while_others_are_previewed(
    forge: Forge, relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, root, main = fleet_without_clusters(forge, tmp_path / "clone", "attacked")
    stranger = forge.new_user()
    fork = remote.fork(stranger)
    git(root, "switch", "--quiet", "--create", "theirs")
    for name, text in LOOPS.items():
        (root / name).write_text(text)
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "loops")
    fork.push(root, "theirs")
    attack = PullRequest(remote, remote.as_user(stranger).pull_request(f"{stranger.name}:theirs").number)
    monkeypatch.setenv("FLEET_FORGE_TOKEN", forge.user.token)
    origin = FollowedRepository(
        f"https://{remote.user.name}:{remote.user.token}@127.0.0.1:{relay.port}/{remote.owner}/attacked.git"
    )
    mirror = origin.mirror(tmp_path / "cache")
    mirror.fetch()
    with Pool() as pool:
        base = evaluate_commit(origin, mirror, main, None, pool)

    async def followed(seconds: float, until_done: Callable[[Counter], bool]) -> None:
        monkeypatch.setattr(preview_process, "OF_FORKS", replace(preview_process.OF_FORKS, seconds=seconds))
        counted = Counter("previews", "", ("repository", "result"), registry=None)
        running = asyncio.create_task(
            Previews(origin, ServeOptions(), CurrentCommit(base), counted, every=0.5).run(mirror)
        )
        try:
            async with asyncio.timeout(90):
                await until(lambda: running.done() or until_done(counted))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def previewed(counted: Counter, result: str) -> bool:
        return counts(counted).get((str(origin), result), 0) > 0

    git(root, "switch", "--quiet", "--create", "change", "main")
    (root / "stacks/more.py").write_text("import fleet\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "more")
    remote.push(root, "change")
    ours = remote.pull_request("change")
    asyncio.run(followed(600, lambda counted: previewed(counted, "success")))
    assert "fleet preview" in comment_of(ours)["body"]
    assert comment_of(attack)["body"] == "", "it was being made meanwhile, and was ended with the service"
    remote.api("PATCH", f"/pulls/{ours.number}", {"state": "closed"})

    asyncio.run(followed(8, lambda counted: previewed(counted, "failure")))
    body = comment_of(attack)["body"]
    assert "it took longer than 8 s and was ended" in body
    assert "with the next commit" in body
    asyncio.run(followed(600, lambda counted: previewed(counted, "failure")))
    assert comment_of(attack)["body"] == body, "told again by who came later, and not made again: that takes 600 s"


def test_a_full_disk_is_the_matter_of_forks_alone(
    git_remote: GitRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads of branches are fetched all the same: whoever pushes them may write to the repository."""
    root = git_remote.clone(tmp_path / "clone")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(root, "push", "--quiet", "origin", "HEAD:main")
    origin, counted = FollowedRepository(git_remote.url), Counter("previews", "", (), registry=None)
    previews, mirror = Previews(origin, ServeOptions(), CurrentCommit(), counted), origin.mirror(tmp_path / "cache")
    mirror.fetch()
    monkeypatch.setattr(previews_module, "LARGEST_MIRROR", 1)
    with pytest.raises(ResourceError, match="has more than 1 bytes"):
        previews._fetch(mirror, "+refs/heads/main:refs/fleet-pulls/1", of_fork=True)
    previews._fetch(mirror, "+refs/heads/main:refs/fleet-pulls/2", of_fork=False)
    mirror.fetch()
    assert mirror.repository.resolve("refs/fleet-pulls/2") == mirror.repository.resolve("main")


def test_a_head_is_kept_in_the_mirror_for_as_long_as_its_pull_request_is_open(
    forge: Forge, relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet without clusters, so none is asked."""
    remote, root, main = fleet_without_clusters(forge, tmp_path / "clone", "bare")
    git(root, "switch", "--quiet", "--create", "change")
    (root / "fleet.toml").write_text("a = " + "[" * 5000)
    git(root, "commit", "--quiet", "--all", "--message", "[")
    remote.push(root, "change")
    request = remote.pull_request("change")
    monkeypatch.setenv("FLEET_FORGE_TOKEN", forge.user.token)
    origin = FollowedRepository(
        f"https://{remote.user.name}:{remote.user.token}@127.0.0.1:{relay.port}/{remote.owner}/bare.git"
    )
    mirror = origin.mirror(tmp_path / "cache")
    mirror.fetch()
    with Pool() as pool:
        base = evaluate_commit(origin, mirror, main, None, pool)
    counted = Counter("previews", "", ("repository", "result"), registry=None)

    def heads() -> list[str]:
        return git(mirror.repository.root, "for-each-ref", "--format=%(refname)", "refs/fleet-pulls").split()

    async def followed() -> None:
        running = asyncio.create_task(
            Previews(origin, ServeOptions(), CurrentCommit(base), counted, every=0.2).run(mirror)
        )
        async with asyncio.timeout(60):
            await until(lambda: bool(comment_of(request)["body"]))
            assert heads() == [f"refs/fleet-pulls/{request.number}"]
            remote.api("PATCH", f"/pulls/{request.number}", {"state": "closed"})
            await until(lambda: not heads())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(followed())
    assert "would be wrong after the merge" in comment_of(request)["body"]


def test_pull_requests_are_previewed_and_what_is_merged_is_applied(served: Served, forge: Forge, relay: Relay) -> None:
    fleet = served.repository
    eu, us = fleet.clusters
    in_secret(us, eu, secret := f"{fleet.stack}-us")
    text = (fleet.root / "clusters/all.py").read_text()
    fleet.write("clusters/all.py", text.replace(f"{us.name!r}, ", f"{us.name!r}, secret='fleet-system/{secret}', "))
    remote: Repository = forge.repository("shop")
    where = f'kind = "gitea"\nurl = "{forge.url}"\nrepository = "{remote.owner}/shop"\n'
    fleet.write("fleet.toml", f'[fleet]\nname = "shop"\n[forge]\n{where}')
    fleet.wants(config_map("prices", {"a": "1"}))
    fleet.commit()
    remote.push(fleet.root)
    place = f"{remote.user.name}:{remote.user.token}@127.0.0.1:{relay.port}"
    served.url = f"https://{place}/{remote.owner}/shop.git"
    served.environment |= {"FLEET_FORGE_TOKEN": forge.user.token, "FLEET_WEBHOOK_SECRET": SECRET}
    public = "https://fleet.example.com"
    served.start(  # whatever comes later, comes by webhook
        "--no-status", "--management", eu.name, "--no-lease", "--public-url", public, poll="1h"
    )
    served.until("it listens", lambda: served.port != 0)
    remote.webhook(f"http://127.0.0.1:{served.port}/hooks/gitea", SECRET)
    served.until("it is applied", lambda: served.data(eu, "prices") == served.data(us, "prices") == {"a": "1"})
    served.until("it is ready", lambda: served.ask("/readyz")[0] == 200)

    git(fleet.root, "switch", "--quiet", "--create", "change")
    fleet.wants(config_map("prices", {"a": "2"}))
    head = fleet.commit("Another price")
    remote.push(fleet.root, "change")
    request = remote.pull_request("change")
    served.until("it is previewed", lambda: remote.statuses(head).get("fleet/preview", {}).get("status") == "success")
    said = comment_of(request)
    assert 'data.a: "1" → "2"' in said["body"]
    assert "2 to update" in remote.statuses(head)["fleet/preview"]["description"], "also where a Secret leads to"
    (page,) = re.findall(rf"{public}(/previews/[\w-]{{32}})", said["body"])
    assert remote.statuses(head)["fleet/preview"]["target_url"] == f"{public}{page}"
    assert served.ask(page)[0] == 200
    assert "<title>fleet preview: 2 to update" in served.ask(page)[1]
    assert served.ask("/previews/guessed")[0] == 404

    stranger = forge.new_user()
    fork = remote.fork(stranger)
    git(fleet.root, "switch", "--quiet", "--create", "theirs", "main")
    fleet.wants(config_map("prices", {"a": "9"}))
    foreign = fleet.commit("Theirs")
    fork.push(fleet.root, "theirs")
    asked = remote.as_user(stranger).pull_request(f"{stranger.name}:theirs")
    ours = PullRequest(remote, asked.number)
    served.until("it is previewed without clusters", lambda: "comes from a fork" in comment_of(ours)["body"])
    asked.comment(approval_command(foreign))  # who may not write cannot let it
    ours.comment(approval_command(head))  # and another commit's word is none for this one

    git(fleet.root, "switch", "--quiet", "change")
    fleet.wants(config_map("prices", {"a": "3"}))
    fleet.commit("And another")
    remote.push(fleet.root, "change")
    served.until("the same comment changes", lambda: 'data.a: "1" → "3"' in comment_of(request)["body"])
    assert comment_of(request)["id"] == said["id"]
    assert "comes from a fork" in comment_of(ours)["body"], (
        "pull requests have their turn as they come: both were heard"
    )
    ours.comment(approval_command(foreign))
    served.until("it is compared with the clusters", lambda: "approved it" in comment_of(ours)["body"])
    assert f"because {forge.user.name} approved it" in comment_of(ours)["body"], "and nobody before"

    merged = request.merge()
    served.until("it is applied", lambda: served.data(eu, "prices") == served.data(us, "prices") == {"a": "3"})
    served.until("its page is gone", lambda: served.ask(page)[0] == 404)
    eu.kubectl("-n", "fleet-system", "delete", "secret", secret)
    context = f"fleet/{fleet.stack}"
    served.until("and told", lambda: remote.statuses(merged).get(context, {}).get("status") == "success")
