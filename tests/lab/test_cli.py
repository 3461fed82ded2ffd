"""`fleet lab …` as a person types it."""

from __future__ import annotations

import subprocess
import sys

import orjson
import pytest

from fleet.cli import run
from fleet.errors import NotFoundError
from fleet.testing import Cluster


def fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleet", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_kubeconfig_prints_its_path_and_nothing_else(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "kubeconfig", "--name", cluster.lab.spec.name]) == 0
    said = capfd.readouterr()
    assert said.out == f"{cluster.kubeconfig}\n"
    assert said.err == ""


def test_the_kubeconfig_has_a_context_per_cluster_named_as_the_cluster(cluster: Cluster) -> None:
    done = cluster.run("kubectl", "config", "get-contexts", "-o", "name")
    assert done.stdout.split() == [one.name for one in cluster.lab.spec.clusters]
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0


def test_status_is_data_for_programs_and_a_table_for_people(cluster: Cluster) -> None:
    name = cluster.lab.spec.name
    status = orjson.loads(fleet("status", "--name", name, "-o", "json").stdout)
    first = status["clusters"][0]
    assert status["ready"]
    assert first["ready"]
    assert {one["name"] for one in first["programs"]} >= {"etcd", "kube-apiserver", "kube-scheduler"}
    assert all(one["pid"] and one["memory"] for one in first["programs"])
    assert [node["ready"] for node in first["nodes"]] == [True] * first["workers"]
    text = fleet("status", "--name", name).stdout
    assert text.splitlines()[0].split() == ["CLUSTER", "STATE", "SERVER", "NODES", "CONTROL", "PLANE"]
    assert f"{first['workers']}/{first['workers']} simulated" in text


def test_prepare_builds_nothing_twice(cluster: Cluster) -> None:
    done = fleet("prepare", "--nodes", "simulated")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "all that labs need is there\n"


def test_list_shows_the_lab(cluster: Cluster) -> None:
    rows = orjson.loads(fleet("list", "-o", "json").stdout)
    assert {"name": cluster.lab.spec.name, "nodes": "simulated", "running": True}.items() <= next(
        row for row in rows if row["name"] == cluster.lab.spec.name
    ).items()


def test_logs_of_a_program_are_shown_and_an_unknown_one_is_named(cluster: Cluster) -> None:
    name = cluster.lab.spec.name
    assert "kube-apiserver" in fleet("logs", "--name", name).stdout.split()
    assert fleet("logs", "--name", name, "kube-apiserver", "-n", "5").stdout.count("\n") == 5
    wrong = fleet("logs", "--name", name, "nginx")
    assert wrong.returncode == NotFoundError.exit_code
    assert "there is no log of 'nginx'" in wrong.stderr
    assert "kube-apiserver" in wrong.stderr


def test_shell_runs_a_command_with_the_labs_kubectl(cluster: Cluster) -> None:
    done = fleet(
        "shell", "--name", cluster.lab.spec.name, "kubectl", "get", "namespace", cluster.namespace, "-o", "name"
    )
    assert done.stdout == f"namespace/{cluster.namespace}\n"


def test_shell_hands_on_every_word_of_a_command(cluster: Cluster) -> None:
    words = ["exec", "web-0", "--", "ls", "--name", "-l", "--"]
    done = fleet("shell", "--name", cluster.lab.spec.name, "printf", r"%s\n", *words)
    assert done.stdout.splitlines() == words


def test_anonymous_requests_are_refused_and_plain_http_too(cluster: Cluster) -> None:
    server = cluster.lab.spec.clusters[0].server
    url = f"{server}/api/v1/secrets"
    code = "import ssl, sys, urllib.request as r; c = ssl._create_unverified_context()\n"
    code += f"try: r.urlopen({url!r}, context=c)\nexcept r.HTTPError as e: print(e.code)\n"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "403\n"
    plain = url.replace("https", "http")
    code = f"import urllib.request as r\ntry: r.urlopen({plain!r})\nexcept r.HTTPError as e: print(e.code)\n"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "400\n"


def test_more_workers_join_a_running_lab_and_fewer_are_refused(cluster: Cluster) -> None:
    name, first = cluster.lab.spec.name, cluster.lab.spec.clusters[0].name
    fewer = fleet("up", "--name", name, "--clusters", first, "--workers", "1")
    assert fewer.returncode == 2
    assert "the lab takes none away" in fewer.stderr
    other = fleet("up", "--name", name, "--clusters", first, "--nodes", "real")
    assert other.returncode == 2
    assert "has simulated nodes already" in other.stderr
    workers = len(cluster.node_names)
    assert fleet("up", "--name", name, "--clusters", first, "--workers", str(workers + 1)).returncode == 0
    status = orjson.loads(fleet("status", "--name", name, "-o", "json").stdout)
    assert [node["ready"] for node in status["clusters"][0]["nodes"]] == [True] * (workers + 1)
