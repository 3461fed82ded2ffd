"""`fleet preview --comment` on a real forge, as a CI job and as a person runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.forge import http
from fleet.forge.comments import approval_command
from fleet.testing import Forge
from fleet.testing.forge import PullRequest, Repository
from fleet.testing.git import git
from fleet.testing.http import exchange
from tests.forge.server import Asked, Reply, serving
from tests.preview.plain import PlainRepository, manifest
from tests.preview.test_comment_file import HOSTILE, hostile
from tests.sync.fleet_repository import Run

A, A2 = manifest("ConfigMap", "a", data={"x": "1"}), manifest("ConfigMap", "a", data={"x": "2"})


@dataclass
class Shop:
    """A fleet on the forge: a clone with main, and a branch with a change for which a pull is asked."""

    plain: PlainRepository
    remote: Repository

    def push(self, branch: str, remote: Repository | None = None) -> str:
        return (remote or self.remote).push(self.plain.root, branch)

    def preview(self, *arguments: str) -> Run:
        return self.plain.fleet("preview", "--comment", *arguments)

    def asked(self, title: str = "Prices") -> PullRequest:
        self.plain.change()
        self.plain.wants(A2)
        self.plain.commit("Another price")
        self.push("change")
        return self.remote.pull_request("change", title=title)

    def status(self, commit: str) -> dict[str, Any]:
        return self.remote.statuses(commit)["fleet/preview"]


@pytest.fixture
def shop(forge: Forge, plain: PlainRepository, monkeypatch: pytest.MonkeyPatch) -> Shop:
    remote = forge.repository("shop")
    plain.write("fleet.toml", '[fleet]\nname = "plain"\n\n[forge]\nkind = "gitea"\n')
    plain.wants(A)
    plain.commit()
    plain.git("remote", "add", "origin", remote.url)
    remote.push(plain.root, "main")
    plain.git("fetch", "--quiet", "origin")
    for name in ("GITHUB_ACTIONS", "GITEA_ACTIONS", "GITLAB_CI", "GITHUB_TOKEN", "GITEA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLEET_FORGE_TOKEN", forge.user.token)
    return Shop(plain, remote)


def ours(request: PullRequest) -> list[dict[str, Any]]:
    return [one for one in request.comments() if one["body"].startswith("<!-- fleet preview ")]


def test_a_comment_and_a_status_are_made_and_after_another_push_the_same_comment_changes(
    shop: Shop, tmp_path: Path
) -> None:
    request = shop.asked()
    page = tmp_path / "preview.html"
    url = "https://ci.example.com/preview.html"
    done = shop.preview("--pull-request", str(request.number), "--html", str(page), "--html-url", url)
    assert done.code == 0, done.err
    assert "2 to update" in done.out
    assert f"told on {shop.remote.user.url}" in done.err
    assert "2 to update" in page.read_text()
    [made] = ours(request)
    assert "**2 to update, 2 unchanged**" in made["body"]
    assert 'data.x: "1" → "2"' in made["body"]
    assert f"[All of it on one page](<{url}>)" in made["body"]
    head = request.state["head"]["sha"]
    assert f"change ({head[:8]}) merged into main" in made["body"]
    status = shop.status(head)
    assert (status["status"], status["description"]) == ("success", "2 to update, 2 unchanged")
    assert status["target_url"] == url

    shop.plain.wants(A2, manifest("ConfigMap", "b"))
    newer = shop.plain.commit("And another")
    shop.push("change")
    again = shop.preview("--pull-request", str(request.number))
    assert again.code == 0, again.err
    [changed] = ours(request)
    assert changed["id"] == made["id"]
    assert "**2 to create, 2 to update, 2 unchanged**" in changed["body"]
    assert shop.status(newer)["target_url"] == changed["html_url"]


def test_code_that_is_wrong_is_told_too_and_the_exit_code_stays_what_it_is(shop: Shop) -> None:
    request = shop.asked()
    shop.plain.wants("fleet.Manifest({'kind': 'ConfigMap'})", "print('```')")
    head = shop.plain.commit("Nonsense")
    shop.push("change")
    done = shop.preview("--pull-request", str(request.number))
    assert done.code == 2
    [made] = ours(request)
    assert f"there is no preview of {head[:8]}" in made["body"]
    assert "stacks/shop.py:9" in made["body"]
    status = shop.status(head)
    assert status["status"] == "failure"
    assert status["description"] in done.err


def test_what_the_policy_of_the_base_forbids_is_a_failure(shop: Shop) -> None:
    request = shop.asked()
    shop.plain.write("fleet.toml", '[forge]\nkind = "github"\nurl = "https://evil.example.com"\n')
    shop.plain.wants("fleet.Manifest({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'b'}})")
    head = shop.plain.commit("Another forge")
    shop.push("change")
    done = shop.preview("--pull-request", str(request.number), "--expect-no-changes")
    assert done.code == 7, done.err
    [made] = ours(request)
    assert "fleet.toml changes too; this preview is made with the settings of the base" in made["body"]
    assert "2 to delete" in made["body"]
    assert shop.status(head)["status"] == "failure"


def test_a_fork_is_previewed_without_any_cluster_until_its_commit_is_approved(
    forge: Forge, shop: Shop, tmp_path: Path
) -> None:
    stranger = forge.new_user()
    fork = shop.remote.fork(stranger)
    shop.plain.change()
    shop.plain.wants(A2)
    head = shop.plain.commit("From outside")
    shop.push("idea", fork)
    request = shop.remote.as_user(stranger).pull_request(f"{stranger.name}:idea")
    request.comment(approval_command(head))  # by the stranger
    # The clusters of this repository are nowhere: whoever asks them fails.
    asked = shop.preview("--pull-request", str(request.number), "--live")
    assert asked.code == 0, asked.err
    assert "a fork's commit that nobody approved: no cluster is asked" in asked.err
    [made] = ours(request)
    assert f"`{approval_command(head)}`" in made["body"]
    assert "no cluster asked" in made["body"]

    request_of_owner = PullRequest(shop.remote, request.number)
    request_of_owner.comment(approval_command(head))
    approved = shop.preview("--pull-request", str(request.number), "--live")
    assert approved.code != 0
    assert "kubeconfig" in approved.err
    assert f"because {shop.remote.owner} approved it" in ours(request)[0]["body"]

    shop.plain.wants(A2, manifest("ConfigMap", "b"))
    shop.plain.commit("After the approval")
    shop.push("idea", fork)
    assert shop.preview("--pull-request", str(request.number), "--live").code == 0


def test_a_job_of_actions_knows_its_pull_request_and_an_old_job_says_nothing(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = shop.asked()
    head = request.state["head"]["sha"]
    event = tmp_path / "event.json"
    event.write_bytes(orjson.dumps({"pull_request": {"number": request.number, "head": {"sha": head}}}))
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITEA_ACTIONS": "true",
        "GITHUB_SERVER_URL": shop.remote.user.url,
        "GITHUB_REPOSITORY": f"{shop.remote.owner}/shop",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_TOKEN": shop.remote.user.token,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FLEET_FORGE_TOKEN")
    done = shop.preview()
    assert done.code == 0, done.err
    assert len(ours(request)) == 1
    shop.plain.wants(A)
    newer = shop.plain.commit("Back again")
    shop.push("change")
    late = shop.preview()
    assert late.code == 0, late.err
    assert f"has a newer head than this job: {newer[:8]}" in late.err
    assert head[:8] in ours(request)[0]["body"]


def test_three_megabytes_of_changes_are_few_comments_with_the_summary_first(shop: Shop) -> None:
    shop.plain.change()
    shop.plain.wants(
        "for number in range(1500):",
        "    fleet.Manifest({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': f'map-{number:04d}'},"
        " 'data': {f'key-{n:02d}': 'x' * 40 for n in range(30)}})",
        clusters="fleet.where(env='prod')",
    )
    shop.plain.commit("Much")
    shop.push("change")
    request = shop.remote.pull_request("change")
    done = shop.preview("--pull-request", str(request.number), "--cluster", "eu-1")
    assert done.code == 0, done.err
    bodies = [one["body"] for one in ours(request)]
    assert len(bodies) <= 5
    assert "**1500 to create, 1 to delete, 1 unchanged**" in bodies[0]
    assert all(len(body) <= 65_536 for body in bodies)


def test_what_cannot_be_posted_is_an_error_that_says_what_to_do(
    forge: Forge, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = shop.asked()
    number = str(request.number)
    nowhere = shop.preview()
    assert (nowhere.code, "--pull-request NUMBER" in nowhere.err) == (2, True)
    assert shop.preview("--pull-request", "999").code == 6
    monkeypatch.setenv("FLEET_FORGE_TOKEN", "0" * 40)
    wrong = shop.preview("--pull-request", number)
    assert (wrong.code, "does not accept the token" in wrong.err) == (3, True)
    weak = forge.user.new_token("read:repository", "read:issue", "read:user")
    monkeypatch.setenv("FLEET_FORGE_TOKEN", weak)
    refused = shop.preview("--pull-request", number)
    assert (refused.code, "the token may not do that" in refused.err) == (3, True)
    monkeypatch.delenv("FLEET_FORGE_TOKEN")
    none = shop.preview("--pull-request", number)
    assert (none.code, "there is no token for" in none.err) == (3, True)
    monkeypatch.setenv("FLEET_FORGE_TOKEN", forge.user.token)
    assert not ours(request)

    shop.plain.git("checkout", "--quiet", "--detach")
    git(shop.plain.root, "branch", "--quiet", "-D", "change")
    other = shop.preview("--pull-request", number, "--head", "main")
    assert (other.code, "is the head" not in other.err, "git fetch origin refs/pull/" in other.err) == (2, True, True)
    shop.remote.api("PATCH", f"/pulls/{number}", {"state": "closed"})
    closed = shop.preview("--pull-request", number)
    assert (closed.code, "is closed" in closed.err) == (2, True)


def test_a_forge_that_goes_away_in_the_middle_is_an_error_and_the_next_run_puts_it_right(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through something that passes so many requests on, and then answers as a forge that is being restarted."""
    monkeypatch.setattr(http, "FIRST_PAUSE", 0.01)
    left = iter(range(6))  # the sixth makes the comment; the status after it stays pending

    def passed_on(asked: Asked) -> Reply:
        if next(left, None) is None:
            return Reply(503, b"<html>restarting")
        headers = {name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers}
        answer = exchange(asked.method, f"{shop.remote.user.url}{asked.target}", headers=headers, body=asked.body)
        return Reply(answer.status, answer.body)

    request = shop.asked()
    with serving(passed_on) as middle:
        settings = f'[forge]\nkind = "gitea"\nurl = "{middle.url}"\n'
        shop.plain.main()
        shop.plain.write("fleet.toml", settings)
        base = shop.plain.commit("By another way")
        broken = shop.preview("--pull-request", str(request.number), "--base", base)
    assert broken.code == 4
    assert "answers with 503" in broken.err
    assert "restarting" not in broken.err
    assert shop.preview("--pull-request", str(request.number)).code == 0
    assert len(ours(request)) == 1
    assert shop.status(request.state["head"]["sha"])["status"] == "success"


