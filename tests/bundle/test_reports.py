"""What agents say in repositories of their own, and for which clusters that counts. Real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.bundle.reports import ReportRepository, parse_report_repository, read_reports
from fleet.errors import ConfigurationError, PolicyError
from fleet.git.refs import address
from fleet.git.repository import GitRepository
from fleet.git.status import BRANCH, report
from fleet.git.status_records import StatusReport
from tests.git.repositories import bare, clone

URL = "https://git.example.com/team/reports.git"


@pytest.mark.parametrize(
    ("text", "clusters"), [(URL, ()), (f"eu-1={URL}", ("eu-1",)), (f"eu-1,eu-2={URL}", ("eu-1", "eu-2"))]
)
def test_a_place_is_an_address_and_perhaps_who_is_told_of_there(text: str, clusters: tuple[str, ...]) -> None:
    assert parse_report_repository(text) == ReportRepository(address(URL, by_person=True), frozenset(clusters))


@pytest.mark.parametrize("url", [f"{URL}?key=value", "/srv/a=b.git", "git@git.example.com:a=b.git"])
def test_a_sign_within_an_address_names_no_cluster(url: str) -> None:
    assert parse_report_repository(url) == ReportRepository(address(url, by_person=True))


@pytest.mark.parametrize("text", ["eu-1=", f"={URL}", f"eu-1,={URL}"])
def test_half_of_it_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ConfigurationError, match="missing") as refused:
        parse_report_repository(text)
    assert refused.value.hint == "write URL, or CLUSTER=URL, or CLUSTER,CLUSTER=URL"


def test_an_address_behind_a_name_is_judged_as_any_other() -> None:
    with pytest.raises(PolicyError, match="remote helper"):
        parse_report_repository("eu-1=ext::sh -c true")


def test_who_has_a_place_of_its_own_cannot_speak_for_others_there(tmp_path: Path) -> None:
    home, own = bare(tmp_path / "home.git"), bare(tmp_path / "own.git")
    centre = GitRepository.find(clone(tmp_path / "centre", home))
    agent = GitRepository.find(clone(tmp_path / "agent", own))

    def says(repository: GitRepository, cluster: str, health: str) -> None:
        report(repository, [StatusReport("orders", cluster, repository.resolve().id, sync="Synced", health=health)])

    says(centre, "eu-1", "Unknown")
    says(centre, "us-1", "Degraded")
    says(agent, "eu-1", "Healthy")
    says(agent, "us-1", "Healthy")

    def heard(place: str) -> dict[str, str]:
        at_home = address(str(home), by_person=True)
        return {
            one.cluster: one.health for one in read_reports(centre, at_home, [parse_report_repository(place)], BRANCH)
        }

    assert heard(str(own)) == {"eu-1": "Healthy", "us-1": "Healthy"}, "nobody said whose it is"
    assert heard(f"eu-1={own}") == {"eu-1": "Healthy", "us-1": "Degraded"}
