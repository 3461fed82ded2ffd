"""From a pull request on a real forge to what real clusters have: previewed, told, recorded, merged, applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fleet.testing import Forge
from fleet.testing.forge import PullRequest, Repository
from fleet.testing.git import git
from tests.approval.team import RULE, Team
from tests.sync.fleet_repository import FleetRepository


@dataclass
class Shop:
    team: Team
    remote: Repository

    def ask(self, branch: str, **maps: str) -> PullRequest:
        team = self.team
        team.git("checkout", "--quiet", "-b", branch, "main")
        self.change(branch, **maps)
        return self.remote.pull_request(branch, title=f"The change {branch}")

    def change(self, branch: str, **maps: str) -> str:
        self.team.write(**maps)
        self.team.repository.commit(f"{branch}: {maps}")
        return self.remote.push(self.team.repository.root, branch)

    def preview(self, request: PullRequest) -> tuple[dict[str, Any], str]:
        """The comment, and the state of the head."""
        shown = self.team.repository.fleet("preview", "--comment", "--pull-request", str(request.number), "--record")
        assert shown.code == 0, shown.err
        assert "recorded: " in shown.err
        (comment,) = (one for one in request.comments() if one["body"].startswith("<!-- fleet preview "))
        head = request.state["head"]["sha"]
        return comment, self.remote.statuses(head)["fleet/preview"]["status"]

    def merge(self, request: PullRequest, how: str) -> None:
        request.merge(how)
        self.team.git("fetch", "--quiet", "origin")
        self.team.git("checkout", "--quiet", "-B", "main", "origin/main")


@pytest.fixture
def shop(forge: Forge, repository: FleetRepository, monkeypatch: pytest.MonkeyPatch) -> Shop:
    remote = forge.repository("shop")
    monkeypatch.setenv("FLEET_FORGE_TOKEN", forge.user.token)
    git(repository.root, "remote", "set-url", "origin", remote.url_with_token)
    team = Team(repository, f'{RULE}\n[forge]\nkind = "gitea"\nurl = "{forge.url}"\n')
    team.git("fetch", "--quiet", "origin")
    return Shop(team, remote)


def test_a_pull_request_is_told_recorded_merged_and_applied_and_nothing_else_is(shop: Shop) -> None:
    team = shop.team
    first = shop.ask("first", a="2")
    comment, status = shop.preview(first)
    assert 'data.x: "1" → "2"' in comment["body"]
    assert status == "success"
    shop.change("first", a="3")
    again, status = shop.preview(first)
    assert again["id"] == comment["id"]
    assert 'data.x: "1" → "3"' in again["body"]
    assert status == "success"

    others = {"squash": shop.ask("second", b="2"), "rebase": shop.ask("third", c="1")}
    shop.change("third", c="2")
    for request in others.values():
        shop.preview(request)  # all three on the same base: two of them will have neighbours
    shop.merge(first, "merge")
    team.synced()
    assert [team.value(name, 1) for name in "abc"] == ["3", "1", None]
    for how, request in others.items():
        shop.merge(request, how)
    team.synced()
    assert [team.value(name, 1) for name in "abc"] == ["3", "2", "2"]

    late = shop.ask("late", a="4")
    shop.preview(late)
    shop.change("late", a="4", b="9")
    shop.merge(late, "squash")
    told = team.refused()
    assert "/b: " in told
    assert "The change late" in told
    assert [team.value(name) for name in "ab"] == ["3", "2"]


def test_who_may_push_and_not_approve_cannot(shop: Shop, forge: Forge) -> None:
    team, other = shop.team, forge.new_user()
    shop.remote.give(other)
    rule = {"rule_name": "fleet/approved", "enable_push": True, "enable_push_whitelist": True}
    shop.remote.api("POST", "/branch_protections", {**rule, "push_whitelist_usernames": [forge.user.name]})
    url = team.git("remote", "get-url", "origin").strip()
    ours, theirs = (f"{one.name}:{one.token}@" for one in (forge.user, other))
    team.git("remote", "set-url", "origin", url.replace(ours, theirs))
    team.write(a="2")
    team.repository.commit("straight to main")
    team.push()
    refused = team.repository.fleet("approve", "--yes")
    assert refused.code == 3, refused.err
    assert "fleet/approved" in refused.err
    assert "/a: " in team.refused()
    team.git("remote", "set-url", "origin", url)
    approved = team.repository.fleet("approve", "--yes")
    assert approved.code == 0, approved.err
    team.synced()
    assert team.value("a") == "2"
