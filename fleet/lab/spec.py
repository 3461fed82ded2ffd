"""Specification of a lab: names, kinds of nodes, addresses, ports and the version of Kubernetes, kept in lab.json.

They are decided once. Everything that has to stay the same over a restart of the machine is in here; nothing else is
kept. A lab has the version of Kubernetes that is built here, or another whose binaries the user brings.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

import orjson

from fleet.errors import ConfigurationError, FleetError, NotFoundError
from fleet.lab.files import labs_directory, write_file
from fleet.lab.programs import process

Nodes = Literal["real", "simulated"]
KUBERNETES = "1.36.3"
MOST_WORKERS = 200  # of a cluster: its /16 has no more room for pods
NAME = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: its own certificate authority, control plane, network and nodes."""

    name: str
    nodes: Nodes
    workers: int
    ports: dict[str, int]  # of the control plane's programs, on loopback
    network: str = ""  # a /16 of its own for nodes, pods and services; "" without real nodes

    @property
    def gateway(self) -> str:
        """Return the host's end of the cluster's bridge; the API server of real nodes listens there."""
        return str(IPv4Network(self.network)[1])

    @property
    def address(self) -> str:
        return self.gateway if self.network else "127.0.0.1"

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports['kube-apiserver']}"

    @property
    def services(self) -> IPv4Network:
        network = IPv4Network(self.network or "127.96.0.0/16")  # loopback: no request leaves the machine
        return list(network.subnets(new_prefix=20))[-1]

    @property
    def dns(self) -> str:
        return str(self.services[10])

    def node_name(self, index: int) -> str:
        return f"{self.name}-node-{index}"

    def node_address(self, index: int) -> str:
        return str(IPv4Network(self.network)[10 + index])

    def pods(self, index: int) -> IPv4Network:
        return list(IPv4Network(self.network).subnets(new_prefix=24))[16 + index]


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A lab: its clusters and the images its nodes have. `owner` ties it to a process: it ends with that process."""

    name: str
    clusters: tuple[ClusterSpec, ...]
    kubernetes: str = KUBERNETES
    owner: process.Identity | None = None
    images: dict[str, str] = field(default_factory=dict)  # name → identity of the content

    @property
    def directory(self) -> Path:
        return lab_directory(self.name)

    @property
    def id(self) -> str:
        return lab_identity(self.name)

    def cluster(self, name: str) -> ClusterSpec:
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        names = ", ".join(cluster.name for cluster in self.clusters) or "none"
        raise NotFoundError(f"lab {self.name!r} has no cluster {name!r}", hint=f"its clusters: {names}")

    def cluster_or_first(self, name: str | None) -> ClusterSpec:
        """Return the cluster of that name, or the first if the user named none."""
        if name:
            return self.cluster(name)
        if not self.clusters:  # a lab may have services only
            hint = f"`fleet lab up --name {self.name}` gives it one; its services: `fleet lab service list`"
            raise NotFoundError(f"lab {self.name!r} has no cluster", hint=hint)
        return self.clusters[0]

    def save(self) -> None:
        data = asdict(self)
        write_file(spec_file(self.name), orjson.dumps(data, option=orjson.OPT_INDENT_2))

    @classmethod
    def load(cls, name: str) -> LabSpec:
        """Read a lab's specification; raise NotFoundError if there is none, ConfigurationError if it is damaged."""
        check_name(name, "lab")
        try:
            data = orjson.loads(spec_file(name).read_bytes())
            clusters = tuple(ClusterSpec(**cluster) for cluster in data.pop("clusters"))
            owner = data.pop("owner")
            return cls(clusters=clusters, owner=process.parse_identity(owner) if owner else None, **data)
        except FileNotFoundError:
            names = ", ".join(list_lab_names()) or "none yet"
            raise NotFoundError(
                f"there is no lab {name!r}", hint=f"start it with `fleet lab up --name {name}`; labs here: {names}"
            ) from None
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{spec_file(name)} cannot be read: {error}", hint=f"`fleet lab down --name {name}` removes the lab"
            ) from None


def lab_directory(name: str) -> Path:
    return labs_directory() / name


def spec_file(name: str) -> Path:
    """Return the file of a lab's specification. It exists before anything of the lab is started."""
    return lab_directory(name) / "lab.json"


def lab_identity(name: str) -> str:
    return directory_identity(lab_directory(name))


def directory_identity(lab: Path) -> str:
    """Return a short name for what the kernel limits to fifteen characters.

    It differs for labs of equal names in different directories.
    """
    return hashlib.sha256(str(lab.absolute()).encode()).hexdigest()[:6]


def list_lab_names() -> list[str]:
    """Return the names of the labs on this machine, damaged ones included."""
    root = labs_directory()
    return sorted(path.name for path in root.glob("*") if path.is_dir()) if root.is_dir() else []


def load_readable_specs() -> list[LabSpec]:
    """Load the specifications of all labs but damaged ones and those that are being made or removed."""
    specs = []
    for name in list_lab_names():
        with contextlib.suppress(FleetError, OSError):
            specs.append(LabSpec.load(name))
    return specs


def check_name(name: str, thing: str) -> None:
    """Raise ConfigurationError if a name is not one for a lab or a cluster."""
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a name for a {thing}",
            hint="lower-case letters, digits and '-', at most 30, beginning with a letter",
        )


def minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def resolve_version(version: str | None) -> str:
    """Return the version that a lab gets when the user asks for this one; raise ConfigurationError if it cannot."""
    if version in (None, KUBERNETES, minor_version(KUBERNETES)):
        return KUBERNETES
    # Whether the binaries there are of this version is checked when they are used.
    if os.environ.get("KUBEBUILDER_ASSETS") and re.fullmatch(r"1\.\d+(\.\d+)?", version):
        return version
    raise ConfigurationError(
        f"Kubernetes {version} is not among the versions that the lab builds",
        field="--kubernetes",
        hint=f"use {KUBERNETES}, or point KUBEBUILDER_ASSETS at a directory with binaries of {version}",
    )
