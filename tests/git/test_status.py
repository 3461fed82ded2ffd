"""Health in git on real repositories, read back with plain git."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet.errors import AccessError, ConfigurationError, NotFoundError
from fleet.git import publish, refs, status
from fleet.git.publish import Edit
from fleet.git.repository import GitRepository
from fleet.git.status import read_notes, read_status, report
from fleet.git.status_records import AppRecord, StatusReport
from tests.git.repositories import bare, clone, commit, files, git

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
ETCD = AppRecord("Etcd", "orders", "config", version="3.6.5", health="Healthy")


def of(repository: GitRepository, cluster: str = "eu-1", stack: str = "orders", **what: str) -> StatusReport:
    base = StatusReport(stack, cluster, repository.resolve().id, sync="Synced", health="Healthy", apps=(ETCD,))
    return replace(base, **what)  # type: ignore[arg-type]


def fleet(tmp_path: Path) -> tuple[Path, GitRepository]:
    remote = bare(tmp_path / "bare.git")
    return remote, GitRepository.find(clone(tmp_path / "clone", remote))


def test_a_report_is_a_page_and_a_file_on_the_status_branch_and_a_note_on_the_commit(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    published = report(
        repository, [of(repository), of(repository, "us-1", health="Degraded", message="sick")], now=NOON
    )
    assert set(published.commits) == {"refs/heads/fleet/status", "refs/notes/fleet"}
    assert published.attempts == 1
    found = files(remote, "fleet/status")
    assert list(found) == ["README.md", "clusters/eu-1/orders.json", "clusters/us-1/orders.json"]
    assert json.loads(found["clusters/eu-1/orders.json"])["since"] == "2025-03-01T12:00:00Z"
    assert "| [orders](clusters/us-1/orders.json) | us-1 | 🔴 Degraded |" in found["README.md"]
    assert git(remote, "notes", "--ref=fleet", "show", "main").splitlines() == [
        "orders eu-1: Synced, Healthy",
        "orders us-1: Synced, Degraded - sick",
    ]
    assert git(remote, "log", "-1", "--format=%an %s", "fleet/status").startswith("fleet Status of orders at ")


def test_what_was_written_can_be_read_back_from_another_clone(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository)])
    git(tmp_path, "clone", "--quiet", str(remote), "other")
    other = GitRepository.find(tmp_path / "other")
    status = read_status(other)
    assert [(record.stack, record.cluster, record.health) for record in status.records] == [
        ("orders", "eu-1", "Healthy")
    ]
    assert status.commit == git(remote, "rev-parse", "fleet/status")
    assert [str(outcome) for outcome in read_notes(other, repository.resolve().id)] == ["orders eu-1: Synced, Healthy"]
    assert read_notes(other, "0" * 40) == ()


def test_before_the_first_report_there_is_nothing_to_read(tmp_path: Path) -> None:
    _, repository = fleet(tmp_path)
    assert read_status(repository).commit is None
    assert read_status(repository).records == ()
    assert read_notes(repository, repository.resolve().id) == ()


def test_the_same_report_again_writes_nothing(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository)], now=NOON)
    before = git(remote, "for-each-ref")
    assert not report(repository, [of(repository)], now=NOON + timedelta(days=1))
    assert git(remote, "for-each-ref") == before


def test_one_batch_is_one_commit(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository, f"c-{n}", f"s-{m}") for n in range(10) for m in range(10)])
    assert git(remote, "rev-list", "--count", "fleet/status") == "1"
    assert len(files(remote, "fleet/status")) == 101


def test_the_users_index_working_tree_branches_and_fetched_refs_stay_as_they_are(tmp_path: Path) -> None:
    _, repository = fleet(tmp_path)
    path = repository.root
    (path / "stacks" / "orders.py").write_text("edited\n")
    (path / "staged").write_text("staged\n")
    git(path, "add", "staged")

    def seen() -> object:
        index = path / ".git" / "index"
        refs = git(path, "for-each-ref", "refs/heads", "refs/remotes", "refs/tags", "refs/notes", "refs/stash")
        tree = {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file() and ".git" not in p.parts}
        return index.read_bytes(), refs, tree, git(path, "status", "--porcelain"), (path / ".git" / "HEAD").read_text()

    before = seen()
    report(repository, [of(repository)])
    report(repository, [of(repository, health="Degraded")])
    assert seen() == before
    assert not (path / ".git" / "FETCH_HEAD").exists()


def test_a_stack_that_is_no_more_leaves_the_branch(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository), of(repository, "us-1")])
    report(repository, [], removed=[("orders", "us-1"), ("orders", "never-was")])
    found = files(remote, "fleet/status")
    assert list(found) == ["README.md", "clusters/eu-1/orders.json"]
    assert "us-1" not in found["README.md"]


def test_files_of_other_writers_and_people_stay(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository)])
    path = repository.root
    git(path, "fetch", "--quiet", "origin", "fleet/status")
    git(path, "worktree", "add", "--quiet", "-B", "their", str(tmp_path / "their"), "FETCH_HEAD")
    (tmp_path / "their" / "clusters" / "eu-1" / "future.json").write_text('{"schema": "fleet.dev/status/v9"}')
    commit(tmp_path / "their", hello="by hand")
    git(tmp_path / "their", "push", "--quiet", "origin", "HEAD:fleet/status")
    report(repository, [of(repository, "us-1")])
    found = files(remote, "fleet/status")
    assert found["hello"] == "by hand"
    assert "clusters/eu-1/future.json" in found
    assert "of another version and not shown: 1." in found["README.md"]
    assert len(read_status(repository).problems) == 1


def test_without_a_remote_the_local_branch_is_written(tmp_path: Path) -> None:
    repository = GitRepository.find(clone(tmp_path / "clone"))
    report(repository, [of(repository)])
    assert "clusters/eu-1/orders.json" in files(repository.root, "refs/heads/fleet/status")
    assert len(read_status(repository).records) == 1
    assert len(read_notes(repository, repository.resolve().id)) == 1
    assert not report(repository, [of(repository)])


def test_the_local_branch_is_not_written_while_it_is_checked_out(tmp_path: Path) -> None:
    repository = GitRepository.find(clone(tmp_path / "clone"))
    report(repository, [of(repository)])
    git(repository.root, "switch", "--quiet", "fleet/status")
    with pytest.raises(ConfigurationError, match="is checked out"):
        report(repository, [of(repository, "us-1")])


def test_an_empty_remote_gets_its_first_branch(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    path = clone(tmp_path / "clone")
    git(path, "remote", "add", "origin", str(remote))
    repository = GitRepository.find(path)
    report(repository, [of(repository)])
    assert git(remote, "for-each-ref", "--format=%(refname)").splitlines() == [
        "refs/heads/fleet/status",
        "refs/notes/fleet",
    ]


def test_a_status_branch_that_somebody_deleted_comes_back(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    report(repository, [of(repository)])
    git(remote, "update-ref", "-d", "refs/heads/fleet/status")
    assert read_status(repository).commit is None
    report(repository, [of(repository)])
    assert git(remote, "rev-list", "--count", "fleet/status") == "1"


def test_a_remote_that_refuses_says_why_and_what_to_do_and_the_rest_is_written(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    hook = remote / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/heads/*) echo "branch is protected" >&2; exit 1;; esac\n')
    hook.chmod(0o755)
    with pytest.raises(AccessError, match="branch is protected") as refused:
        report(repository, [of(repository)])
    assert "allow this writer to push to refs/heads/fleet/status" in str(refused.value.hint)
    assert git(remote, "notes", "--ref=fleet", "show", "main")


def test_a_branch_in_the_way_of_the_name_is_said(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    git(repository.root, "push", "--quiet", "origin", "main:fleet")
    with pytest.raises(ConfigurationError, match="in the way"):
        report(repository, [of(repository)])
    assert git(remote, "rev-parse", "fleet")
    report(repository, [of(repository)], branch="status")
    local = GitRepository.find(clone(tmp_path / "alone"))
    git(local.root, "branch", "fleet")
    with pytest.raises(ConfigurationError, match="in the way"):
        report(local, [of(local)])


def test_a_remote_that_is_gone_or_misnamed_is_an_error(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    with pytest.raises(ConfigurationError, match="no remote 'upstream'"):
        report(repository, [of(repository)], remote="upstream")
    remote.rename(tmp_path / "moved.git")
    with pytest.raises(NotFoundError):
        report(repository, [of(repository)])


def test_a_bad_revision_or_name_is_found_before_anything_is_sent(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    for wrong in (of(repository, revision="main"), of(repository, cluster="../x")):
        with pytest.raises(ConfigurationError):
            report(repository, [wrong])
    assert git(remote, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_bare_repository_and_one_with_longer_ids_work_too(tmp_path: Path) -> None:
    path = tmp_path / "sha256"
    path.mkdir()
    git(path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    commit(path, a="1")
    git(tmp_path, "clone", "--quiet", "--bare", str(path), "bare.git")
    repository = GitRepository.open_bare(tmp_path / "bare.git")
    assert repository.tree("main").read("a") == b"1"
    report(repository, [of(repository)], remote=None)
    assert len(read_status(repository, remote=None).records[0].revision) == 64


def test_a_note_is_found_where_git_itself_put_it(tmp_path: Path) -> None:
    _, repository = fleet(tmp_path)
    path = repository.root
    for number in range(300):  # enough that git spreads them over directories
        blob = git(path, "hash-object", "-w", "--stdin", stdin=str(number))
        if number == 0:
            listing = []
        listing.append(f"100644 blob {blob}\t{number:040x}")
    tree = git(path, "mktree", stdin="\n".join(listing) + "\n")
    tip = git(path, "commit-tree", tree, "-m", "many")
    git(path, "update-ref", "refs/notes/fleet", tip)
    git(path, "notes", "--ref=fleet", "add", "-m", "by hand", "HEAD")
    git(path, "push", "--quiet", "origin", "refs/notes/fleet")
    report(repository, [of(repository)])
    git(path, "fetch", "--quiet", "origin", "+refs/notes/fleet:refs/notes/fleet")
    assert git(path, "notes", "--ref=fleet", "show", "HEAD").splitlines() == ["by hand", "orders eu-1: Synced, Healthy"]
    assert len(git(path, "notes", "--ref=fleet", "list").splitlines()) == 301


def test_a_race_that_is_lost_is_run_again_on_the_winners_files(tmp_path: Path) -> None:
    remote, repository = fleet(tmp_path)
    rival = GitRepository.find(clone(tmp_path / "rival"))
    git(rival.root, "remote", "add", "origin", str(remote))
    asked = []

    def decide(tree: object) -> dict[str, bytes | None]:
        asked.append(tree)
        if len(asked) < 3:  # somebody else is faster, twice
            report(rival, [of(repository, f"rival-{len(asked)}")])
        return {"mine": b"1"}

    ref = refs.branch_ref("fleet/status")
    published = publish.publish(repository, repository.remote(), [Edit(ref, "mine", decide)])
    assert published.attempts == len(asked) == 3
    assert set(files(remote, "fleet/status")) == {
        "README.md", "mine", "clusters/rival-1/orders.json", "clusters/rival-2/orders.json",
    }  # fmt: skip


def _write_often(path: Path, cluster: str, times: int) -> None:
    repository = GitRepository.find(path)
    for number in range(times):
        health = "Healthy" if number % 2 else "Degraded"
        report(repository, [of(repository, cluster, health=health), of(repository, cluster, f"s-{number}")])


@pytest.mark.parametrize("place", ["remote", "shared clone", "no remote"])
def test_writers_at_the_same_time_never_lose_each_others_files(tmp_path: Path, place: str) -> None:
    remote = bare(tmp_path / "bare.git") if place != "no remote" else None
    first = clone(tmp_path / "clone-0", remote)
    paths = [first] * 3
    if place == "remote":
        paths = [first] + [clone_again(tmp_path / f"clone-{n}", tmp_path / "bare.git") for n in range(1, 3)]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(path, f"c-{n}", 3)) for n, path in enumerate(paths)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    where = remote or first
    found = files(where, "refs/heads/fleet/status")
    expected = {f"clusters/c-{n}/{stack}.json" for n in range(3) for stack in ("orders", "s-0", "s-1", "s-2")}
    assert set(found) == expected | {"README.md"}
    assert found["README.md"].count("🟢 Healthy") == 9
    # every write is in the history: nothing was overwritten by force
    assert git(where, "rev-list", "--count", "refs/heads/fleet/status") == "9"
    assert git(where, "rev-list", "--merges", "--count", "refs/heads/fleet/status") == "0"
    outcomes = read_notes(GitRepository.find(first), git(first, "rev-parse", "HEAD"))
    assert len(outcomes) == 12
    assert len(status.parse_note(git(where, "notes", "--ref=fleet", "show", "main"))) == 12


def clone_again(path: Path, remote: Path) -> Path:
    git(path.parent, "clone", "--quiet", str(remote), path.name)
    return path
