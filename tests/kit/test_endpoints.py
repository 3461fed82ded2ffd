"""Services that the operator keeps: where they lead follows from what members say, and from nothing less certain."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_operator.core import kinds

from fleet.apps.registry import driver
from fleet.install import rights
from fleet.kit.app_type import AppService, AppType
from fleet.kit.observe.observation import MemberState, Silence
from fleet.kit.workload.endpoints import choose_pods, make_endpoint_slices
from fleet.kit.workload.pods import surroundings
from fleet.testing.app_type import check_app_type
from fleet.testing.conformance import Trial
from tests.app_types import installed, write_package
from tests.kit import pair
from tests.kit.pair import PAIR, Pair
from tests.kit.pair_members import PairEngine, PairServers
from tests.kit.test_pair_conforms import SUBJECT

RANKS = PAIR.ranks
PRIMARY, REPLICAS = AppService(to="primary", kept_by="operator"), AppService("r", to="replicas", kept_by="operator")


def settled() -> Trial:
    trial = SUBJECT.make_trial()
    trial.settle()
    return trial


def led_to(trial: Trial, service: str = "db") -> list[str]:
    """The pods that a Service leads to, by its slice."""
    found = trial.cluster.get("EndpointSlice", f"{service}-ipv4")
    assert found is not None
    return [endpoint["targetRef"]["name"] for endpoint in found["endpoints"]]


def look(trial: Trial, seconds: int = 1) -> None:
    for _ in range(seconds):
        trial.tick()
        trial.reconcile_once()


def test_a_service_leads_to_the_one_that_takes_writes_and_another_to_the_others() -> None:
    trial = settled()
    assert (led_to(trial), led_to(trial, "db-replicas")) == (["db-0"], ["db-1", "db-2"])
    found = trial.cluster.get("EndpointSlice", "db-ipv4")
    assert found is not None
    pod = trial.cluster.get("Pod", "db-0")
    assert pod is not None
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "client", "port": 6379, "protocol": "TCP"}]
    assert found["endpoints"][0]["addresses"] == [pod["status"]["podIP"]]
    assert found["endpoints"][0]["conditions"] == {"ready": True, "serving": True, "terminating": False}
    labels = found["metadata"]["labels"]
    assert labels["kubernetes.io/service-name"] == "db"
    assert labels["endpointslice.kubernetes.io/managed-by"] == "fleet-operator"
    assert (labels["fleet.dev/app"], labels["fleet.dev/kind"]) == ("db", "Pair")


def test_ports_of_a_slice_are_those_of_its_service() -> None:
    trial = settled()
    around = surroundings(PAIR, Pair.from_manifest(trial.manifest))
    services = {one["metadata"]["name"]: one for one in around if one["kind"] == "Service"}
    for found in make_endpoint_slices(PAIR, trial.observe()):
        service = services[found["metadata"]["labels"]["kubernetes.io/service-name"]]
        assert "selector" not in service["spec"], "the controller of slices would write its own"
        assert [port["name"] for port in found["ports"]] == [port["name"] for port in service["spec"]["ports"]]


def test_it_follows_a_failover_and_the_address_of_who_comes_back() -> None:
    trial = settled()
    trial.cluster.away.add("db-0")
    look(trial, 2)
    assert led_to(trial) == [trial.members.primary] == ["db-1"]
    assert led_to(trial, "db-replicas") == ["db-2"]
    trial.cluster.away.clear()
    trial.cluster.kill_pod("db-0")
    trial.settle()
    assert led_to(trial, "db-replicas") == ["db-0", "db-2"]
    pod, found = trial.cluster.get("Pod", "db-0"), trial.cluster.get("EndpointSlice", "db-replicas-ipv4")
    assert pod is not None and found is not None
    assert found["endpoints"][0]["addresses"] == [pod["status"]["podIP"]]


def test_at_rest_nothing_is_written() -> None:
    trial = settled()
    trial.moves.clear()
    look(trial, 10)
    assert trial.moves == []


def test_while_no_operator_runs_it_leads_where_it_led() -> None:
    trial = settled()
    trial.cluster.away.add("db-0")
    for _ in range(5):
        trial.tick()
    assert trial.members.primary != "db-0" and led_to(trial) == ["db-0"], (
        "best effort: it is stale until somebody looks"
    )
    look(trial)
    assert led_to(trial) == [trial.members.primary]


def test_one_that_does_not_answer_stays_while_nobody_else_says_that_it_leads() -> None:
    trial = settled()
    trial.members.silent |= {"db-0", "db-1"}
    look(trial, 2)
    assert (led_to(trial), led_to(trial, "db-replicas")) == (["db-0"], ["db-1", "db-2"])
    trial.members.primary = "db-2"
    look(trial, 2)
    assert (led_to(trial), led_to(trial, "db-replicas")) == (["db-2"], ["db-1"])


def test_one_that_is_not_ready_is_called_so() -> None:
    trial = settled()
    trial.members.unready.add("db-0")
    look(trial, 2)
    found = trial.cluster.get("EndpointSlice", "db-ipv4")
    assert found is not None and found["endpoints"][0]["conditions"]["ready"] is False


STATE = MemberState(role="replica")
LEADS = MemberState(role="primary", leads=True)
CHOICES: dict[str, tuple[AppService, dict[str, MemberState], set[str], list[str]]] = {
    "nobody leads": (PRIMARY, {"db-0": STATE, "db-1": STATE, "db-2": STATE}, {"db-0"}, []),
    "two lead, who knows": (PRIMARY, {"db-0": LEADS, "db-1": LEADS}, {"db-0"}, []),
    "two lead, one of an older term": (
        PRIMARY,
        {"db-0": replace(LEADS, knowledge=(3,)), "db-1": replace(LEADS, knowledge=(4,))},
        {"db-0"},
        ["db-1"],
    ),
    "the rank says it": (PRIMARY, {"db-1": replace(STATE, role="primary")}, set(), ["db-1"]),
    "it is silent": (PRIMARY, {"db-1": STATE}, {"db-0"}, ["db-0"]),
    "silent ones that were never led to": (PRIMARY, {}, set(), []),
    "replicas": (REPLICAS, {"db-0": LEADS, "db-1": STATE, "db-2": STATE}, set(), ["db-1", "db-2"]),
    "neither of two that lead is a replica": (REPLICAS, {"db-0": LEADS, "db-1": LEADS, "db-2": STATE}, set(), ["db-2"]),
    "a replica that loads": (REPLICAS, {"db-1": replace(STATE, obstacle="it loads"), "db-2": STATE}, set(), ["db-2"]),
    "every": (AppService("e", to="every", kept_by="operator"), {"db-0": LEADS}, set(), ["db-0", "db-1", "db-2"]),
}


@pytest.mark.parametrize("case", CHOICES, ids=str)
def test_what_is_certain_counts(case: str) -> None:
    service, states, known, wanted = CHOICES[case]
    seen = settled().observe()
    silences = {pod: Silence("no answer") for pod in seen.pods if pod not in states}
    seen = replace(seen, states=states, silences=silences)
    assert choose_pods(seen, service, known, RANKS) == wanted


def test_a_pod_that_goes_is_led_to_no_more() -> None:
    trial = settled()
    seen, world = trial.observe(), trial.cluster.world()
    world.all("Pod")[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert choose_pods(replace(seen, world=world), PRIMARY, {"db-0"}, RANKS) == []


def test_addresses_of_two_families_have_a_slice_each() -> None:
    trial = settled()
    assert {one["addressType"] for one in make_endpoint_slices(PAIR, trial.observe())} == {"IPv4"}
    world = trial.cluster.world()
    for pod in world.all("Pod"):
        pod["status"]["podIPs"] = [{"ip": pod["status"]["podIP"]}, {"ip": "fd00::7"}]
    slices = make_endpoint_slices(PAIR, replace(trial.observe(), world=world))
    found = {one["metadata"]["name"]: one for one in slices}
    assert found["db-ipv6"]["addressType"] == "IPv6"
    assert found["db-ipv6"]["endpoints"][0]["addresses"] == ["fd00::7"]
    assert found["db-ipv4"]["endpoints"][0]["addresses"] != ["fd00::7"]


def test_slices_go_with_the_app_and_are_given_back_with_it() -> None:
    trial = settled()
    trial.tear_down()
    assert trial.cluster.list_objects("EndpointSlice") == []


def test_types_whose_services_have_selectors_have_no_slices() -> None:
    class Typed(type(PAIR)):  # type: ignore[misc]
        services = (AppService(),)

    assert make_endpoint_slices(Typed(), settled().observe()) == []
    assert "EndpointSlice" not in Typed().further_kinds
    assert not [rule for rule in rights.apps_role()["rules"] if "endpointslices" in rule["resources"]]


def install_pair(directory: Path) -> None:
    """Install the type as a package, without a half that acts."""
    text = inspect.getsource(pair).replace("    app = Pair\n", "    app = Pair\n    contract = 1\n")
    write_package(directory, "fleet-pair", text=text, entry="pair", attribute="PAIR")


def test_the_operator_may_write_slices_where_a_type_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(monkeypatch, tmp_path):
        install_pair(tmp_path)
        rules = rights.apps_role()["rules"]
        (verbs,) = [rule["verbs"] for rule in rules if "endpointslices" in rule["resources"]]
    assert set(verbs) == {"get", "list", "watch", "create", "patch", "delete"}
    made = kinds.children(PairEngine(PairServers()))
    assert made == (*kinds.CHILDREN, kinds.ENDPOINT_SLICES)


def test_a_type_that_asks_nobody_cannot_say_who_takes_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with installed(monkeypatch, tmp_path):
        install_pair(tmp_path)
        known = driver("Pair")
        assert isinstance(known, AppType)
        with pytest.raises(AssertionError, match="nobody asks members which of them takes writes"):
            check_app_type(known, known.app("cache", namespace="shop", version="7"))
        monkeypatch.setattr(type(known), "engine", "tests.kit.pair_members:PairEngine")
        with pytest.raises(AssertionError, match="files of an older revision"):  # the next thing that it lacks
            check_app_type(known, known.app("cache", namespace="shop", version="7"))
