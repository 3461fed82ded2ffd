"""A lab: its clusters are brought up, described and taken down. Every operation can be repeated at any time.

`Convergence` brings one cluster to its specification: it starts what does not run, applies the cluster's objects and
waits for its nodes. An API server grants the rights of Kubernetes' own programs a second and more after it began to
serve, so everything else happens meanwhile, in the order in which one thing needs another.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import cleanup
from fleet.lab import spec as specs
from fleet.lab.cluster import cgroups, network
from fleet.lab.cluster.addons import addons
from fleet.lab.cluster.api import Api, RequestRefusedError, save_kubeconfig
from fleet.lab.cluster.controlplane import ControlPlane, Program
from fleet.lab.cluster.node import PAUSE, Node
from fleet.lab.faults.injection import renew_all
from fleet.lab.files import explain_disk_errors, link_file, write_file
from fleet.lab.images import bake
from fleet.lab.images.archive import read_images
from fleet.lab.locks import lock_addresses, lock_existing_lab, lock_lab
from fleet.lab.planning import plan_lab
from fleet.lab.programs import packages, process
from fleet.lab.programs.binaries import Binaries
from fleet.lab.programs.launch import PATIENCE, StartedProgram, launch, wait_listening, wait_ready, wait_until
from fleet.lab.programs.process import Identity
from fleet.lab.spec import KUBERNETES, ClusterSpec, LabSpec, Nodes
from fleet.lab.status import read_nodes, read_status
from fleet.text import count_noun

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"  # no pod can be made before it is there


class Convergence:
    """The work that brings one cluster of a lab to its specification; `run` does nothing where none is left."""

    def __init__(self, lab: Lab, cluster: ClusterSpec) -> None:
        self.lab = lab
        self.cluster = cluster
        self.plane = lab.plane(cluster)
        self.nodes = lab.nodes(cluster)
        self.names = [cluster.node_name(index + 1) for index in range(cluster.workers)]
        self.running = process.running_processes(lab.directory)
        self.started: list[StartedProgram] = []
        self.cabled = False
        self.api = lab.api(cluster)

    def run(self) -> bool:
        """Bring the cluster up, and return whether there was anything to do."""
        etcd = self.plane.etcd()
        self._start(etcd)
        self._start_nodes()  # their runtimes start while the API server does
        apiserver, controllers, companions = self.plane.apiserver(), self.plane.controllers(), self.plane.companions()
        wait_listening(etcd, self.started)  # an API server that does not find it asks again a second later
        self._start(apiserver)
        objects = addons(self.cluster)
        content = orjson.dumps(objects)
        applied = self.plane.directory / "ready.json"  # the objects that it had when it was last ready
        is_unchanged = not self.started and not self.cabled
        if is_unchanged and all(program.role in self.running for program in (*controllers, *companions)):
            self._wait_ready(apiserver)
            if applied.exists() and applied.read_bytes() == content:
                return False
        self._apply_objects(objects)
        for program in companions:
            self._start(program)
        self._wait_ready(apiserver)
        for program in controllers:
            self._start(program)
        for program in (*controllers, *companions):
            self._wait_ready(program)
        for node in self.nodes:
            node.wait_for_runtime()
            self.lab.load_missing(node)
        wait_until(lambda: not self._missing_nodes(), self.started, self._describe_missing_nodes)
        wait_until(lambda: self.api.has(DEFAULT_ACCOUNT), self.started, self._describe_missing_account)
        write_file(applied, content)
        return True

    def _start(self, program: Program) -> None:
        """Start a program that does not run."""
        if program.role not in self.running:
            self.started.append(launch(self.lab.directory, program))

    def _start_nodes(self) -> None:
        """Start the nodes that do not run, and connect every node to the network."""
        for node in self.nodes:
            first = self.running.get(node.role)
            if not first:
                self._start(node.program())
            # Also of one that runs: the command that started it may have died before it had its cable.
            self.cabled |= node.cable(first.pid if first else self.started[-1].process.pid)

    def _wait_ready(self, program: Program) -> None:
        wait_ready(program, self.started, self.plane.authority.certificate_file)

    def _apply_objects(self, objects: list[dict[str, Any]]) -> None:
        """Apply objects until the API server accepts all of them.

        An API server takes objects before it is ready, but not all: what it refuses until then is no error yet.
        """
        reason = ""

        def try_apply() -> bool:
            nonlocal reason
            ready = self.api.has("/readyz")
            try:
                for manifest in objects:
                    self.api.apply(manifest)
            except ResourceError as error:
                if ready and isinstance(error, RequestRefusedError):
                    raise
                reason = str(error)
                return False
            return True

        wait_until(try_apply, self.started, lambda: f"the API server takes no objects after {PATIENCE} s: {reason}")

    def _missing_nodes(self) -> list[str]:
        """Return the names of the nodes that are not ready."""
        ready = {node["name"] for node in read_nodes(self.api) if node["ready"]}
        return [name for name in self.names if name not in ready]

    def _describe_missing_nodes(self) -> str:
        missing = self._missing_nodes()
        logs = [self.plane.log(f"{name}-{program}") for name in missing for program in ("kubelet", "containerd")]
        logs = [log for log in (*logs, self.plane.log("provisioner")) if log.exists()]
        tails = "\n".join(f"{log}:\n{process.read_tail(log)}" for log in logs)
        return f"nodes are not ready after {PATIENCE} s: {', '.join(missing)}\n{tails}"

    def _describe_missing_account(self) -> str:
        log = self.plane.log("kube-controller-manager")
        return f"no default service account after {PATIENCE} s; the end of {log}:\n{process.read_tail(log)}"


Say = Callable[[str], None]


class Lab:
    """A lab that exists. `Lab.up(...)` makes or completes one, `Lab.open(name)` finds one."""

    def __init__(self, spec: LabSpec) -> None:
        self.spec = spec
        self.directory = spec.directory
        self._binaries = Binaries(spec.kubernetes)

    @classmethod
    def open(cls, name: str) -> Lab:
        """Return an existing lab; raise NotFoundError if it does not exist."""
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
        owner: Identity | None = None,
        say: Say = lambda text: None,
    ) -> Lab:
        """Bring a lab to what the user asked for; what runs already is left alone."""
        specs.check_name(name, "lab")
        remove_orphans()
        with explain_disk_errors("starting the lab"):
            with cleanup.create_atomically(name):
                with lock_addresses():
                    spec = plan_lab(name, clusters, nodes=nodes, workers=workers, kubernetes=kubernetes, owner=owner)
                    spec.save()
                    for cluster in spec.clusters:  # from here on no other lab takes its network
                        if cluster.network:
                            network.lay_bridge(spec.id, cluster)
                lab = cls(spec)
                lab._converge(say)
            renew_all(lab)
        return lab

    def _converge(self, say: Say) -> None:
        # Everything that has to be built, before anything is started.
        for nodes in {cluster.nodes for cluster in self.spec.clusters}:
            prepare_nodes(nodes, self._binaries)
        save_kubeconfig(self.kubeconfig, [self.plane(cluster).create_authority() for cluster in self.spec.clusters])
        with ThreadPoolExecutor(len(self.spec.clusters)) as pool:
            for future in [pool.submit(self._converge_cluster, cluster, say) for cluster in self.spec.clusters]:
                future.result()

    def _converge_cluster(self, cluster: ClusterSpec, say: Say) -> None:
        if Convergence(self, cluster).run():
            say(f"{cluster.name}: ready, {count_noun(cluster.workers, f'{cluster.nodes} node')}")

    def load_missing(self, node: Node) -> None:
        """Load the images of the lab that a node does not have yet."""
        present = node.images()
        if PAUSE not in present:
            node.load(bake.bake_pause(PAUSE))
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

    def api(self, cluster: ClusterSpec) -> Api:
        return Api(self.plane(cluster).admin())

    def nodes(self, cluster: ClusterSpec) -> list[Node]:
        """Return the real nodes of a cluster; none if they are simulated."""
        plane = self.plane(cluster)
        return [Node(self.spec, plane, index + 1) for index in range(cluster.workers)] if cluster.network else []

    def kubectl(self, cluster: str, *arguments: str, input: str | None = None, timeout: float = 120) -> str:  # noqa: A002
        """Run kubectl against a cluster and return what it printed; raise ResourceError when it fails."""
        self.spec.cluster(cluster)
        command: list[str | Path] = [
            self._binaries["kubectl"],
            f"--kubeconfig={self.kubeconfig}",
            f"--context={cluster}",
            *arguments,
        ]
        try:
            child = subprocess.run(
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
        if child.returncode:
            raise ResourceError(f"`kubectl {' '.join(arguments)}` in {cluster}: {child.stderr.strip()}")
        return child.stdout

    def environment(self) -> dict[str, str]:
        """Return the environment for a shell or a client: this lab's kubeconfig, and its kubectl first on PATH."""
        tools = self._binaries["kubectl"].parent
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{tools}:{os.environ.get('PATH', '')}"}

    def load_images(self, archives: Sequence[Path]) -> list[str]:
        """Load images into every real node, keep them for nodes that come later, and return their names."""
        nodes = [node for cluster in self.spec.clusters for node in self.nodes(cluster)]
        if not nodes:
            raise ConfigurationError(
                f"lab {self.spec.name!r} has no real nodes, and simulated ones run no images",
                hint="start a lab with `--nodes real`",
            )
        names: list[str] = []
        with lock_lab(self.spec.name), explain_disk_errors("loading images"), ThreadPoolExecutor(4) as pool:
            spec = LabSpec.load(self.spec.name)
            for archive in archives:
                images = read_images(archive)
                names += images
                if all(spec.images.get(name) == identity for name, identity in images.items()):
                    continue
                for identity in images.values():
                    link_file(archive, self._archive(identity))
                list(pool.map(lambda node, archive=archive: node.load(archive), nodes))
                spec = replace(spec, images={**spec.images, **images})
                spec.save()
            self.spec = spec
        return names

    def status(self) -> dict[str, Any]:
        """Return the lab as data: what runs, where, and how much memory the control planes use."""
        return read_status(self)

    def logs(self, cluster: str) -> dict[str, Path]:
        """Return the log files of a cluster by program; those of a node are called NODE-PROGRAM."""
        directory = self.plane(self.spec.cluster(cluster)).directory / "logs"
        return {path.stem: path for path in sorted(directory.glob("*.log"))}

    def down(self) -> None:
        """Remove the lab and everything of it."""
        take_down(self.spec.name)


