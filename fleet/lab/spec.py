"""What a lab is.

What a lab is: names, kinds of nodes, addresses and ports, decided once and kept in lab.json.

Everything that has to stay the same over a restart of the machine is in here; nothing else is remembered.

Which version of Kubernetes a lab has: the one that is built here, or another that a person brings.
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
from fleet.lab import files
from fleet.lab.files import write
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
        """The host's end of the cluster's bridge; the API server of real nodes listens there."""
        return str(IPv4Network(self.network)[1])

    @property
    def address(self) -> str:
        return self.gateway if self.network else "127.0.0.1"

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports['kube-apiserver']}"

    @property
    def services(self) -> IPv4Network:
        network = IPv4Network(
            self.network or "127.96.0.0/16"
        )  # loopback: nothing that is asked for there leaves the machine
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
    """A lab: its clusters and the images its nodes have. `owner` ties it to a process: it dies with that."""

    name: str
    clusters: tuple[ClusterSpec, ...]
    kubernetes: str = KUBERNETES
    owner: process.Identity | None = None
    images: dict[str, str] = field(default_factory=dict)  # name → identity of the content

    @property
    def directory(self) -> Path:
        return directory(self.name)

    @property
    def id(self) -> str:
        return identity(self.name)

    def cluster(self, name: str) -> ClusterSpec:
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.clusters) or "none"
        raise NotFoundError(f"lab {self.name!r} has no cluster {name!r}", hint=f"its clusters: {known}")

    def cluster_or_first(self, name: str | None) -> ClusterSpec:
        """The cluster of that name, or the first if none is named."""
        if name:
            return self.cluster(name)
        if not self.clusters:  # a lab may have services only
            hint = f"`fleet lab up --name {self.name}` gives it one; its services: `fleet lab service list`"
            raise NotFoundError(f"lab {self.name!r} has no cluster", hint=hint)
        return self.clusters[0]

    def save(self) -> None:
        data = asdict(self)
        write(file(self.name), orjson.dumps(data, option=orjson.OPT_INDENT_2))

    @classmethod
    def load(cls, name: str) -> LabSpec:
        check_name(name, "lab")
        try:
            data = orjson.loads(file(name).read_bytes())
            clusters = tuple(ClusterSpec(**cluster) for cluster in data.pop("clusters"))
            owner = data.pop("owner")
            return cls(clusters=clusters, owner=process.known(owner) if owner else None, **data)
        except FileNotFoundError:
            known = ", ".join(all_names()) or "none yet"
            raise NotFoundError(
                f"there is no lab {name!r}", hint=f"start it with `fleet lab up --name {name}`; labs here: {known}"
            ) from None
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{file(name)} cannot be read: {error}", hint=f"`fleet lab down --name {name}` removes the lab"
            ) from None


def directory(name: str) -> Path:
    return files.labs() / name


def file(name: str) -> Path:
    """What a lab is, as JSON. It is there from before anything of the lab is started."""
    return directory(name) / "lab.json"


def identity(name: str) -> str:
    return identity_of(directory(name))


def identity_of(lab: Path) -> str:
    """A short name for what the kernel limits to fifteen characters; differs for equal names in other places."""
    return hashlib.sha256(str(lab.absolute()).encode()).hexdigest()[:6]


def all_names() -> list[str]:
    return sorted(path.name for path in files.labs().glob("*") if path.is_dir()) if files.labs().is_dir() else []


def all_readable() -> list[LabSpec]:
    """The labs that there are, but for those being made or removed just now, and damaged ones."""
    found = []
    for name in all_names():
        with contextlib.suppress(FleetError, OSError):
            found.append(LabSpec.load(name))
    return found


def check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a name for a {what}",
            hint="lower-case letters, digits and '-', at most 30, beginning with a letter",
        )


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def resolve(wanted: str | None) -> str:
    """The version that a lab gets when a person asks for this one."""
    if wanted in (None, KUBERNETES, minor_of(KUBERNETES)):
        return KUBERNETES
    # Whether the binaries there are of this version is checked when they are used.
    if os.environ.get("KUBEBUILDER_ASSETS") and re.fullmatch(r"1\.\d+(\.\d+)?", wanted):
        return wanted
    raise ConfigurationError(
        f"Kubernetes {wanted} is not among the versions that the lab builds",
        field="--kubernetes",
        hint=f"use {KUBERNETES}, or point KUBEBUILDER_ASSETS at a directory with binaries of {wanted}",
    )
