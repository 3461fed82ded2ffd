"""What others change of ours is put back, whatever part of an object it is; what is theirs stays, beside it."""

from __future__ import annotations

from typing import Any

from tests.serve.running_service import Served
from tests.soak.stranger import MERGE, Stranger

OURS: dict[str, dict[str, Any]] = {
    "ConfigMap": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"team": "ours"}, "annotations": {"note": "ours"}},
        "data": {"a": "1", "b": "1"},
    },
    "Service": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]},
    },
    "Role": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "a"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    },
}
STRATEGIC = "application/strategic-merge-patch+json"
THEIRS = {"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090}
RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}


def test_every_part_of_an_object_that_is_ours_is_put_back_and_what_is_theirs_stays(either: Served) -> None:
    served = either
    repository = served.repository
    eu, us = repository.clusters
    space = repository.namespace
    repository.wants(*(f"fleet.Manifest({one!r})" for one in OURS.values()))
    revision = served.push()
    served.start()
    served.until("both have it", lambda: all(served.record(one.name).get("revision") == revision for one in (eu, us)))
    paths = {
        "ConfigMap": f"/api/v1/namespaces/{space}/configmaps/a",
        "Service": f"/api/v1/namespaces/{space}/services/a",
        "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/roles/a",
    }
    them = Stranger(eu.lab.plane(eu.lab.spec.cluster(eu.name)).admin())

    def live(kind: str) -> dict[str, Any]:
        return served.live(eu, paths[kind]) or {"metadata": {}, "data": {}, "spec": {}, "rules": []}

    def patch(kind: str, body: dict[str, Any], form: str = MERGE) -> None:
        assert them.again("PATCH", f"{paths[kind]}?fieldManager=stranger", body, form) is not None

    def config_map(labels: dict[str, str], notes: dict[str, str], data: dict[str, str]) -> bool:
        found = live("ConfigMap")
        about = found["metadata"]
        known = about.get("labels") or {}
        seen = {name: known[name] for name in ("team", "theirs") if name in known}
        return (seen, (about.get("annotations") or {}).items() >= notes.items(), found["data"]) == (labels, True, data)

    uids = {kind: live(kind)["metadata"]["uid"] for kind in OURS}
    others = {"theirs": "kept"}
    about = {"labels": {"team": "stolen", **others}, "annotations": {"note": None, **others}}
    patch("ConfigMap", {"metadata": about, "data": {"a": "2", "b": None, **others}})
    served.until(
        "labels, annotations and data are as before, with what is theirs",
        lambda: config_map({"team": "ours", **others}, {"note": "ours", **others}, {"a": "1", "b": "1", **others}),
    )

    patch("Service", {"spec": {"ports": [{"port": 80, "name": "web", "targetPort": 1}, THEIRS]}}, STRATEGIC)
    web = {"name": "web", "port": 80, "protocol": "TCP", "targetPort": 8080}

    def ports() -> list[dict[str, Any]]:
        return sorted(live("Service")["spec"].get("ports", ()), key=lambda one: int(one["port"]))

    served.until("our item of the list is as before, and theirs is there", lambda: ports() == [web, THEIRS])
    patch("Service", {"spec": {"ports": [{"port": 80, "$patch": "delete"}], "selector": {"app": "b"}}}, STRATEGIC)
    served.until("an item that was taken out is in the list again", lambda: ports() == [web, THEIRS])
    served.until("so is the selector", lambda: live("Service")["spec"].get("selector") == {"app": "a"})

    patch("Role", {"rules": [RULE]})
    served.until("a list that is one value is ours as a whole", lambda: live("Role")["rules"] == OURS["Role"]["rules"])
    assert {kind: live(kind)["metadata"]["uid"] for kind in OURS} == uids, "none was made anew"

    for path in paths.values():
        assert them.again("DELETE", path) is not None
    served.until(
        "what was deleted is made anew",
        lambda: all(live(kind)["metadata"].get("uid", uid) != uid for kind, uid in uids.items()),
    )
    served.until("as git says", lambda: config_map({"team": "ours"}, {"note": "ours"}, {"a": "1", "b": "1"}))
    assert ports() == [web]
    served.until("the repairs are counted", lambda: served.metric("fleet_drift_repairs_total") >= 7)
    assert served.record(us.name)["sync"] == "Synced"
