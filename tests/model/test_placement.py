"""Which clusters a stack goes to, and in what waves."""

from __future__ import annotations

import pytest

import fleet
from fleet.errors import ConfigurationError, Source
from fleet.model.placement import Selector, select_clusters

EU = fleet.Cluster("eu-1", labels={"env": "prod", "region": "eu"})
US = fleet.Cluster("us-1", labels={"env": "prod", "region": "us"})
LAB = fleet.Cluster("lab", labels={"env": "test"})
ALL = [US, LAB, EU]


def names(*chosen: Selector) -> list[str]:
    return [cluster.name for cluster in select_clusters(chosen, ALL)]


def test_clusters_are_chosen_by_name_and_come_sorted() -> None:
    assert names("us-1", "eu-1") == ["eu-1", "us-1"]


def test_clusters_are_chosen_by_labels() -> None:
    assert names(fleet.where(env="prod")) == ["eu-1", "us-1"]
    assert names(fleet.where(env="prod", region="us")) == ["us-1"]
    assert names(fleet.where(region=["eu", "us"])) == ["eu-1", "us-1"]
    assert names(fleet.where({"env": "test"})) == ["lab"]
    assert names(fleet.where()) == ["eu-1", "lab", "us-1"]


def test_conditions_combine() -> None:
    assert names(fleet.where(env="prod") & ~fleet.where(region="us")) == ["eu-1"]
    assert names(fleet.where(env="test") | fleet.where(region="eu")) == ["eu-1", "lab"]
    assert names("lab", fleet.where(region="eu")) == ["eu-1", "lab"]


def test_conditions_read_as_they_were_written() -> None:
    assert repr(fleet.where(env="prod", region=["eu", "us"])) == "where(env='prod', region=['eu', 'us'])"
    assert repr(fleet.where({"a/b": "c"})) == "where({'a/b': 'c'})"
    assert repr(fleet.where(a="1") & ~fleet.where(b="2")) == "where(a='1') & ~where(b='2')"


@pytest.mark.parametrize(
    ("chosen", "message", "hint"),
    [
        ("eu1", "there is no cluster 'eu1'", "did you mean 'eu-1'?"),
        (fleet.where(evn="prod"), "no cluster has a label 'evn'", "did you mean 'env'?"),
        (fleet.where(colour="red"), "no cluster has a label 'colour'", "labels in use: env, region"),
        (fleet.where(env="prd"), "no cluster matches where(env='prd')", "values in use: env: prod, test"),
    ],
)
def test_choosing_nothing_is_an_error_that_says_what_there_is(chosen: Selector, message: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        select_clusters([chosen], ALL, source=Source("stacks/a.py", 7))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert str(caught.value.source) == "stacks/a.py:7"
    assert caught.value.field == "clusters"


def test_pythons_own_and_or_not_are_refused_since_they_would_drop_half() -> None:
    with pytest.raises(ConfigurationError, match="neither true nor false"):
        _ = fleet.where(env="prod") and fleet.where(region="eu")
    with pytest.raises(ConfigurationError):
        _ = not fleet.where(env="prod")


def test_a_name_is_no_label_and_it_is_said_so() -> None:
    with pytest.raises(ConfigurationError, match="clusters are chosen by name with"):
        select_clusters([fleet.where(name="eu-1")], ALL)


def test_no_clusters_at_all_is_said_so() -> None:
    with pytest.raises(ConfigurationError, match="fleet cluster add"):
        select_clusters(["eu-1"], [])


def test_a_rollout_goes_wave_by_wave_and_the_rest_comes_last() -> None:
    rollout = fleet.Rollout(waves=["eu-1", fleet.where(region="us")], soak="5m")
    assert rollout.order(ALL) == (("eu-1",), ("us-1",), ("lab",))
    assert fleet.Rollout().order(ALL) == (("eu-1", "lab", "us-1"),)


@pytest.mark.parametrize(
    ("waves", "message", "field"),
    [
        (["eu-1", fleet.where(env="prod")], "cluster 'eu-1' is in wave 1 already", "rollout.waves[1]"),
        (["mars-1"], "there is no cluster 'mars-1'", "rollout.waves[0]"),
        ([fleet.where(env="dev")], "no cluster matches where(env='dev')", "rollout.waves[0]"),
    ],
)
def test_wrong_waves_are_named(waves: list[Selector], message: str, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        fleet.Rollout(waves=waves).order(ALL)
    assert (caught.value.message, caught.value.field) == (message, field)


def test_a_missing_label_says_which_there_are_and_is_a_key_error_too() -> None:
    with pytest.raises(ConfigurationError, match="cluster 'eu-1' has no label 'regoin'") as caught:
        EU.labels["regoin"]
    assert (caught.value.field, caught.value.hint) == ("labels['regoin']", "did you mean 'region'?")
    assert isinstance(caught.value, KeyError)
    assert EU.labels.get("tier", "silver") == "silver"
    assert "tier" not in EU.labels