def prepare_nodes(nodes: Nodes, binaries: Binaries | None = None) -> None:
    """Install and build all that clusters with such nodes need; with warm caches that is nothing."""
    binaries = binaries or Binaries(KUBERNETES)
    if nodes == "real":
        packages.find_missing(packages.NODES, "real nodes")  # fail before minutes of building
    with ThreadPoolExecutor(1) as pool:
        # Packages come over the network while the processors compile; those for images with them, since real nodes
        # run little without.
        needed_packages = packages.NODES | (packages.IMAGES if packages.can_install() else {})
        installed = pool.submit(packages.require_programs, needed_packages, "real nodes") if nodes == "real" else None
        for program in ("kube-apiserver", "provisioner", *(("coredns",) if nodes == "real" else ())):
            binaries[program]
        if installed:
            installed.result()
    if nodes == "real":
        cgroups.raise_inotify_limit()
        bake.bake_pause(PAUSE)


def take_down(name: str) -> None:
    """Remove a lab and everything of it, whatever state it is in; raise NotFoundError if there is none."""
    specs.check_name(name, "lab")
    if not cleanup.find_residue(name):
        names = ", ".join(specs.list_lab_names()) or "none"
        raise NotFoundError(f"there is no lab {name!r}", hint=f"labs here: {names}")
    with explain_disk_errors("removing the lab"), lock_lab(name):
        cleanup.remove_lab(name)


def remove_orphans() -> None:
    """Remove labs whose owner, a test run for instance, ended without taking them down."""
    for name in _orphans():
        with lock_existing_lab(name) as exists:
            if exists and name in _orphans():  # it may be another one of that name meanwhile
                cleanup.remove_lab(name)


def _orphans() -> list[str]:
    """Return the names of the labs whose owner has ended."""
    return [spec.name for spec in specs.load_readable_specs() if spec.owner and not process.is_alive(spec.owner)]
