"""The history of the status branch is cut off, its files are not, and writers that meet a cut branch go on."""

from __future__ import annotations

from pathlib import Path

from fleet.git import refs
from fleet.git.publish import trim
from fleet.git.repository import Mirror
from fleet.git.status import BRANCH, read_status, report
from fleet.git.status_records import StatusReport
from fleet.testing import GitRemote

REF = refs.branch_ref(BRANCH)


def test_a_long_branch_is_cut_and_written_on(git_remote: GitRemote, tmp_path: Path) -> None:
    one, other = (Mirror.of(git_remote.url, tmp_path / name, by_person=True) for name in ("one", "other"))

    def write(mirror: Mirror, stack: str, health: str) -> None:
        report(mirror.repository, [StatusReport(stack, "eu", "", health=health)], remote=mirror.address)

    for health in ("Progressing", "Healthy", "Degraded"):
        write(one, "orders", health)
    write(other, "shop", "Healthy")
    assert not trim(one.repository, one.address, REF, most=4)
    assert git_remote.git("rev-list", "--count", BRANCH).strip() == "4"
    before = git_remote.git("rev-parse", f"{BRANCH}^{{tree}}")
    assert trim(one.repository, one.address, REF, most=3)
    assert git_remote.git("rev-list", "--count", BRANCH).strip() == "1"
    assert git_remote.git("rev-parse", f"{BRANCH}^{{tree}}") == before
    write(other, "shop", "Degraded")  # it knows the branch as it was
    said = read_status(one.repository, remote=one.address)
    assert [(each.stack, each.health) for each in said.records] == [("orders", "Degraded"), ("shop", "Degraded")]
    assert git_remote.git("rev-list", "--count", BRANCH).strip() == "2"
    assert not trim(one.repository, one.address, "refs/heads/none", most=3)
