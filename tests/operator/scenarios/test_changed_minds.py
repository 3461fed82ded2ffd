"""Changes of mind in the middle of things, and operators that find things half-made: the last word counts, and no
acknowledged write is lost on the way to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.operator.app_on_nodes import App
from tests.operator.writer import Writer

pytestmark = pytest.mark.timeout(1800)
full = pytest.mark.full


def _members(app: App) -> list[str]:
    return [one["name"] for one in app.status["members"]]


def _named(count: int) -> list[str]:
    return [f"registry-{number}" for number in range(count)]


def _says_at_last(app: App, writer: Writer, members: int) -> None:
    """Git wants so many, as its last word, and gets them."""
    writer.strike("the last word", lambda: app.change(members=members))
    app.wait_ready()
    assert _members(app) == _named(members)
    assert list(app.claims()) == [f"data-{pod}" for pod in _named(members)]
    writer.goes_on()


@pytest.mark.parametrize(
    ("first", "then", "moment"),
    [
        (1, 3, "MemberAdded"),
        pytest.param(3, 5, "MemberAdded", marks=full),
        pytest.param(3, 5, "ScalingOut", marks=full),
        pytest.param(3, 5, "MemberPromoted", marks=full),
        pytest.param(5, 3, "MemberRemoved", marks=full),
        pytest.param(5, 3, "ScalingIn", marks=full),
        pytest.param(3, 1, "VolumeDeleted", marks=full),
    ],
)
def test_a_resize_is_taken_back_while_it_is_under_way(app: App, first: int, then: int, moment: str) -> None:
    app.want(version="3.5", members=first)
    app.wait_ready()
    with app.writer() as writer:
        writer.strike("the first word", lambda: app.change(members=then))
        app.wait(f"it is at {moment}", lambda: moment in app.reasons())
        _says_at_last(app, writer, first)
        numbers = writer.stop()
    writer.was_writing()
    app.has_all(numbers)
    app.every_member_has_all(numbers)


@pytest.mark.parametrize(("then", "moment"), [(1, "MemberReplaced"), (5, "VolumeDeleted"), (1, "MemberAdded")])
@full
def test_while_a_member_is_replaced_git_may_want_fewer_or_more(app: App, then: int, moment: str) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    with app.writer() as writer:
        app.cluster.kubectl("delete", "pvc", "data-registry-2", "--wait=false")
        writer.strike("loss of a volume", app.lose_pod("registry-2"))
        app.wait(f"it is at {moment}", lambda: moment in app.reasons())
        _says_at_last(app, writer, then)
        numbers = writer.stop()
    app.has_all(numbers)
    app.every_member_has_all(numbers)


def test_an_upgrade_is_taken_back_until_all_members_run_it(app: App) -> None:
    def versions() -> list[str]:
        return sorted(one.get("version", "").rpartition(".")[0] for one in app.status["members"])

    app.want(version="3.4", members=3)
    app.wait_ready()
    with app.writer() as writer:
        writer.strike("the first word", lambda: app.change(version="3.5"))
        app.wait("the first member is through, and not the last", lambda: 0 < versions().count("3.5") < 3)
        writer.strike("the last word", lambda: app.change(version="3.4"))
        app.wait_ready()
        assert versions() == ["3.4"] * 3
        writer.goes_on()
        numbers = writer.stop()
    writer.was_writing()
    app.has_all(numbers)


@full
def test_an_upgrade_that_is_done_is_not_taken_back(app: App) -> None:
    app.want(version="3.4", members=1)
    app.wait_ready()
    app.change(version="3.5")
    app.wait_ready()
    before = app.restarts()
    app.change(version="3.4")
    app.wait("it says why not", lambda: app.condition("Blocked").get("reason") == "NoWay")
    assert "cannot go back" in app.condition("Blocked")["message"]
    app.change(version="3.5")
    app.wait_ready()
    assert app.restarts() == before


@pytest.mark.parametrize(("first", "then"), [(3, 1), pytest.param(1, 3, marks=full), pytest.param(3, 5, marks=full)])
def test_the_number_of_members_changes_while_the_first_ones_meet(app: App, first: int, then: int) -> None:
    app.want(version="3.5", members=first)
    app.wait("the first pods are there", lambda: len(app.pods()) == first)
    app.change(members=then)
    app.wait_ready()
    assert _members(app) == _named(then)


@full
def test_another_version_is_wanted_while_the_first_members_meet(app: App) -> None:
    app.want(version="3.4", members=3)
    app.wait("the first pods are there", lambda: len(app.pods()) == 3)
    app.change(version="3.5")
    app.wait_ready()
    assert {one["version"].rpartition(".")[0] for one in app.status["members"]} == {"3.5"}


def _pods_deleted(app: App) -> None:
    app.cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


def _scaled_to_nothing(app: App) -> None:
    app.cluster.kubectl("scale", "statefulset", app.name, "--replicas=0")
    app.wait("all pods are gone", lambda: not app.pods())


def _one_too_few(app: App) -> None:
    app.cluster.kubectl("scale", "statefulset", app.name, "--replicas=2")
    app.wait("its pod is gone", lambda: len(app.pods()) == 2)


def _set_deleted(app: App) -> None:
    app.cluster.kubectl("delete", "statefulset", app.name)
    app.wait("all pods are gone", lambda: not app.pods())


def _surroundings_deleted(app: App) -> None:
    app.cluster.kubectl("delete", "services,poddisruptionbudgets", "--all")


def _around(app: App) -> list[str]:
    names = app.cluster.kubectl("get", "services,poddisruptionbudgets", "-o", "name").split()
    return sorted(name.rpartition("/")[2] for name in names)


@pytest.mark.parametrize(
    "harm",
    [
        _scaled_to_nothing,
        pytest.param(_pods_deleted, marks=full),
        pytest.param(_one_too_few, marks=full),
        pytest.param(_set_deleted, marks=full),
        pytest.param(_surroundings_deleted, marks=full),
    ],
)
def test_an_operator_that_finds_etcd_down_brings_it_back(app: App, harm: Callable[[App], None]) -> None:
    app.want(version="3.5", members=3)
    app.wait_ready()
    with app.writer() as writer:
        writer.goes_on(300)
        numbers = writer.stop()
    claims, identity = app.claims(), app.status["identity"]
    app.operator.kill()
    harm(app)
    mark = app.cluster.audit.mark()
    app.operator.start()
    app.wait("it looks after its apps", lambda: app.operator.is_looking(mark))
    app.wait(
        "all members are there, and ready", lambda: list(app.ready_since()) == _named(3)
    )  # the status may be of before
    app.wait("what stands around them, too", lambda: _around(app) == ["registry", "registry", "registry-peers"])
    app.wait("they serve", lambda: app.status["ready"] == "3/3" and app.is_ready())
    with app.writer(rate=50) as writer:
        writer.goes_on()
    assert (app.claims(), app.status["identity"]) == (claims, identity)
    app.every_member_has_all(numbers)


def test_a_set_that_was_deleted_under_its_pods_is_made_again_around_them(app: App) -> None:
    app.want(version="3.5", members=1)
    app.wait_ready()
    before = app.restarts()
    app.operator.kill()
    app.cluster.kubectl("delete", "statefulset", app.name, "--cascade=orphan")
    app.operator.start()
    app.wait("it is there again", lambda: app.cluster.get("statefulset", app.name)["status"]["readyReplicas"] == 1)
    app.wait_ready()
    assert app.restarts() == before


@full
@pytest.mark.parametrize("moment", ["secret/registry-ca", "configmap/registry-members", "statefulset/registry"])
def test_an_operator_that_finds_an_app_half_made_goes_on(app: App, moment: str) -> None:
    app.want(version="3.5", members=3)
    app.wait(f"{moment} is there", lambda: bool(app.cluster.kubectl("get", moment, "--ignore-not-found")))
    app.operator.kill()
    app.operator.start()
    app.wait_ready()
    assert _members(app) == _named(3)
