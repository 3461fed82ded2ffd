"""Where syncs are measured: API servers with their etcd, and nothing beside them that would use their time.

A lab with simulated nodes whose controllers, scheduler and node simulator are ended once it is ready: no objects of
the benchmark need them, and they would only make the figures depend on how much they happen to do meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import orjson
import psutil

from fleet.errors import ResourceError
from fleet.lab import Lab
from fleet.lab.programs.process import identify, running_processes
from tests.bench.workload import KINDS

CLUSTER = "c1"
NEEDED = ("etcd", "kube-apiserver")


@contextmanager
def api_server(*names: str) -> Iterator[Lab]:
    """One cluster, or those that are named, with the definitions of fleet's own kinds in each."""
    clusters = names or (CLUSTER,)
    lab = Lab.up(f"bench{os.getpid()}", clusters, nodes="simulated", owner=identify(os.getpid()))
    try:
        definitions = subprocess.run(
            [sys.executable, "-m", "fleet", "crds"], check=True, capture_output=True, text=True
        )
        for name in clusters:
            lab.kubectl(name, "apply", "--server-side", "-f", "-", input=definitions.stdout)
            lab.kubectl(name, "wait", "--for=condition=Established", "crd", "--all")
        ended = [
            process for role, process in running_processes(lab.directory).items() if role.split("/")[-1] not in NEEDED
        ]
        for process in ended:
            process.kill()
        psutil.wait_procs(ended, timeout=10)
        yield lab
    finally:
        lab.down()


def clear(lab: Lab, kind: str, namespace: str) -> None:
    """Remove every object of the workload and what fleet keeps about it: the next sync is a first one again."""
    paths = [path.format(namespace) for path in KINDS[kind]]
    paths += ["/api/v1/namespaces/fleet-system/configmaps"]
    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(lambda path: lab.kubectl(CLUSTER, "delete", "--raw", path, timeout=300), paths))
    for name in (namespace, "fleet-system"):
        remove_namespace(lab, name)


def remove_namespace(lab: Lab, name: str) -> None:
    """As its controller would do it: mark it, and when it is empty let it go."""
    try:
        lab.kubectl(CLUSTER, "delete", "--raw", f"/api/v1/namespaces/{name}")
    except ResourceError as problem:
        if "NotFound" in str(problem) or "not found" in str(problem):
            return
        raise
    empty = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
    path = f"/api/v1/namespaces/{name}/finalize"
    lab.kubectl(CLUSTER, "replace", "--raw", path, "-f", "-", input=orjson.dumps(empty).decode())
