"""A lab: bring its clusters up, say how they are, take them down. Every verb can be repeated at any time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import kubeconfig, network, packages, process, residue
from fleet.lab import spec as specs
from fleet.lab.addons import addons
from fleet.lab.binaries import Binaries
from fleet.lab.controlplane import ControlPlane
from fleet.lab.files import explained, keep, write
from fleet.lab.images import bake
from fleet.lab.images.archive import contents
from fleet.lab.launch import PATIENCE, launch, wait_ready
from fleet.lab.locks import choosing, locked
from fleet.lab.node import PAUSE, Node
from fleet.lab.plan import plan
from fleet.lab.spec import KUBERNETES, ClusterSpec, LabSpec, Nodes
from fleet.lab.status import node_status, status

Say = Callable[[str], None]


class Lab:
    """A lab that exists. `Lab.up(...)` makes or completes one, `Lab.open(name)` finds one."""

    def __init__(self, spec: LabSpec) -> None:
        self.spec = spec
        self.directory = spec.directory
        self._binaries = Binaries(spec.kubernetes)

    @classmethod
    def open(cls, name: str) -> Lab:
        return cls(LabSpec.load(name))

    @classmethod
    def up(
        cls,
        name: str = "default",
        clusters: Sequence[str] = (),
        *,
        nodes: Nodes | None = None,
        workers: int | None = None,
        kubernetes: str | None = None,
        owner: tuple[int, float] | None = None,
        say: Say = lambda text: None,
    ) -> Lab:
        """Bring the lab to what was asked for; what runs already is left alone."""
        specs.check_name(name, "lab")
        remove_orphans()
        with explained("starting the lab"):
            existed = specs.directory(name).exists()
            with locked(name):
                try:
                    with choosing():
                        spec = plan(name, clusters, nodes=nodes, workers=workers, kubernetes=kubernetes, owner=owner)
                        spec.save()
                    lab = cls(spec)
                    lab._converge(say)
                except BaseException:
                    # A lab that was just begun leaves nothing half-made; one that was there before stays as it is.
                    if not existed:
                        residue.remove(name)
                    raise
        return lab

    def _converge(self, say: Say) -> None:
        # Everything that has to be built, before anything is started.
        for nodes in {cluster.nodes for cluster in self.spec.clusters}:
            prepare(nodes, self._binaries)
        kubeconfig.save(self.kubeconfig, [self.plane(cluster).admin() for cluster in self.spec.clusters])
        with ThreadPoolExecutor(len(self.spec.clusters)) as pool:
            for done in [pool.submit(self._converge_cluster, cluster, say) for cluster in self.spec.clusters]:
                done.result()

    def _converge_cluster(self, cluster: ClusterSpec, say: Say) -> None:
        plane = self.plane(cluster)
        running = process.running(self.directory)
        if cluster.network:
            network.lay_bridge(self.spec.id, cluster)
        programs = plane.programs()
        core = [program for program in programs if program.role.endswith(("/etcd", "/kube-apiserver"))]
        nodes = self.nodes(cluster)
        started = [launch(self.directory, program) for program in core if program.role not in running]
        for node in nodes:  # their runtimes start while the API server does
            if node.role not in running:
                child = launch(self.directory, node.program())
                node.cable(child.process.pid)
                started.append(child)
        for program in core:
            wait_ready(program, started, plane.authority.certificate_file)
        # The others end when they find no API server, so they come after it.
        started += [launch(self.directory, one) for one in programs if one not in core and one.role not in running]
        objects = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": addons(cluster)}).decode()
        ready = plane.directory / "ready.json"  # what the cluster was given when it was last ready
        if not started and ready.exists() and ready.read_text() == objects:
            return
        # Rights of the lab's own programs are among these; some are not ready before they have them.
        self.kubectl(cluster.name, "apply", "--server-side", "--force-conflicts", "-f", "-", input=objects)
        for program in programs:
            wait_ready(program, started, plane.authority.certificate_file)
        for node in nodes:
            node.wait_for_runtime()
            self._load_missing(node)
        names = [cluster.node_name(index + 1) for index in range(cluster.workers)]
        self._wait_for_nodes(cluster, names)
        self.kubectl(cluster.name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        write(ready, objects)
        say(f"{cluster.name}: ready, {len(names)} {cluster.nodes} node{'s' * (len(names) != 1)}")

    def _wait_for_nodes(self, cluster: ClusterSpec, names: list[str]) -> None:
        if names and not cluster.network:  # they exist: one command waits for all, where asking again costs CPU
            objects = [f"node/{name}" for name in names]
            self.kubectl(cluster.name, "wait", "--for=condition=Ready", *objects, f"--timeout={PATIENCE}s")
            return
        deadline = time.monotonic() + PATIENCE
        while missing := set(names) - {node["name"] for node in node_status(self, cluster) if node["ready"]}:
            if time.monotonic() > deadline:
                logs = [
                    self.plane(cluster).log(f"{name}-{program}")
                    for name in missing
                    for program in ("kubelet", "containerd")
                ]
                tails = "\n".join(f"{log}:\n{process.tail(log)}" for log in logs if log.exists())
                raise ResourceError(f"nodes are not ready after {PATIENCE} s: {', '.join(sorted(missing))}\n{tails}")
            time.sleep(0.2)

    def _load_missing(self, node: Node) -> None:
        present = node.images()
        if PAUSE not in present:
            node.load(bake.pause(PAUSE))
        for reference, identity in self.spec.images.items():
            if reference not in present:
                node.load(self._archive(identity))

    def _archive(self, identity: str) -> Path:
        return self.directory / "images" / f"{identity}.tar"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def plane(self, cluster: ClusterSpec) -> ControlPlane:
        return ControlPlane(cluster, self.directory / cluster.name, self._binaries)

    def nodes(self, cluster: ClusterSpec) -> list[Node]:
        """The real nodes of a cluster; none if they are simulated."""
        plane = self.plane(cluster)
        return [Node(self.spec, plane, index + 1) for index in range(cluster.workers)] if cluster.network else []

    def kubectl(self, cluster: str, *arguments: str, input: str | None = None, timeout: float = 120) -> str:  # noqa: A002
        """Run kubectl against a cluster and return what it printed."""
        self.spec.cluster(cluster)
        command: list[str | Path] = [
            self._binaries["kubectl"],
            f"--kubeconfig={self.kubeconfig}",
            f"--context={cluster}",
            *arguments,
        ]
        try:
            done = subprocess.run(
                command,
                input=input,
                check=False,
                capture_output=True,
                text=True,
                timeout=timeout,
                env=self.environment(),
            )
        except subprocess.TimeoutExpired:
            raise ResourceError(f"`kubectl {' '.join(arguments)}` did not end within {timeout:g} s") from None
        if done.returncode:
            raise ResourceError(f"`kubectl {' '.join(arguments)}` in {cluster}: {done.stderr.strip()}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """For a shell or a client: this lab's kubeconfig, and its kubectl first on PATH."""
        tools = self._binaries["kubectl"].parent
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{tools}:{os.environ.get('PATH', '')}"}

    def load_images(self, archives: Sequence[Path]) -> list[str]:
        """Give every real node these images, and keep them for nodes that come later; returns their names."""
        nodes = [node for cluster in self.spec.clusters for node in self.nodes(cluster)]
        if not nodes:
            raise ConfigurationError(
                f"lab {self.spec.name!r} has no real nodes, and simulated ones run no images",
                hint="start a lab with `--nodes real`",
            )
        names: list[str] = []
        with locked(self.spec.name), explained("loading images"), ThreadPoolExecutor(4) as pool:
            spec = LabSpec.load(self.spec.name)
            for archive in archives:
                found = contents(archive)
                names += found
                if all(spec.images.get(name) == identity for name, identity in found.items()):
                    continue
                for identity in found.values():
                    keep(archive, self._archive(identity))
                list(pool.map(lambda node, archive=archive: node.load(archive), nodes))
                spec = replace(spec, images={**spec.images, **found})
                spec.save()
            self.spec = spec
        return names

    def status(self) -> dict[str, Any]:
        """The lab as data: what runs, where, and how much memory the control planes use."""
        return status(self)

    def logs(self, cluster: str) -> dict[str, Path]:
        """The log files of a cluster by program; those of a node are called NODE-PROGRAM."""
        directory = self.plane(self.spec.cluster(cluster)).directory / "logs"
        return {path.stem: path for path in sorted(directory.glob("*.log"))}

    def down(self) -> None:
        down(self.spec.name)


def prepare(nodes: Nodes, binaries: Binaries | None = None) -> None:
    """Install and build whatever clusters with such nodes need; with warm caches that is nothing."""
    binaries = binaries or Binaries(KUBERNETES)
    if nodes == "real":
        packages.require(packages.NODES, "real nodes")
    for program in ("kube-apiserver", "provisioner", "coredns" if nodes == "real" else "kwok"):
        binaries[program]
    if nodes == "real":
        bake.pause(PAUSE)


def down(name: str) -> None:
    """Remove a lab and everything of it, whatever state it is in."""
    specs.check_name(name, "lab")
    if not residue.find(name):
        known = ", ".join(specs.all_names()) or "none"
        raise NotFoundError(f"there is no lab {name!r}", hint=f"labs here: {known}")
    with explained("removing the lab"), locked(name):
        residue.remove(name)


def remove_orphans() -> None:
    """Remove labs whose owner, a test run for instance, is gone without taking them down."""
    for name in specs.all_names():
        try:
            spec = LabSpec.load(name)
        except (NotFoundError, ConfigurationError):
            continue
        if spec.owner and not process.alive(spec.owner):
            with locked(name):
                residue.remove(name)
