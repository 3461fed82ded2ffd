"""Whoever is not certainly what git means is refused with the reason, by the command line and by the operator, and
nothing of it changes: etcds on real nodes in the states that are refused, each made for real.

Refusals that are a matter of what git says (another identity, version, manager …) are in `test_adopt`.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.operator import installed_rights
from tests.operator.app_on_nodes import SMALL, App, Object
from tests.operator.etcd.under_test import ETCD
from tests.operator.existing_setups import Desk

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(600)]
IMAGE = ETCD.image.format(series="3.4")
OLD = "3.3.27"  # of the length of what it replaces
AGE = f"""
was=$(etcd --version | sed -n 's/^etcd Version: //p' | sed 's/[.]/[.]/g')
LC_ALL=C sed "s/$was/{OLD}/g" /usr/bin/etcd > /old/etcd
chmod 755 /old/etcd
"""
REFUSED = {  # by StatefulSet: what the command line says, and the operator's reason and words
    "split": ("its pods are members of different clusters: split-0 of", "SplitBrain", "split-0 of"),
    "left": ("http://right-0.both:2380 is a member too", "CannotAdopt", "members of several StatefulSets"),
    "right": ("http://left-0.both:2380 is a member too", "CannotAdopt", "members of several StatefulSets"),
    "old": (f"etcd {OLD} runs, and fleet knows 3.4", "VersionOutOfRange", "etcd 3.3 runs"),
    "owned": ("it is run by ConfigMap keeper", "OwnedByAnotherOperator", "run by ConfigMap keeper"),
    "claimed": ("it belongs to the stack owner, as", "ClaimedByAnother", "belongs to the stack owner"),
    "cache": ("no process is one of: etcd", "CannotAdopt", "no container starts etcd"),
}


def _etcd(name: str, service: str, cluster: str, program: str = "/usr/bin/etcd") -> Object:
    url = f"http://$(POD_NAME).{service}"
    return {
        "name": "etcd",
        "image": IMAGE,
        "command": [program],
        "args": [
            "--name=$(POD_NAME)",
            "--data-dir=/data/etcd",
            "--listen-client-urls=http://0.0.0.0:2379",
            "--listen-peer-urls=http://0.0.0.0:2380",
            f"--advertise-client-urls={url}:2379",
            f"--initial-advertise-peer-urls={url}:2380",
            f"--initial-cluster={cluster}",
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def _set(name: str, container: Object, *, replicas: int = 1, service: str = "", **pod: Any) -> Object:
    """With a volume for each member."""
    size = {"requests": {"storage": "256Mi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}
    labels = {"app": name, "service": service or name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": service or name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **pod},
            },
            "volumeClaimTemplates": [claim],
        },
    }


def _service(name: str) -> Object:
    ports = [{"name": "client", "port": 2379}, {"name": "peer", "port": 2380}]
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"service": name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _alone(name: str) -> str:
    return f"$(POD_NAME)=http://$(POD_NAME).{name}:2380"


def _sets() -> list[Object]:
    """Pods that each began a cluster of their own; one cluster in two StatefulSets; an etcd that is too old (the real
    program, with another number in it); one whose operator lives; and something else. Another is a stack's."""
    both = "left-0=http://left-0.both:2380,right-0=http://right-0.both:2380"
    old = _etcd("old", "old", _alone("old"), "/old/etcd")
    old["volumeMounts"].append({"name": "old", "mountPath": "/old"})
    ages = {"name": "ages", "image": IMAGE, "command": ["/bin/sh", "-ec", AGE]}
    waits = ["/bin/sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"]
    return [
        _set("split", _etcd("split", "split", _alone("split")), replicas=3),
        _set("left", _etcd("left", "both", both), service="both"),
        _set("right", _etcd("right", "both", both), service="both"),
        _set(
            "old",
            old,
            initContainers=[{**ages, "volumeMounts": [{"name": "old", "mountPath": "/old"}]}],
            volumes=[{"name": "old", "emptyDir": {}}],
        ),
        _set("cache", {"name": "cache", "image": IMAGE, "command": waits}),
    ]


OWNER = """
import fleet

@fleet.stack(clusters=[{cluster!r}], namespace={namespace!r})
def owner(cluster: fleet.Cluster) -> None:
    fleet.Manifest({manifest!r})
"""


