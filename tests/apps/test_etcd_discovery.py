"""From what members answer to a candidate, and from candidates to the text of a stack: exact, typed, formatted."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.adopt.find import AdoptionFinding, _refuse_split_clusters
from fleet.adopt.stack_file import function_name, stack_file
from fleet.apps.etcd.discovery import DISCOVERY
from fleet.cli.commands.adopt import _format_finding
from fleet.kit.adoption.discovery import Candidate
from fleet.kit.adoption.managers import managers_in_the_way
from fleet.kit.adoption.surroundings import Surroundings
from fleet.kit.driver import Problem
from fleet.model.app import App
from fleet.render.crd import definitions
from tests.operator.existing_setups import SET_UPS, SetUp

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "adopt.md"
PARTITIONED: dict[str, Any] = {"f:spec": {"f:updateStrategy": {"f:type": {}, "f:rollingUpdate": {"f:partition": {}}}}}
WRITTEN = Path(__file__).parents[1] / "typing" / "right" / "adopted.py"
Object = dict[str, Any]
CLUSTER = 0xCDF818194E3A8C32


def answers(set_up: SetUp, **changes: Any) -> dict[str, list[str]]:
    """As etcdctl prints them beside each of three members."""
    said = {}
    members = [
        {"ID": 16 + number, "name": f"{set_up.stateful_set}-{number}", "peerURLs": [f"http://{number}:2380"]}
        for number in range(3)
    ]
    for number in range(3):
        header = {"cluster_id": changes.get("clusters", {}).get(number, CLUSTER), "member_id": 16 + number}
        status = {"header": header, "version": changes.get("version", "3.4.23"), "leader": changes.get("leader", 16)}
        listed = changes.get("listed") or json.dumps({"members": [*members, *changes.get("strangers", ())]})
        said[f"{set_up.stateful_set}-{number}"] = [json.dumps([{"Status": status}]), listed]
    return {pod: one for pod, one in said.items() if pod not in changes.get("silent", ())}


def around(set_up: SetUp) -> Surroundings:
    documents = set_up.documents("legacy")
    held = {(one["kind"], one["metadata"]["name"]): one.get("data") for one in documents}
    services = [one for one in documents if one["kind"] == "Service"]
    budgets = [one for one in documents if one["kind"] == "PodDisruptionBudget"]
    job = {"containers": [{"command": ["etcdctl", "--endpoints=http://etcd:2379", "snapshot", "save", "/x"]}]}
    saves: Object = {"metadata": {"name": "saves"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": job}}}}}
    texts = {name: one for (kind, name), one in held.items() if kind == "ConfigMap"}
    return Surroundings(services=services, budgets=budgets, cron_jobs=[saves], find=lambda kind, name: texts.get(name))


def understood(
    name: str, change: Callable[[Object], object] = lambda found: None, **changes: Any
) -> Candidate | Problem:
    set_up = SET_UPS[name]
    found = set_up.stateful("legacy")
    manager = set_up.manager or "kubectl-client-side-apply"
    found["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": PARTITIONED}]
    change(found)
    return DISCOVERY.understands(found, around(set_up), answers(set_up, **changes))


def candidate(name: str) -> Candidate:
    made = understood(name)
    assert isinstance(made, Candidate), made
    return made


@pytest.mark.parametrize("name", SET_UPS)
def test_every_set_up_is_described_as_the_app_that_the_server_would_take(name: str) -> None:
    found, set_up = candidate(name), SET_UPS[name]
    app = found.app
    assert (found.identity, found.version) == (f"{CLUSTER:x}", "3.4.23")
    assert [one.role for one in found.members] == ["leader", "follower", "follower"]
    assert app.adoption is not None
    assert app.endpoint == f"{set_up.adopt['service']}.legacy.svc:{set_up.port}"
    assert app.adoption.take_from == (set_up.manager or "kubectl-client-side-apply",)
    schema = definitions()["fleet.dev_etcds.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["spec"]["properties"]
    assert set(app.spec()) <= set(known)
    assert set(app.spec()["adopt"]) <= set(known["adopt"]["properties"])
    again = type(app).from_manifest({"metadata": {"name": app.name, "namespace": "legacy"}, "spec": app.spec()})
    assert again.spec() == app.spec()
    assert again.adoption == app.adoption


def test_the_text_is_the_one_that_is_type_checked_and_formatted_beside_the_others() -> None:
    """tests/typing/right holds it: the type checker of that test and the formatter of `make lint` see every word."""
    written = stack_file("legacy", ["eu-1"], [candidate("renamed"), candidate("sidecars"), candidate("chart")])
    assert written == WRITTEN.read_text()


def test_what_the_text_says_is_what_was_found(tmp_path: Path) -> None:
    import fleet

    found = candidate("renamed")
    scope: dict[str, Any] = {}
    exec(compile(stack_file("legacy", ["eu-1"], [found]), "legacy.py", "exec"), scope)
    (made,) = (one for one in scope["legacy"](fleet.Cluster("eu-1")).resources if isinstance(one, App))
    assert made.spec() == found.app.spec()
    assert made.key == found.app.key


def _set(path: str, value: Any) -> Callable[[Object], None]:
    def change(found: Object) -> None:
        *parents, last = path.split(".")
        for part in parents:
            found = found.setdefault(part, {})
        found[last] = value

    return change


def _unobserved(found: Object) -> None:
    found["metadata"]["generation"], found["status"] = 3, {"observedGeneration": 2}


STRANGERS = ({"ID": 99, "peerURLs": ["http://x"]},)
OWNER = [{"kind": "EtcdCluster", "name": "main", "controller": True}]
REFUSED: dict[str, tuple[Callable[[], Candidate | Problem], str]] = {
    "split brain": (lambda: understood("plain", clusters={1: 7}), "different clusters: etcd-0 of cdf8"),
    "silent": (lambda: understood("plain", silent={"etcd-1"}), "etcd-1 could not be asked"),
    "no leader": (lambda: understood("plain", leader=0), "no leader"),
    "no list": (lambda: understood("plain", listed="Error: context deadline"), "no majority: Error: context deadline"),
    "version": (lambda: understood("plain", version="3.3.27"), "etcd 3.3.27 runs, and fleet knows 3.4"),
    "strangers": (lambda: understood("plain", strangers=STRANGERS), "http://x is a member"),
    "operator": (lambda: understood("plain", _set("metadata.ownerReferences", OWNER)), "run by EtcdCluster main"),
    "ours": (lambda: understood("plain", _set("metadata.labels", {"fleet.dev/app": "x"})), "belongs to the app x"),
    "a stack's": (lambda: understood("plain", _set("metadata.labels", {"fleet.dev/stack": "y"})), "to the stack y"),
    "two revisions": (lambda: understood("plain", _set("status.updateRevision", "r2")), "pods of two revisions"),
    "a change that nobody has looked at": (lambda: understood("plain", _unobserved), "pods of two revisions"),
    "numbers": (lambda: understood("plain", _set("spec.ordinals", {"start": 1})), "numbered from 1 on"),
    "not etcd": (
        lambda: DISCOVERY.understands(
            SET_UPS["plain"].stateful(), around(SET_UPS["plain"]), {"etcd-0": ["bash: etcdctl: command not found"]}
        ),
        "does not answer as etcd does: bash: etcdctl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_managed_is_said_with_the_reason(case: str) -> None:
    make, words = REFUSED[case]
    problem = make()
    assert isinstance(problem, Problem)
    assert words in problem.message


def test_what_stands_beside_the_members_is_named_and_stays_theirs() -> None:
    assert candidate("ordered").kept[-2:] == ("PodDisruptionBudget etcd", "CronJob saves, which speaks to it")
    assert not [one for one in candidate("chart").kept if "saves" in one]


def _everything(found: Object) -> None:
    """What people write into templates beside what every etcd needs, and what servers fill in."""
    pod = found["spec"]["template"]["spec"]
    pod |= {"affinity": {"podAntiAffinity": {}}, "tolerations": [{"key": "x"}], "nodeSelector": {"disk": "fast"}}
    pod |= {"securityContext": {"fsGroup": 1}, "serviceAccountName": "kv", "serviceAccount": "kv"}
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    pod["volumes"] = [{"name": "scripts", "configMap": {"name": "scripts"}}]
    (container,) = pod["containers"]
    container |= {"livenessProbe": {"tcpSocket": {"port": 1}}, "terminationMessagePolicy": "File"}
    container["lifecycle"] = {"preStop": {"exec": {"command": ["/opt/scripts/prestop.sh"]}}}
    container["env"].append({"name": "EXTRA", "value": "1"})
    found["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    found["spec"]["volumeClaimTemplates"].append({"metadata": {"name": "wal"}, "spec": {}})


def test_whatever_no_field_says_is_named() -> None:
    made = understood("plain", _everything)
    assert isinstance(made, Candidate)
    assert made.kept[-8:] == (
        "persistentVolumeClaimRetentionPolicy, from when it is given back on: until then volumes stay",
        "pods: affinity, nodeSelector, securityContext, serviceAccountName, tolerations",
        "container etcd: livenessProbe, readinessProbe",
        "hook preStop, whenever a member stops: /opt/scripts/prestop.sh",
        "environment: EXTRA",
        "claim template wal",
        "volume scripts (configMap)",
        "CronJob saves, which speaks to it",
    )


def test_a_line_that_is_too_long_stays_a_comment() -> None:
    made = understood("plain", _set("spec.template.spec.hostAliases", [{"ip": "1"}]))
    assert isinstance(made, Candidate)
    long = stack_file("legacy", ["eu-1"], [replace(made, kept=("one " * 60 + "\nimport os",))])
    (first, second, third) = [line for line in long.splitlines() if "one one" in line or "import os" in line]
    assert max(map(len, (first, second, third))) <= 120
    assert all(line.startswith("    # ") for line in (first, second, third))


@pytest.mark.parametrize("text", ['a\nb = "c"', "\\", "\u202e\U000e0041\x7f\r", "é 'x'"], ids=ascii)
def test_a_text_that_was_found_is_the_same_in_the_file_whatever_is_in_it(text: str) -> None:
    made = understood("plain")
    assert isinstance(made, Candidate)
    app = made.app.model_copy(update={"version": text})
    (call,) = [
        line for line in stack_file("legacy", ["eu-1"], [replace(made, app=app)]).split("\n") if "version=" in line
    ]
    value = ast.literal_eval(re.search(r'version=("(?:[^"\\]|\\.)*")', call)[1])  # type: ignore[index]
    assert (value, call.isprintable()) == (text, True)


def test_nodes_and_claims_of_members_are_told() -> None:
    set_up = SET_UPS["plain"]
    found = set_up.stateful("legacy")
    pods = [{"metadata": {"name": f"etcd-{one}"}, "spec": {"nodeName": f"n{one}"}} for one in range(3)]
    size = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    claims = [{"metadata": {"name": name}, "spec": size} for name in ("data-etcd-0", "data-other-0")]
    made = DISCOVERY.understands(found, replace(around(set_up), pods=pods, claims=claims), answers(set_up))
    assert isinstance(made, Candidate)
    assert made.facts["nodes"] == "etcd-0 on n0, etcd-1 on n1, etcd-2 on n2"
    assert made.facts["volumes"] == "data-etcd-0 of 1Gi fast"
    assert made.app.spec()["storage"] == "1Gi", "claims may have grown since they were made from their template"


def test_a_set_whose_pods_are_updated_by_hand_is_up_to_date_when_all_of_them_are() -> None:
    """What it calls its current revision stays the first one for ever."""

    def updated(count: int) -> Callable[[Object], None]:
        def change(found: Object) -> None:
            found["spec"]["updateStrategy"] = {"type": "OnDelete"}
            found["status"] = {"currentRevision": "r1", "updateRevision": "r2", "updatedReplicas": count}

        return change

    assert isinstance(understood("plain", updated(3)), Candidate)
    assert isinstance(understood("plain", updated(2)), Problem)


def test_two_sets_of_one_cluster_are_both_refused() -> None:
    both = [
        AdoptionFinding("a", "one", "etcd", "", candidate("plain")),
        AdoptionFinding("b", "two", "etcd", "", candidate("ordered")),
    ]
    judged = _refuse_split_clusters(both)
    assert [one.candidate for one in judged] == [None, None]
    assert all(one.problem and "two candidates for one app" in one.problem.message for one in judged)


def test_the_page_shows_what_is_printed_and_written() -> None:
    """As of the set-up with TLS, with an official image."""
    set_up = SET_UPS["tls"]
    found = set_up.stateful("legacy")
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "quay.io/coreos/etcd:v3.4.23"
    found["metadata"]["managedFields"] = [{"manager": "kubectl-client-side-apply", "fieldsV1": PARTITIONED}]
    pods = [{"metadata": {"name": f"kv-{one}"}, "spec": {"nodeName": f"n{one + 1}"}} for one in range(3)]
    size = {"resources": {"requests": {"storage": "256Mi"}}, "storageClassName": "standard"}
    claims = [{"metadata": {"name": f"data-kv-{one}"}, "spec": size} for one in range(3)]
    there = replace(around(set_up), pods=pods, claims=claims, cron_jobs=())
    said = answers(set_up, clusters=dict.fromkeys(range(3), 0xDCCA55CA55EE2F2F), leader=17)
    made = DISCOVERY.understands(found, there, said)
    assert isinstance(made, Candidate), made
    sign = DISCOVERY.recognises(found, there.find)
    assert sign is not None
    page = PAGE.read_text()
    assert "\n".join(_format_finding(AdoptionFinding("legacy", "kv", "etcd", sign, made))) in page
    assert stack_file("legacy", ["dev"], [made]) in page


def test_only_who_owns_what_must_change_is_in_the_way() -> None:
    found = SET_UPS["plain"].stateful()
    found["metadata"]["managedFields"] = [
        {"manager": "scaler", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "kube-controller-manager", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "fleet-operator", "fieldsV1": {"f:spec": {"f:updateStrategy": {"f:type": {}}}}},
    ]
    assert managers_in_the_way(found) == ()


def test_who_owns_the_template_that_the_first_roll_changes_is_written_too() -> None:
    def applied(found: Object) -> None:
        template: Object = {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}
        found["metadata"]["managedFields"] = [
            {"manager": "kubectl-client-side-apply", "fieldsV1": template},
            {"manager": "kubectl-rollout", "fieldsV1": template},
            {"manager": "scaler", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "fleet-operator", "fieldsV1": template},
        ]

    made = understood("plain", applied)
    assert isinstance(made, Candidate), made
    assert made.app.adoption is not None
    assert made.app.adoption.take_from == ("kubectl-client-side-apply", "kubectl-rollout")
    assert 'take_from=["kubectl-client-side-apply", "kubectl-rollout"]' in stack_file("legacy", ["dev"], [made])


@pytest.mark.parametrize("flag", ["http://0.0.0.0:${CLIENT_PORT:-2379}", "http://0.0.0.0:$(PORT)", "http://[::1"])
def test_an_odd_set_is_a_problem_of_that_set_alone(flag: str) -> None:
    def odd(found: Object) -> None:
        (container,) = found["spec"]["template"]["spec"]["containers"]
        container["args"] = [f"--listen-client-urls={flag}", "--data-dir=/var/lib/etcd"]

    assert isinstance(understood("plain", odd), Problem)


def test_members_are_asked_without_what_the_container_says_to_the_client() -> None:
    """etcdctl ends at once where a variable says what a flag says, too. Who it is, is left to it."""
    found = SET_UPS["plain"].stateful("legacy")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    names = ("ETCDCTL_ENDPOINTS", "ETCDCTL_API", "ETCDCTL_USER")
    container["env"] += [{"name": name, "value": "x"} for name in names]
    questions = DISCOVERY.questions(found, around(SET_UPS["plain"]).find)
    assert not isinstance(questions, Problem)
    assert questions[0].argv[:6] == ("env", "-u", "ETCDCTL_API", "-u", "ETCDCTL_ENDPOINTS", "etcdctl")


@pytest.mark.parametrize("namespace", ["1shop", "class", "import", "fleet", "my-shop"])
def test_any_namespace_makes_a_stack(namespace: str) -> None:
    import fleet

    scope: dict[str, Any] = {}
    exec(compile(stack_file(namespace, ["eu-1"], [candidate("plain")]), "found.py", "exec"), scope)
    made = scope[function_name(namespace)]
    assert made.namespace == namespace
    (app,) = (one for one in made(fleet.Cluster("eu-1")).resources if isinstance(one, App))
    assert app.namespace == namespace
