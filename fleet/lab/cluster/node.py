"""A real node: containerd, kubelet and kube-proxy below one first process in namespaces of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import yaml

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab.cluster import api, cgroups, network
from fleet.lab.cluster.controlplane import ControlPlane, Program
from fleet.lab.files import write_file
from fleet.lab.programs import packages
from fleet.lab.programs.process import read_tail
from fleet.lab.spec import MOST_WORKERS, LabSpec

PAUSE = "localhost/fleet-lab/pause:1"
# Places that a node covers with its own; a lab below one of them would not find itself again.
COVERED_DIRECTORIES = ("/run", "/var/log", "/var/lib", "/proc", "/sys", "/dev")


class Node:
    """Worker `index` (from 1) of a cluster, as a real node."""

    def __init__(self, lab: LabSpec, plane: ControlPlane, index: int) -> None:
        self.lab = lab
        self.plane = plane
        self.cluster = plane.spec
        self.index = index
        self.name = self.cluster.node_name(index)
        self.directory = plane.directory / f"n{index}"

    @property
    def role(self) -> str:
        return f"{self.cluster.name}/{self.name}"

    @property
    def socket(self) -> Path:
        return self.directory / "containerd.sock"

    def program(self) -> Program:
        """Write the node's files, and return the program that is its first process."""
        if len(str(self.socket)) > 100:
            raise ConfigurationError(
                f"{self.socket} is too long for a socket's path", hint="put labs in a shorter FLEET_STATE_DIR"
            )
        covered = [directory for directory in COVERED_DIRECTORIES if self.directory.is_relative_to(directory)]
        if covered:
            raise ConfigurationError(
                f"a lab with real nodes cannot be below {covered[0]}", hint="put labs elsewhere with FLEET_STATE_DIR"
            )
        logs = self.plane.directory / "logs"
        programs = {
            "containerd": ["containerd", "--config", self._containerd()],
            "kubelet": [self.plane.binaries["kubelet"], *self._kubelet()],
            "kube-proxy": [self.plane.binaries["kube-proxy"], f"--config={self._proxy()}"],
        }
        # Also to nodes that may join later: the nodes that run get no new routes.
        other_indexes = [other for other in range(1, MOST_WORKERS + 1) if other != self.index]
        document = {
            "name": self.name,
            "address": f"{self.cluster.node_address(self.index)}/24",
            "routes": {
                "default": self.cluster.gateway,
                **{str(self.cluster.pods(other)): self.cluster.node_address(other) for other in other_indexes},
            },
            "empty": ["/run", "/var/lib"],
            "binds": {"/var/log": str(self.directory / "log")},
            "programs": {
                name: {"command": [str(part) for part in command], "log": str(logs / f"{self.name}-{name}.log")}
                for name, command in programs.items()
            },
            "environment": {"PATH": packages.SEARCH, "GOGC": "50"},
        }
        write_file(self.directory / "node.json", orjson.dumps(document, option=orjson.OPT_INDENT_2))
        namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        init: list[str | Path] = [
            sys.executable,
            "-I",
            "-S",
            Path(__file__).with_name("node_init.py"),
            self.directory / "node.json",
        ]
        command: list[str | Path] = ["unshare", *namespaces, *init]
        return Program(self.role, command, logs / f"{self.name}.log")

    def _containerd(self) -> Path:
        cni = self.directory / "cni"
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni",
                "ranges": [[{"subnet": str(self.cluster.pods(self.index))}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        conflist = {"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge, portmap]}
        write_file(cni / "10-lab.conflist", orjson.dumps(conflist))
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        lines = [
            "version = 2",
            f'root = "{self.directory / "containerd"}"',
            'state = "/run/containerd"',
            "oom_score = 0",
            'disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",'
            ' "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]',
            "[grpc]",
            f'address = "{self.socket}"',
            '[plugins."io.containerd.internal.v1.opt"]',
            f'path = "{self.directory / "opt"}"',
            f"[{cri}]",
            f'sandbox_image = "{PAUSE}"',
            "restrict_oom_score_adj = true",
            "disable_apparmor = true",
            f"[{cri}.containerd]",
            f'snapshotter = "{_choose_snapshotter(self.plane.directory)}"',
            'default_runtime_name = "runc"',
            f"[{cri}.containerd.runtimes.runc]",
            'runtime_type = "io.containerd.runc.v2"',
            f"[{cri}.containerd.runtimes.runc.options]",
            "SystemdCgroup = false",
            f"[{cri}.cni]",
            'bin_dir = "/usr/lib/cni"',
            f'conf_dir = "{cni}"',
        ]
        write_file(self.directory / "containerd.toml", "\n".join(lines) + "\n")
        return self.directory / "containerd.toml"

    def _kubelet(self) -> list[str]:
        authority = self.plane.authority
        access = self.plane.access(f"{self.name}-kubelet", f"system:node:{self.name}", ["system:nodes"])
        config = api.save_kubeconfig(self.directory / "kubelet.kubeconfig", [access])
        address = self.cluster.node_address(self.index)
        certificate, key = authority.issue(f"{self.name}-serving", self.name, addresses=[self.name, address])
        resolv = self.directory / "resolv.conf"
        write_file(resolv, "")  # names of the cluster only: a pod of the lab never asks the machine's servers
        root = self.directory / "kubelet"
        document: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority.certificate_file)},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroups.make_branch(self.lab.id, self.name),
            "clusterDNS": [self.cluster.dns],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "featureGates": {"KubeletInUserNamespace": True},
            "healthzPort": 0,
            "imageGCHighThresholdPercent": 100,
            "nodeLeaseDurationSeconds": 10,
            "nodeStatusUpdateFrequency": "2s",
            "oomScoreAdj": 0,
            "podLogsDir": str(self.directory / "pod-logs"),
            "resolvConf": str(resolv),
            "serializeImagePulls": False,
            # A pod's volumes are looked at this often: whether one shall grow, and how full it is.
            "syncFrequency": "10s",
            "volumeStatsAggPeriod": "10s",
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "volumePluginDir": str(self.directory / "volume-plugins"),
        }
        write_file(self.directory / "kubelet.yaml", yaml.safe_dump(document))
        labels = f"topology.kubernetes.io/zone=zone-{self.index}"
        return [
            f"--config={self.directory / 'kubelet.yaml'}",
            f"--kubeconfig={config}",
            f"--root-dir={root}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--hostname-override={self.name}",
            f"--node-ip={address}",
            f"--node-labels={labels}",
        ]

    def _proxy(self) -> Path:
        document = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig("kube-proxy"))},
            "mode": "iptables",
            "clusterCIDR": self.cluster.network,
            "hostnameOverride": self.name,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
            "oomScoreAdj": 0,
            "healthzBindAddress": f"{self.cluster.node_address(self.index)}:10256",
            "metricsBindAddress": "127.0.0.1:10249",
        }
        write_file(self.directory / "kube-proxy.yaml", yaml.safe_dump(document))
        return self.directory / "kube-proxy.yaml"

    def cable(self, process: int) -> bool:
        """Connect the node, whose first process this is, with the other nodes; return whether it was not connected."""
        return network.lay_cable(self.lab.id, self.cluster, self.index, process)

    def images(self) -> set[str]:
        """Return the names of the images that the node has."""
        return set(self._ctr("images", "list", "--quiet").split())

    def load(self, archive: Path) -> list[str]:
        """Import an archive, and return the names of its images that are new."""
        before = self.images()
        self._ctr("images", "import", "--all-platforms", str(archive))
        return sorted(self.images() - before)

    def wait_for_runtime(self, timeout: float = 30) -> None:
        """Wait until containerd answers; raise ResourceError if it does not in time."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._ctr("version")
            except ResourceError:
                if time.monotonic() > deadline:
                    log = self.plane.directory / "logs" / f"{self.name}-containerd.log"
                    raise ResourceError(f"containerd of {self.name} does not answer:\n{read_tail(log)}") from None
                time.sleep(0.05)
            else:
                return

    def _ctr(self, *arguments: str) -> str:
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if process.returncode:
            raise ResourceError(f"`{' '.join(command)}` failed: {process.stderr.strip()[-600:]}")
        return process.stdout


def _choose_snapshotter(directory: Path) -> str:
    """Return containerd's snapshotter for a directory.

    Layers are stacked by the kernel, except on a file system that is itself such a stack.
    """
    mount_point, kind = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        mounted_at = Path(fields.split()[4])
        if directory.is_relative_to(mounted_at) and len(mounted_at.parts) >= len(mount_point.parts):
            mount_point, kind = mounted_at, rest.split()[0]
    return "native" if kind == "overlay" else "overlayfs"
