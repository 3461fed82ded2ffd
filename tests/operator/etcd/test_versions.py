"""A version that is not what runs is never called done: in decisions, in the status, and in previews. Data alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.versions import NEWEST
from fleet.apps.impact import explain
from fleet.kit.step import State
from tests.operator.etcd.observations import IMAGES, VERSIONS, Drawing, app

TAGS = {"etcd": "localhost/etcd:{tag}"}
EXACT = {"etcd": "localhost/etcd:{version}"}


def all_through(drawing: Drawing, *, running: str) -> Drawing:
    """Every member has the wanted template, and its image has this version inside."""
    drawing.roll(*drawing.pods)
    drawing.set["status"] = {"currentRevision": "db-2", "updateRevision": "db-2"}  # type: ignore[index]
    drawing.statuses = {pod: replace(one, version=running) for pod, one in drawing.statuses.items()}
    return drawing


@pytest.mark.parametrize(
    ("images", "own", "advice"),
    [
        (IMAGES, None, "the operator has one image for all of 3.5"),
        (EXACT, None, "its name does not say what is in it"),
        (TAGS, None, "its name does not say what is in it"),
        (IMAGES, "mirror/etcd:blue", "name another one with `image`"),
    ],
)
def test_a_version_that_git_says_exactly_is_not_done_while_members_run_another(
    monkeypatch: pytest.MonkeyPatch, images: dict[str, str], own: str | None, advice: str
) -> None:
    monkeypatch.setitem(VERSIONS, "3.5.21", "3.5.16")
    drawing = all_through(Drawing(app=app(version="3.5.21", image=own), images=images), running="3.5.16")
    decision = drawing.decision()
    assert (decision.state, decision.reason, decision.steps) == (State.BLOCKED, "OtherVersion", ())
    name = drawing.pods["db-0"]["spec"]["containers"][0]["image"]
    assert decision.message.startswith(f"image {name} gives 3.5.16, and git says 3.5.21; ")
    assert advice in decision.message
    drawing.statuses = {pod: replace(one, version="3.5.21") for pod, one in drawing.statuses.items()}
    assert drawing.decision().reason == "Healthy"


def test_one_member_with_another_patch_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERSIONS, "3.5.21", "3.5.21")
    drawing = all_through(Drawing(app=app(version="3.5.21"), images=TAGS), running="3.5.21")
    assert drawing.decision().reason == "Healthy"
    drawing.statuses["db-1"] = replace(drawing.statuses["db-1"], version="3.5.20")
    assert drawing.decision().reason == "OtherVersion"


def test_a_series_is_any_patch_of_it() -> None:
    assert all_through(Drawing(images=IMAGES), running="3.5.2").decision().reason == "Healthy"


@pytest.mark.parametrize(
    ("version", "images", "named"),
    [
        ("3.5", TAGS, "localhost/etcd:3.5"),
        ("3.5.21", TAGS, "localhost/etcd:3.5.21"),
        ("3.5", EXACT, f"localhost/etcd:{NEWEST['3.5']}"),
        ("3.5.21", IMAGES, "example.test/etcd:3.5"),
    ],
)
def test_an_image_is_named_by_what_git_says_of_the_version(version: str, images: dict[str, str], named: str) -> None:
    assert DRIVER.image(app(version=version), images) == named


@pytest.mark.parametrize(
    ("version", "images", "desired"),
    [
        ("3.5", IMAGES, "3.5"),
        ("3.5", TAGS, "3.5"),
        ("3.5", EXACT, NEWEST["3.5"]),
        ("3.5.21", IMAGES, "3.5.21"),
    ],
)
def test_the_status_says_which_image_gives_which_version(
    monkeypatch: pytest.MonkeyPatch, version: str, images: dict[str, str], desired: str
) -> None:
    monkeypatch.setitem(VERSIONS, "3.5.21", "3.5.16")
    report = EtcdEngine(images).report(Drawing(app=app(version=version), images=images).seen(), None)
    assert report.desired_version == desired, "a series is not said to be a patch that its image does not name"
    assert report.image_template == images["etcd"]
    given = {(member.image, member.version) for member in report.members}
    assert given == {(DRIVER.image(app(version=version), images), "3.5.16")}


@pytest.mark.parametrize("images", [EXACT, {"etcd": DRIVER.versions.image}])
def test_a_series_is_done_with_the_patch_that_members_keep(
    monkeypatch: pytest.MonkeyPatch, images: dict[str, str]
) -> None:
    """Images of this release name a newer patch, and nobody is restarted for that: it is not said to be due."""
    monkeypatch.setitem(VERSIONS, "3.5.16", "3.5.16")
    drawing = Drawing(app=app(version="3.5"), ran=app(version="3.5.16"), images=images)
    report = EtcdEngine(images).report(drawing.seen(), None)
    assert (report.version, report.desired_version) == ("3.5.16", "3.5.16") and NEWEST["3.5"] != "3.5.16"
    assert drawing.decision().reason == "Healthy"


def manifest(**spec: Any) -> dict[str, Any]:
    made = app(**spec)
    own = {"name": made.name, "namespace": made.namespace}
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": own, "spec": made.spec()}


def live(version: str, running: str, template: str | None, had: str) -> dict[str, Any]:
    """A custom resource as the operator has left it, all members with one image."""
    status: dict[str, Any] = {
        "version": running,
        "members": [{"name": f"db-{number}", "image": had} for number in range(3)],
    }
    return {**manifest(version=version), "status": status | ({"imageTemplate": template} if template else {})}


@pytest.mark.parametrize(
    ("wanted", "template", "had", "says", "restarts"),
    [
        (
            {"version": "3.5.21"},
            "lab/etcd:{series}",
            "lab/etcd:3.5",
            "stays etcd 3.5.16: the image for 3.5.21 is lab/etcd:3.5, which members have already",
            0,
        ),
        (
            {"version": "3.6"},
            "lab/etcd:{series}",
            "lab/etcd:3.5",
            "stays etcd 3.5.16: the image for 3.5.26 is lab/etcd:3.5, which members have already",
            0,
        ),
        ({"version": "3.5.21"}, "lab/etcd:{tag}", "lab/etcd:3.5", "upgrade 3.5.16 → 3.5.21", 3),
        ({"version": "3.5.21"}, "lab/etcd:v{version}", "lab/etcd:v3.5.16", "upgrade 3.5.16 → 3.5.21", 3),
        ({"version": "3.5.21", "image": "own:2"}, "lab/etcd:{series}", "lab/etcd:3.5", "upgrade 3.5.16 → 3.5.21", 3),
        ({"version": "3.5.21"}, None, "lab/etcd:3.5", "upgrade 3.5.16 → 3.5.21", 3),  # of an older operator
    ],
)
def test_a_preview_says_what_the_image_will_do(
    wanted: dict[str, Any], template: str | None, had: str, says: str, restarts: int
) -> None:
    meaning = explain("Etcd", live("3.5", "3.5.16", template, had), manifest(**wanted))
    assert meaning.texts[0].startswith(says)
    assert (meaning.restarts > 0, bool(meaning.hops)) == (restarts > 0, restarts > 0)


def test_a_preview_knows_the_image_that_git_names_itself() -> None:
    before = {
        **manifest(image="own:1"),
        "status": {"version": "3.5.16", "members": [{"name": "db-0", "image": "own:1"}]},
    }
    meaning = explain("Etcd", before, manifest(version="3.5.21", image="own:1"))
    assert meaning.texts == ("stays etcd 3.5.16: the image for 3.5.21 is own:1, which members have already",)