def test_a_clone_without_the_head_is_told_how_to_get_it(shop: Shop, forge: Forge, tmp_path: Path) -> None:
    request = shop.asked()
    other = shop.remote.clone(tmp_path / "other")
    shop.plain.monkeypatch.chdir(other)
    git(other, "update-ref", "-d", "refs/remotes/origin/change")
    git(other, "reflog", "expire", "--expire=now", "--all")
    git(other, "gc", "--quiet", "--prune=now")
    missing = shop.preview("--pull-request", str(request.number))
    assert (missing.code, f"git fetch origin refs/pull/{request.number}/head" in missing.err) == (2, True)
    git(other, "fetch", "--quiet", "origin", f"refs/pull/{request.number}/head")
    assert shop.preview("--pull-request", str(request.number)).code == 0


def test_what_went_wrong_is_posted_from_a_file_as_without_one(shop: Shop, tmp_path: Path) -> None:
    request = shop.asked()
    number, file = str(request.number), tmp_path / "preview.json"
    for lines in ([A2], ["fleet.Manifest({'kind': 'ConfigMap'})", "print('```')"]):
        shop.plain.wants(*lines)
        shop.plain.commit("Another one")
        shop.push("change")
        direct = shop.preview("--pull-request", number)
        [posted] = ours(request)
        request.repository.api("DELETE", f"/issues/comments/{posted['id']}")
        filed = shop.plain.fleet("preview", "--base", "origin/main", "--head", "change", "--comment-file", str(file))
        assert (filed.code, ours(request)) == (direct.code, [])
        done = shop.plain.fleet("comment", str(file), "--pull-request", number)
        assert done.code == 0, "that the preview is red the other job says"
        assert [one["body"] for one in ours(request)] == [posted["body"]]
    head = request.state["head"]["sha"]
    assert shop.status(head)["status"] == "failure"


