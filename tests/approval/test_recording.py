"""Records in git: what a preview writes down, beside others who do the same, and what of it is read again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.approval import branch
from fleet.approval.record import ApprovalRecord, ApprovedChange, decode, encode
from fleet.errors import ConfigurationError, ResourceError
from fleet.git.refs import address
from fleet.git.repository import GitRepository
from fleet.objects.desired import Key
from fleet.plan.effect import Severity
from fleet.testing import GitRemote
from tests.preview.plain import PlainRepository, manifest

BRANCH = "fleet/approved"
KEY = Key("", "ConfigMap", "shop", "a")


def record(number: int = 0, count: int = 1) -> ApprovalRecord:
    edges = [
        ApprovedChange("shop", "eu", KEY._replace(name=f"a{one}"), "", f"{number:064x}", Severity.CREATE)
        for one in range(count)
    ]
    return ApprovalRecord(f"{number:040x}", "", "c" * 40, tuple(edges), "f" * 64, "A change")


def recorded(plain: PlainRepository) -> list[ApprovalRecord]:
    return list(branch.read_records(GitRepository.find(plain.root), None, BRANCH, "main").records)


def objects(made: ApprovalRecord) -> dict[tuple[str, str], tuple[bool, bool, str]]:
    """By cluster and name: whether it was there before, is there after, and the most that may happen."""
    return {(one.cluster, one.key.name): (bool(one.before), bool(one.after), one.severity.name) for one in made.edges}


def test_whom_an_object_is_taken_from_is_part_of_what_is_approved(plain: PlainRepository) -> None:
    given = manifest("ConfigMap", "a")
    plain.wants(given)
    plain.commit()
    states = []
    for adopt in ("True", "fleet.Adopt(take_from=['helm'])", "fleet.Adopt(take_from=['other'])"):
        plain.change()
        plain.wants(f"fleet.Manifest({given!r}, opts=Options(adopt={adopt}))")
        plain.commit(adopt)
        assert plain.preview("--record").code == 0
        newest = next(one for one in recorded(plain) if one.subject == adopt)
        assert {one.severity for one in newest.edges} == {Severity.NOTHING}, "nobody saw what it does"
        states.append({one.after for one in newest.edges})
    assert all(len(one) == 1 for one in states)
    assert len(set.union(*states)) == 3


def test_a_preview_writes_what_the_merge_changes_by_the_tree_that_it_leads_to(plain: PlainRepository) -> None:
    plain.wants(manifest("ConfigMap", "a", data={"x": "1"}), manifest("ConfigMap", "b"))
    base = plain.commit()
    plain.change()
    plain.wants(manifest("ConfigMap", "a", data={"x": "2"}), manifest("ConfigMap", "c"))
    head = plain.commit("Another price")
    assert plain.preview("--record").code == 0
    (made,) = recorded(plain)
    assert (made.base, made.head, made.subject) == (base, head, "Another price")
    assert made.tree == plain.git("rev-parse", "HEAD^{tree}").strip()
    assert made.plan_hash == plain.preview("-o", "json").json()["planHash"]
    assert objects(made) == {
        (cluster, name): told
        for cluster in ("eu-1", "us-1")
        for name, told in {
            "a": (True, True, "UPDATE"),
            "b": (True, False, "DELETE"),
            "c": (False, True, "CREATE"),
        }.items()
    }
    tip = plain.git("rev-parse", BRANCH)
    assert "recorded before" in plain.preview("--record").err
    assert plain.git("rev-parse", BRANCH) == tip, "the same again is no new record"


def test_a_fleet_below_the_top_is_known_by_its_own_directory(plain: PlainRepository) -> None:
    plain.wants(manifest("ConfigMap", "a"))
    plain.git("add", "--all")
    for name in ("fleet.toml", "clusters", "stacks"):
        (plain.root / "deploy").mkdir(exist_ok=True)
        plain.git("mv", name, f"deploy/{name}")
    plain.commit()
    plain.monkeypatch.chdir(plain.root / "deploy")
    plain.change()
    plain.write("deploy/stacks/more.py", (plain.root / "deploy/stacks/shop.py").read_text().replace("shop", "more"))
    plain.commit()
    assert plain.preview("--record").code == 0
    (made,) = recorded(plain)
    assert made.tree == plain.git("rev-parse", "HEAD:deploy").strip()


def test_an_object_with_a_former_name_has_a_state_under_both(plain: PlainRepository) -> None:
    plain.wants(manifest("ConfigMap", "old", data={"x": "1"}))
    plain.commit()
    plain.change()
    renamed = manifest("ConfigMap", "new", data={"x": "2"})
    plain.wants(f"fleet.Manifest({renamed!r}, opts=Options(aliases=['old']))")
    plain.commit()
    assert plain.preview("--record").code == 0
    told = objects(recorded(plain)[0])
    assert told["eu-1", "old"] == (True, True, "UPDATE"), "where it is there under the old name"
    assert told["eu-1", "new"][:2] == (False, True)


def test_options_and_the_rule_itself_are_part_of_a_change(plain: PlainRepository) -> None:
    made = manifest("ConfigMap", "a")
    plain.wants(f"fleet.Manifest({made!r}, opts=Options(protect=True))")
    plain.commit()
    plain.change()
    plain.wants(made)
    plain.write("fleet.toml", '[fleet]\nname = "plain"\n[approval]\nrequired = true\n')
    plain.commit()
    assert plain.preview("--record").code == 0
    told = {(one.cluster, one.key.name): (one.before, one.after) for one in recorded(plain)[0].edges}
    before, after = told["eu-1", "a"]
    assert before == f"{after}+protect"
    assert told["", "approval"][0] == ""


@pytest.mark.parametrize(
    ("flags", "said"), [(("--stack", "shop"), "whole change"), (("--cluster", "eu-1"), "whole change")]
)
def test_a_part_is_not_recorded(plain: PlainRepository, flags: tuple[str, ...], said: str) -> None:
    plain.wants(manifest("ConfigMap", "a"))
    plain.commit()
    shown = plain.preview("--record", *flags, head="main")
    assert shown.code == 2
    assert said in shown.err


def test_many_who_record_at_once_lose_nothing(tmp_path: Path, git_remote: GitRemote) -> None:
    remote = address(str(git_remote.path), by_person=True)
    clones = [GitRepository.find(git_remote.clone(tmp_path / f"clone-{number}")) for number in range(3)]

    def write(number: int) -> bool:
        return all(branch.write_record(clones[number], remote, BRANCH, record(10 * number + one)) for one in range(2))

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(write, range(3))) == [True] * 3
    assert {one.tree for one in branch.read_records(clones[0], remote, BRANCH, "main").records} == {
        record(number).tree for number in (0, 1, 10, 11, 20, 21)
    }


def test_the_oldest_records_go_when_there_are_too_many(plain: PlainRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "MOST_RECORDS", 3)
    repository = GitRepository.find(plain.root)
    for number in range(5):
        monkeypatch.setattr(
            "fleet.approval.record.timestamp", lambda now, number=number: f"2026-01-0{number + 1}T00:00:00Z"
        )
        assert branch.write_record(repository, None, BRANCH, record(number))
    assert sorted(one.tree for one in recorded(plain)) == [record(number).tree for number in (2, 3, 4)]


def test_a_record_reads_back_as_it_was_written() -> None:
    made = record(7, 3).at()
    assert decode(encode(made), made.path) == made
    assert replace(made, recorded="").path == made.path, "the time is no part of what is approved"


def test_a_change_that_is_too_large_is_an_error_before_anything_is_written(
    plain: PlainRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.approval.record.MOST_BYTES", 1000)
    with pytest.raises(ResourceError, match="too large to be recorded"):
        branch.write_record(GitRepository.find(plain.root), None, BRANCH, record(0, 100))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "fleet.dev/approval/v2"),
        ("tree", "../../etc"),
        ("base", "--upload-pack=x"),
        ("planHash", "f"),
        ("recorded", "yesterday"),
        ("changes", [{"stack": "shop", "cluster": "eu", "objects": [["", "ConfigMap", "", "a", "", "z", "create"]]}]),
        ("changes", [{"stack": "shop", "cluster": "eu", "objects": [["", "ConfigMap", "", "a", "", "", "all"]]}]),
        ("changes", [{"stack": 7, "cluster": "eu", "objects": []}]),
        ("changes", {"a": 1}),
        ("fleet", "0.0.1"),
        ("subject", ["a"]),
    ],
)
def test_a_file_that_is_no_record_or_another_one_counts_for_nothing(field: str, value: object) -> None:
    made = record().at()
    data = {**json.loads(encode(made)), field: value}
    with pytest.raises(ConfigurationError):
        decode(json.dumps(data).encode(), made.path)
    with pytest.raises(ConfigurationError):
        decode(b"[" * 100_000, made.path)


def test_records_of_forks_take_away_no_others(plain: PlainRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what is proposed take away what is merged, and applied by its record."""
    monkeypatch.setattr(branch, "MOST_RECORDS", 3)
    repository = GitRepository.find(plain.root)

    def write(number: int, *, fork: bool = False) -> None:
        day = f"2026-01-{number + 1:02}T00:00:00Z"
        monkeypatch.setattr("fleet.approval.record.timestamp", lambda now: day)
        assert branch.write_record(repository, None, BRANCH, replace(record(number), fork=fork), merged=merged)

    merged = {record(0).tree, record(1).tree}
    for number in range(2):
        write(number, fork=number == 1)
    for number in range(2, 5):
        write(number)
    for number in range(5, 15):
        write(number, fork=True)
    kept = sorted((one.tree, one.fork) for one in recorded(plain))
    expected = [(0, False), (1, True), (2, False), (3, False), (4, False), (12, True), (13, True), (14, True)]
    assert kept == sorted((record(number).tree, fork) for number, fork in expected)
    write(15)
    assert record(2).tree not in {one.tree for one in recorded(plain)}, "of its own kind the oldest goes"