def _claimed(app: App, root: Path) -> None:
    """A manifest of a stack, which a sync of that stack made."""
    desk = Desk.make(app.cluster, root)
    manifest = _set("claimed", _etcd("claimed", "claimed", _alone("claimed")))
    where = {"cluster": app.cluster.name, "namespace": app.namespace}
    (desk.root / "stacks" / "owner.py").write_text(OWNER.format(**where, manifest=manifest))
    desk.commit("A stack of its own")
    desk.fleet("sync", "--no-wait")


def _owned(app: App) -> Object:
    """By something that is there: what nobody owns any more is collected."""
    app.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper"}})
    uid = app.cluster.get("cm", "keeper")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": uid, "controller": True}
    made = _set("owned", _etcd("owned", "owned", _alone("owned")))
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}


def _all_run(app: App) -> bool:
    found = app.api.get(f"/apis/apps/v1/namespaces/{app.namespace}/statefulsets")["items"]
    ready = {
        one["metadata"]["name"]: one["status"].get("availableReplicas") == one["spec"]["replicas"] for one in found
    }
    return ready == dict.fromkeys(REFUSED, True)


def _there(app: App) -> dict[str, str]:
    """All objects that could be touched, with their versions; of pods, which ones and how often containers started."""
    found = app.cluster.get("statefulsets,pods,pvc,services,configmaps,secrets,pdb")["items"]
    return {f"{one['kind']} {one['metadata']['name']}": _version(one) for one in found}


def _version(found: Object) -> str:
    own = found["metadata"]
    if found["kind"] != "Pod":
        return str(own["resourceVersion"])
    return f"{own['uid']}, {[one['restartCount'] for one in found['status']['containerStatuses']]}"


def _wanted(app: App, name: str) -> Object:
    """As somebody would write it who is sure of himself."""
    identity = "c1"
    if name == "old":  # its members are asked for their version only when they are those that git means
        said = app.cluster.kubectl("exec", f"{name}-0", "--", "etcdctl", "endpoint", "status", "--write-out=json")
        identity = f"{json.loads(said)[0]['Status']['header']['cluster_id']:x}"
    spec = {
        **SMALL,
        "version": "3.4",
        "members": 3 if name == "split" else 1,
        "tls": {"enabled": False},
        "adopt": {"identity": identity, "statefulSet": name, "service": name},
    }
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": {"name": f"wants-{name}"}, "spec": spec}


def _is_refused(app: App, reason: str) -> bool:
    return bool(app.condition("Blocked").get("reason") == reason)


def _written(app: App, since: int) -> set[str]:
    """Kinds of what our programs changed, or would have."""
    made = app.cluster.audit.writes(since, agent="fleet")
    return {one.resource for one in made if one.namespace == app.namespace}


def test_who_is_not_certainly_meant_is_refused_for_a_reason_and_nothing_of_it_changes(
    unattended: App, tmp_path: Path
) -> None:
    app, cluster = unattended, unattended.cluster
    cluster.images("etcd")
    cluster.apply(*map(_service, ("split", "both", "old", "owned", "claimed")), _owned(app), *_sets())
    _claimed(app, tmp_path / "theirs")
    app.operator.kubeconfig = installed_rights.installed(cluster, tmp_path)
    installed_rights.allow(cluster)
    app.operator.start()
    app.wait("all of them run", partial(_all_run, app), 180)
    desk, mark, before = Desk.make(cluster, tmp_path / "repository"), cluster.audit.mark(), _there(app)

    found = {one["statefulSet"]: one for one in json.loads(desk.fleet("adopt", "-n", cluster.namespace, "-o", "json"))}
    for name, (words, _, _) in REFUSED.items():
        assert not found[name]["manageable"]
        assert words in found[name]["problem"], found[name]

    cluster.apply(*(_wanted(app, name) for name in REFUSED))
    for name, (_, reason, words) in REFUSED.items():
        one = App(cluster, app.operator, f"wants-{name}")
        one.wait(f"{name} is refused", partial(_is_refused, one, reason), 90)
        assert words in one.condition("Blocked")["message"]
        assert one.condition("Adopted")["status"] == "False"

    cluster.kubectl("delete", "etcds", "--all")
    assert _there(app) == before
    installed_rights.forbid(cluster)
    cluster.apply(_wanted(app, "owned"))
    late = App(cluster, app.operator, "wants-owned")
    late.wait("it has no rights", partial(_is_refused, late, "NoRights"), 60)
    assert "statefulsets" in late.condition("Blocked")["message"]
    assert _there(app) == before
    assert _written(app, mark) <= {"etcds", "etcds/status", "events"}
