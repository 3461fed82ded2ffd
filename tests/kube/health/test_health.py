"""Health from data: objects as API servers show them, beside what kubectl and Argo CD say of them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kube.health import State, is_inert, judge, related_key
from fleet.objects.desired import Key
from fleet.sync.health import object_health


def thing(api: str, kind: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    generation = status.pop("generation", 2)
    found: dict[str, Any] = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "n", "generation": generation},
        "spec": spec or {},
    }
    if status:
        found["status"] = status
    return found


def conditions(**given: str) -> list[dict[str, str]]:
    """`Ready="False:Failed"` → a condition with a status, and a reason after the colon."""
    parts = {kind: value.partition(":") for kind, value in given.items()}
    return [{"type": kind, "status": status, "reason": reason} for kind, (status, _, reason) in parts.items()]


def deployment(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    full = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
    return thing("apps/v1", "Deployment", {"replicas": 3, **(spec or {})}, **{**full, **status})


def stateful(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    revisions = {"currentRevision": "a", "updateRevision": "a"}
    full = {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, **revisions}
    return thing("apps/v1", "StatefulSet", {"replicas": 3, **(spec or {})}, **{**full, **status})


def partition(number: int) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}


def pod(phase: str, policy: str = "Always", *, ready: str = "False", **container: Any) -> dict[str, Any]:
    return thing(
        "v1",
        "Pod",
        {"restartPolicy": policy},
        phase=phase,
        conditions=conditions(Ready=ready),
        containerStatuses=[{"name": "main", **container}],
    )


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": "so it is"}}


def app(**status: Any) -> dict[str, Any]:
    return thing("fleet.dev/v1alpha1", "Etcd", {"replicas": 3}, **status)


H, P, D, S, U = State.HEALTHY, State.PROGRESSING, State.DEGRADED, State.SUSPENDED, State.UNKNOWN
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
SCHEDULED: dict[str, Any] = {"observedGeneration": 2, "desiredNumberScheduled": 3}

CASES: list[tuple[str, dict[str, Any], State]] = [
    ("deployment complete", deployment(), H),
    ("deployment without status", thing("apps/v1", "Deployment", {"replicas": 1}), P),
    ("deployment not observed", deployment(observedGeneration=1), P),
    ("deployment with old pods", deployment(replicas=4), P),
    ("deployment being updated", deployment(updatedReplicas=1), P),
    ("deployment not available", deployment(availableReplicas=2), P),
    ("deployment at zero", deployment({"replicas": 0}, replicas=0, updatedReplicas=0, availableReplicas=0), H),
    ("deployment paused", deployment({"paused": True}), S),
    ("deployment stuck", deployment(conditions=conditions(Progressing="False:ProgressDeadlineExceeded")), D),
    ("stateful set complete", stateful(), H),
    ("stateful set not observed", stateful(observedGeneration=1), P),
    ("stateful set not ready", stateful(readyReplicas=2), P),
    ("stateful set rolling", stateful(updateRevision="b", updatedReplicas=1), P),
    ("stateful set held by partition", stateful(partition(3), updateRevision="b", updatedReplicas=0), H),
    ("stateful set in a partition's step", stateful(partition(1), updateRevision="b", updatedReplicas=1), P),
    ("stateful set at a partition's end", stateful(partition(1), updateRevision="b", updatedReplicas=2), H),
    ("stateful set updated on delete", stateful(ON_DELETE, updateRevision="b", updatedReplicas=0), H),
    ("daemon set complete", thing("apps/v1", "DaemonSet", **SCHEDULED, updatedNumberScheduled=3, numberAvailable=3), H),
    ("daemon set updating", thing("apps/v1", "DaemonSet", **SCHEDULED, updatedNumberScheduled=2, numberAvailable=3), P),
    ("daemon set waiting", thing("apps/v1", "DaemonSet", **SCHEDULED, updatedNumberScheduled=3, numberAvailable=1), P),
    ("replica set", thing("apps/v1", "ReplicaSet", {"replicas": 1}, observedGeneration=2, availableReplicas=1), H),
    ("replica set waiting", thing("apps/v1", "ReplicaSet", {"replicas": 1}, observedGeneration=2), P),
    (
        "replica set over quota",
        thing("apps/v1", "ReplicaSet", {}, observedGeneration=2, conditions=conditions(ReplicaFailure="True:Quota")),
        D,
    ),
    ("job running", thing("batch/v1", "Job", active=1), P),
    ("job complete", thing("batch/v1", "Job", conditions=conditions(Complete="True")), H),
    ("job failed", thing("batch/v1", "Job", conditions=conditions(Failed="True:BackoffLimitExceeded")), D),
    ("job suspended", thing("batch/v1", "Job", {"suspend": True}), S),
    ("cron job not run yet", thing("batch/v1", "CronJob"), H),
    ("cron job suspended", thing("batch/v1", "CronJob", {"suspend": True}), S),
    ("cron job failed", thing("batch/v1", "CronJob", lastScheduleTime="2026-01-02T00:00:00Z"), D),
    (
        "cron job succeeded",
        thing(
            "batch/v1", "CronJob", lastScheduleTime="2026-01-02T00:00:00Z", lastSuccessfulTime="2026-01-02T00:01:00Z"
        ),
        H,
    ),
    ("claim bound", thing("v1", "PersistentVolumeClaim", phase="Bound"), H),
    ("claim pending", thing("v1", "PersistentVolumeClaim", phase="Pending"), P),
    ("claim lost", thing("v1", "PersistentVolumeClaim", phase="Lost"), D),
    (
        "claim growing",
        thing("v1", "PersistentVolumeClaim", phase="Bound", conditions=conditions(FileSystemResizePending="True")),
        P,
    ),
    ("volume failed", thing("v1", "PersistentVolume", phase="Failed"), D),
    ("pod ready", pod("Running", ready="True"), H),
    ("pod not ready", pod("Running"), P),
    ("pod restarted", pod("Running", lastState={"terminated": {"exitCode": 1}}), D),
    ("pod in a crash loop", pod("Running", state=waiting("CrashLoopBackOff")), D),
    ("pod without image", pod("Pending", state=waiting("ErrImagePull")), D),
    ("pod with a bad image name", pod("Pending", state=waiting("InvalidImageName")), D),
    ("pod being made", pod("Pending", state=waiting("ContainerCreating")), P),
    ("pod running to its end", pod("Running", "Never", ready="True"), P),
    ("pod at its end", pod("Succeeded", "Never"), H),
    ("pod failed", pod("Failed", "Never", state={"terminated": {"exitCode": 2}}), D),
    ("service", thing("v1", "Service", {"type": "ClusterIP"}), H),
    ("load balancer waiting", thing("v1", "Service", {"type": "LoadBalancer"}, loadBalancer={}), P),
    (
        "load balancer",
        thing("v1", "Service", {"type": "LoadBalancer"}, loadBalancer={"ingress": [{"ip": "1.2.3.4"}]}),
        H,
    ),
    ("ingress waiting", thing("networking.k8s.io/v1", "Ingress", loadBalancer={}), P),
    ("ingress", thing("networking.k8s.io/v1", "Ingress", loadBalancer={"ingress": [{"hostname": "a.b"}]}), H),
    ("namespace", thing("v1", "Namespace", phase="Active"), H),
    ("namespace terminating", thing("v1", "Namespace", phase="Terminating"), P),
    (
        "definition established",
        thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions=conditions(Established="True")),
        H,
    ),
    (
        "definition with a name that is taken",
        thing(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions=conditions(NamesAccepted="False:Taken")
        ),
        D,
    ),
    ("definition fresh", thing("apiextensions.k8s.io/v1", "CustomResourceDefinition"), P),
    ("budget", thing("policy/v1", "PodDisruptionBudget", observedGeneration=2, currentHealthy=2, desiredHealthy=2), H),
    (
        "budget short",
        thing("policy/v1", "PodDisruptionBudget", observedGeneration=2, currentHealthy=1, desiredHealthy=2),
        P,
    ),
    ("autoscaler fresh", thing("autoscaling/v2", "HorizontalPodAutoscaler"), P),
    (
        "autoscaler blind",
        thing(
            "autoscaling/v2", "HorizontalPodAutoscaler", conditions=conditions(ScalingActive="False:FailedGetMetric")
        ),
        D,
    ),
    (
        "autoscaler of nothing",
        thing(
            "autoscaling/v2", "HorizontalPodAutoscaler", conditions=conditions(ScalingActive="False:ScalingDisabled")
        ),
        S,
    ),
    (
        "autoscaler",
        thing(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            conditions=conditions(AbleToScale="True", ScalingActive="True", ScalingLimited="True"),
        ),
        H,
    ),
    ("config map", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}}, H),
    ("role", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "x"}}, H),
    ("app that nobody reported on", app(), U),
    ("app ready", app(observedGeneration=2, conditions=conditions(Ready="True")), H),
    ("app with an older report", app(observedGeneration=1, conditions=conditions(Ready="True")), P),
    ("app on its way", app(observedGeneration=2, conditions=conditions(Ready="False:Bootstrapping")), P),
    ("app broken", app(observedGeneration=2, conditions=conditions(Ready="False:QuorumFailed")), D),
    ("app degraded", app(observedGeneration=2, conditions=conditions(Ready="True", Degraded="True")), D),
    ("app available", app(conditions=conditions(Available="True")), H),
    ("app healthy", app(conditions=conditions(Healthy="Unknown")), P),
    ("app stalled", app(conditions=conditions(Ready="Unknown", Stalled="True:BadSpec")), D),
    ("app paused", app(conditions=conditions(Ready="True", Paused="True")), S),
    ("app by phase", app(phase="Failed"), D),
    ("app with words of its own", app(phase="Sparkling"), H),
    ("custom resource without status", thing("x.io/v1", "Foo", {"a": 1}), H),
]


@pytest.mark.parametrize(("found", "state"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_object_is_judged(found: dict[str, Any], state: State) -> None:
    health = judge(found)
    assert health.state is state, str(health)
    assert health.message or health.state is H


FAST = Key("storage.k8s.io", "StorageClass", "", "fast")
FIRST, AT_ONCE = {"volumeBindingMode": "WaitForFirstConsumer"}, {"volumeBindingMode": "Immediate"}
NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"


@pytest.mark.parametrize(
    ("spec", "annotation", "around", "state", "words"),
    [
        ({"storageClassName": "fast"}, "", {FAST: FIRST}, H, "waits for its first consumer"),
        ({"storageClassName": "fast"}, "", {FAST: AT_ONCE}, P, "not bound to a volume yet"),
        ({"storageClassName": "fast"}, "", {FAST: {}}, P, "not bound to a volume yet"),
        ({"storageClassName": "fast"}, "", {FAST: None}, D, "StorageClass fast does not exist"),
        ({"storageClassName": "fast"}, "", {}, P, "not bound to a volume yet; StorageClass fast was not seen"),
        ({"storageClassName": "fast"}, NODE, {FAST: FIRST}, P, "not bound to a volume yet"),
        ({"storageClassName": "fast"}, PROVISIONER, {FAST: FIRST}, P, "not bound to a volume yet"),
        ({"storageClassName": "fast", "volumeName": "pv-1"}, "", {FAST: FIRST}, P, "not bound to a volume yet"),
        ({"storageClassName": ""}, "", {FAST: FIRST}, P, "not bound to a volume yet"),
        ({}, "", {FAST: FIRST}, P, "not bound to a volume yet, and it has no StorageClass"),
    ],
)
def test_a_claim_is_well_that_waits_for_its_first_consumer_and_for_nothing_else(
    spec: dict[str, str], annotation: str, around: dict[Key, Any], state: State, words: str
) -> None:
    found = thing("v1", "PersistentVolumeClaim", spec, phase="Pending")
    found["metadata"]["annotations"] = {annotation: "x"} if annotation else {}
    health = judge(found, around)
    assert (health.state, health.message) == (state, words)
    needed = FAST if not annotation and spec.get("storageClassName") and "volumeName" not in spec else None
    assert related_key(found) == needed


def test_what_is_not_there_is_missing() -> None:
    assert judge(None).state is State.MISSING


def test_what_is_being_deleted_is_on_its_way_and_says_what_holds_it() -> None:
    found = deployment()
    found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/keep"]}
    assert judge(found).state is P
    assert "x.io/keep" in judge(found).message


def test_nobody_waits_for_a_failed_job_nor_for_a_rollout_that_gave_up() -> None:
    """As `kubectl rollout status`, which fails at once: it may recover, and whoever looks later sees that."""
    assert judge(thing("batch/v1", "Job", conditions=conditions(Failed="True"))).is_settled
    assert judge(deployment(conditions=conditions(Progressing="False:ProgressDeadlineExceeded"))).is_settled
    assert not judge(deployment(availableReplicas=2)).is_settled


@pytest.mark.parametrize(
    "status",
    ["Ready", ["Ready"], 7, {"conditions": ["Ready"]}, {"conditions": {"Ready": "True"}}, {"conditions": "Ready"}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Foo", "Etcd"])
def test_a_status_of_no_known_form_says_nothing_about_health(kind: str, status: Any) -> None:
    found = {**thing("x.io/v1" if kind == "Foo" else "fleet.dev/v1alpha1", kind), "status": status}
    assert judge(found).state is U
    shown = object_health(Key("x.io", kind, "n", "x"), found, is_app=True)
    assert (shown.state, shown.version, shown.members, shown.available) == ("Unknown", "", "", "")


def test_a_spec_of_no_known_form_is_no_reason_to_fail() -> None:
    found = {**thing("x.io/v1", "Foo", conditions=conditions(Ready="True")), "spec": ["suspend"]}
    assert judge(found).state is H


@pytest.mark.parametrize(
    ("seen", "state"), [("1", P), ("2", H), (2, H), (None, H), ("a7f3", U), (True, U), (1.5, U), ({}, U)]
)
def test_a_status_about_an_older_spec_counts_for_nothing_however_the_number_is_written(seen: Any, state: State) -> None:
    ready = conditions(Ready="True")
    assert judge(thing("x.io/v1", "Foo", observedGeneration=seen, conditions=ready)).state is state
    own = [{**one, "observedGeneration": seen} for one in ready]
    assert judge(thing("x.io/v1", "Foo", conditions=own)).state is state


def test_only_what_nobody_reports_on_is_healthy_by_being_there() -> None:
    settings = thing("v1", "ConfigMap")
    assert is_inert(settings)
    assert not is_inert(None)
    assert not is_inert({**settings, "metadata": {**settings["metadata"], "deletionTimestamp": "2026-11-18T12:00:00Z"}})
    assert not is_inert(thing("example.com/v1", "Widget", phase="Ready"))
    assert not is_inert(thing("v1", "Service")), "it may wait for an address"
    assert not is_inert(deployment())