def test_a_file_that_is_wrong_missing_or_of_another_commit_is_told_and_never_posted(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = shop.asked()
    head, number = request.state["head"]["sha"], str(request.number)
    file = tmp_path / "preview.json"
    written = shop.plain.fleet("preview", "--base", "main", "--head", "change", "--comment-file", str(file))
    assert written.code == 0, written.err
    good = orjson.loads(file.read_bytes())
    file.write_bytes(orjson.dumps({**good, "head": "0" * 40}))
    by_hand = shop.plain.fleet("comment", str(file), "--pull-request", number)
    assert by_hand.code == 2
    assert (
        f"{file}: head: it is a preview of 00000000, and the head of pull request {number} is {head[:8]}" in by_hand.err
    )
    assert ours(request) == [], "another job may have posted the right one"

    event = tmp_path / "event.json"
    event.write_bytes(orjson.dumps({"pull_request": request.state}))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITEA_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_SERVER_URL", shop.remote.user.url)
    monkeypatch.setenv("GITHUB_REPOSITORY", f"{shop.remote.owner}/shop")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    for change, told in (
        ({"head": "0" * 40}, "head: it is a preview of 00000000"),
        ({"number": 1}, "number: there is no such field"),
        (None, "the job that makes the preview wrote none"),
    ):
        file.write_bytes(orjson.dumps({**good, **change})) if change else file.unlink()
        done = shop.plain.fleet("comment", str(file))
        assert (done.code, told in done.err) == (2, True), done.err
        [comment] = ours(request)
        assert f"there is no preview of {head[:8]}" in comment["body"]
        assert told in comment["body"]
        assert shop.status(head)["status"] == "failure"
    file.write_bytes(orjson.dumps(good))
    assert shop.plain.fleet("comment", str(file), "--directory", "teams/shop").code == 0
    assert len(ours(request)) == 2, "another fleet's comment is another one"

    shop.plain.wants(A)
    newer = shop.plain.commit("Back again")
    shop.push("change")
    late = shop.plain.fleet("comment", str(file))
    assert (late.code, f"has a newer head than this job: {newer[:8]}; nothing is posted" in late.err) == (0, True)


def test_whether_a_forks_commit_is_approved_the_forge_says_and_not_the_file(
    forge: Forge, shop: Shop, tmp_path: Path
) -> None:
    stranger = forge.new_user()
    fork = shop.remote.fork(stranger)
    shop.plain.change()
    shop.plain.wants(A2)
    head = shop.plain.commit("From outside")
    shop.push("idea", fork)
    request = shop.remote.as_user(stranger).pull_request(f"{stranger.name}:idea")
    file = tmp_path / "preview.json"
    number = str(request.number)
    made = shop.plain.fleet("preview", "--comment-file", str(file), "--pull-request", number, "--live")
    assert made.code == 0, made.err
    assert "a fork's commit that nobody approved: no cluster is asked" in made.err
    forged = orjson.loads(file.read_bytes())
    forged["preview"]["depth"] = "live"
    file.write_bytes(orjson.dumps(forged))
    assert shop.plain.fleet("comment", str(file), "--pull-request", number).code == 0
    assert f"`{approval_command(head)}`" in ours(request)[0]["body"]


def test_a_forged_file_calls_nobody_and_leads_nowhere_on_a_real_forge(forge: Forge, shop: Shop, tmp_path: Path) -> None:
    somebody = forge.new_user()
    shop.remote.give(somebody)
    request = shop.asked()
    head, number = request.state["head"]["sha"], str(request.number)
    other = shop.remote.api("POST", "/issues", {"title": "Another", "body": ""})["number"]
    text = f"@{somebody.name} #{other} closes #{other} {HOSTILE}"
    for data in hostile(head, text):
        file = tmp_path / "preview.json"
        file.write_bytes(orjson.dumps(data))
        done = shop.plain.fleet("comment", str(file), "--pull-request", number)
        assert done.code == 0, done.err
        [comment] = ours(request)
        page = exchange("GET", f"{forge.url}/{shop.remote.owner}/shop/pulls/{number}").body.decode()
        shown = page.partition(f'id="issuecomment-{comment["id"]}"')[2].partition("render-content")[2]
        html, end, _ = shown.partition(f'id="issuecomment-{comment["id"]}-raw"')
        assert end
        assert "fleet preview" in html
        assert {href.rpartition("/")[2] for href in re.findall('<a[^>]* href="([^"]*)"', html)} <= {head[:8]}
        for tag in ("<img", "<input", "<script", "thumbs up"):
            assert tag not in html, html
    assert somebody.api("GET", "/notifications?all=true&subject-type=pull") == []
    assert [event["type"] for event in shop.remote.api("GET", f"/issues/{other}/timeline") or []] == []
    assert request.state["state"] == "open"


@pytest.mark.parametrize(
    "arguments",
    [
        ["preview", "--comment", "--comment-file", "preview.json"],
        ["preview", "--comment-file", "preview.json"],
        ["preview", "--comment-file", "preview.json", "--base", "main", "--head", "main", "--live"],
        ["preview", "--comment-file", "preview.json", "--base", "main", "--head", "main", "--record"],
        ["preview", "--comment-file", "preview.json", "--base", "main", "--head", "main", "--html-url", "https://a.b"],
        ["preview", "--comment-file", "no/preview.json", "--base", "main", "--head", "main"],
        ["preview", "--comment-file", "preview.json", "--revision", "HEAD"],
        ["comment", "preview.json"],
        ["comment"],
        ["comment", "preview.json", "--pull-request", "0"],
        ["comment", "preview.json", "--pull-request", "1", "--directory", "../shop"],
        ["comment", "preview.json", "--pull-request", "1", "--directory", "/shop"],
        ["comment", "preview.json", "--pull-request", "1", "--html-url", "javascript:alert(1)"],
    ],
)
def test_a_file_and_a_job_are_asked_for_in_full(
    plain: PlainRepository, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    plain.wants(A)
    plain.commit()
    done = plain.fleet(*arguments)
    assert done.code == 2, done.err
    assert not (plain.root / "preview.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--pull-request", "1"],
        ["--html-url", "https://example.com"],
        ["--comment", "--revision", "HEAD"],
        ["--comment", "--pull-request", "0"],
        ["--comment", "--kubeconfig", "fleet.toml"],
        ["--comment", "--html-url", "javascript:alert(1)"],
        ["--comment", "--html-url", "https://a.example/)<script>"],
    ],
)
def test_options_that_do_not_go_together_are_refused_at_once(plain: PlainRepository, arguments: list[str]) -> None:
    assert plain.fleet("preview", *arguments).code == 2


def test_a_page_is_written_without_a_comment_too(plain: PlainRepository, tmp_path: Path) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.wants(A2)
    plain.commit()
    page = tmp_path / "page.html"
    assert plain.preview("--html", str(page)).code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert plain.preview("--html", str(tmp_path / "no" / "page.html")).code == 2
