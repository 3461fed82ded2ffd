"""The public fixtures, used as a user's project uses them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import ResourceError
from fleet.testing import AuditLog, Cluster, GitRemote


def test_a_cluster_has_a_fresh_namespace_and_runs_pods(cluster: Cluster) -> None:
    assert cluster.get("pods")["items"] == []
    cluster.kubectl("create", "deployment", "web", "--image=web", "--replicas=3")
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert {pod["spec"]["nodeName"] for pod in cluster.get("pods")["items"]} <= set(cluster.node_names)


def test_clusters_are_apart(clusters: Callable[[int], list[Cluster]]) -> None:
    one, two = clusters(2)
    one.kubectl("create", "configmap", "here", "--from-literal=a=b")
    assert "here" in [item["metadata"]["name"] for item in one.get("configmaps")["items"]]
    assert "here" not in [item["metadata"]["name"] for item in two.get("configmaps")["items"]]


def test_claims_are_bound_on_simulated_nodes(cluster: Cluster) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user"},
        "spec": {"containers": [{"name": "user", "image": "none"}], "volumes": [volume]},
    }
    cluster.apply(claim, pod)
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=30s")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=30s")


def test_a_job_completes_on_simulated_nodes(cluster: Cluster) -> None:
    cluster.kubectl("create", "job", "once", "--image=none")
    cluster.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=30s")


def test_the_audit_log_counts_by_user_and_verb_with_dry_runs_apart(cluster: Cluster) -> None:
    mark = cluster.audit.mark()
    cluster.kubectl("create", "configmap", "real", "--from-literal=a=b")
    cluster.kubectl("create", "configmap", "dry", "--from-literal=a=b", "--dry-run=server")
    cluster.kubectl("get", "configmaps")
    assert cluster.audit.count(mark, user="admin")["admin", "create"] == 1
    assert cluster.audit.count(mark, user="admin", dry_run=True)["admin", "create"] == 1
    assert cluster.audit.count(mark, user="admin")["admin", "list"] == 1
    assert [request.name for request in cluster.audit.writes(mark, agent="kubectl")] == ["real"]


def test_a_deletion_that_is_only_tried_is_no_write(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    mark = cluster.audit.mark()
    cluster.kubectl("delete", "configmap", "kept", "--dry-run=server")
    cluster.kubectl("delete", "configmaps", "--all", "--dry-run=server")
    assert cluster.audit.writes(mark, user="admin") == []
    assert cluster.audit.count(mark, user="admin", dry_run=True)["admin", "delete"] >= 2
    cluster.kubectl("delete", "configmap", "kept")
    assert [(one.verb, one.name) for one in cluster.audit.writes(mark, user="admin")] == [("delete", "kept")]


def test_the_audit_log_counts_a_watch_once_and_says_whether_it_goes_on(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps?watch=1&timeoutSeconds=600"

    def watches(since: int) -> list[bool]:
        asked = cluster.audit.requests(since, user="admin", agent="kubectl")
        return [one.is_over for one in asked if one.verb == "watch" and one.namespace == cluster.namespace]

    mark = cluster.audit.mark()
    command = ["kubectl", f"--context={cluster.name}", "get", "--raw", path]
    watching = subprocess.Popen(command, env=cluster.lab.environment(), stdout=subprocess.DEVNULL)
    cluster.wait("it watches", lambda: watches(mark) == [False])
    later = cluster.audit.mark()
    watching.kill()
    watching.wait()
    cluster.wait("the watch is over", lambda: watches(mark) == [True])
    assert watches(later) == [], "it was asked for before"


def test_a_git_remote_takes_a_push(git_remote: GitRemote, tmp_path: Path) -> None:
    from fleet.testing.git import git

    clone = git_remote.clone(tmp_path / "clone")
    (clone / "file").write_text("content")
    git(clone, "add", "file")
    git(clone, "commit", "--quiet", "--message=first")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    assert git_remote.git("show", "main:file") == "content"


def test_a_mark_of_an_audit_log_that_was_begun_anew_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert log.requests() == []
    log.path.write_text("{}\n" * 10)
    mark = log.mark()
    assert log.writes(mark) == []
    log.path.write_text("")
    with pytest.raises(ResourceError, match="the mark is at 30: a new log was begun in between"):
        log.writes(mark)
