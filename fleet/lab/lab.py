"""A lab: bring its clusters up, say how they are, take them down. Every verb can be repeated at any time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.errors import ConfigurationError, NotFoundError, ResourceError
from fleet.lab import inotify, kubeconfig, network, packages, process, residue
from fleet.lab import spec as specs
from fleet.lab.api import Api
from fleet.lab.binaries import Binaries
from fleet.lab.controlplane import ControlPlane
from fleet.lab.converge import Convergence
from fleet.lab.faults.renewal import renew_all
from fleet.lab.files import explained, keep
from fleet.lab.images import bake
from fleet.lab.images.archive import contents
from fleet.lab.locks import choosing, if_there, locked
from fleet.lab.node import PAUSE, Node
from fleet.lab.plan import plan
from fleet.lab.process import Identity
from fleet.lab.spec import KUBERNETES, ClusterSpec, LabSpec, Nodes
from fleet.lab.status import status
from fleet.printable import count_noun

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
        owner: Identity | None = None,
        say: Say = lambda text: None,
    ) -> Lab:
        """Bring the lab to what was asked for; what runs already is left alone."""
        specs.check_name(name, "lab")
        remove_orphans()
        with explained("starting the lab"):
            with residue.whole_or_gone(name):
                with choosing():
                    spec = plan(name, clusters, nodes=nodes, workers=workers, kubernetes=kubernetes, owner=owner)
                    spec.save()
                    for cluster in spec.clusters:  # from here on its network is taken for everybody
                        if cluster.network:
                            network.lay_bridge(spec.id, cluster)
                lab = cls(spec)
                lab._converge(say)
            renew_all(lab)
        return lab

    def _converge(self, say: Say) -> None:
        # Everything that has to be built, before anything is started.
        for nodes in {cluster.nodes for cluster in self.spec.clusters}:
            prepare(nodes, self._binaries)
        kubeconfig.save(self.kubeconfig, [self.plane(cluster).found() for cluster in self.spec.clusters])
        with ThreadPoolExecutor(len(self.spec.clusters)) as pool:
            for done in [pool.submit(self._converge_cluster, cluster, say) for cluster in self.spec.clusters]:
                done.result()

    def _converge_cluster(self, cluster: ClusterSpec, say: Say) -> None:
        if Convergence(self, cluster).run():
            say(f"{cluster.name}: ready, {count_noun(cluster.workers, f'{cluster.nodes} node')}")

    def load_missing(self, node: Node) -> None:
        """Give a node the images of the lab that it has not."""
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

    def api(self, cluster: ClusterSpec) -> Api:
        return Api(self.plane(cluster).admin())

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
        packages.find_missing(packages.NODES, "real nodes")  # what cannot be had is said before minutes of building
    with ThreadPoolExecutor(1) as pool:
        # Packages come over the network while the processors compile; those for images with them, since real nodes
        # run little without.
        wanted = packages.NODES | (packages.IMAGES if packages.can_install() else {})
        installed = pool.submit(packages.require, wanted, "real nodes") if nodes == "real" else None
        for program in ("kube-apiserver", "provisioner", *(("coredns",) if nodes == "real" else ())):
            binaries[program]
        if installed:
            installed.result()
    if nodes == "real":
        inotify.allow_enough()
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
    for name in _orphans():
        with if_there(name) as there:
            if there and name in _orphans():  # it may be another one of that name meanwhile
                residue.remove(name)


def _orphans() -> list[str]:
    return [spec.name for spec in specs.all_readable() if spec.owner and not process.alive(spec.owner)]
