"""The programs of one cluster's control plane: their certificates, files and command lines. Pure but for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from fleet.lab.cluster import api
from fleet.lab.cluster.api import ClusterAccess
from fleet.lab.cluster.certificates import LabAuthority
from fleet.lab.files import write_file
from fleet.lab.programs import packages
from fleet.lab.programs.binaries import Binaries
from fleet.lab.spec import ClusterSpec

PROGRAMS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        # Few are written, and the content of the request tells whether pods had to restart for it.
        {
            "level": "Request",
            "verbs": ["update", "patch"],
            "resources": [{"group": "apps", "resources": ["statefulsets"]}],
        },
        # Whether a deletion is a dry-run is in its body.
        {"level": "Request", "verbs": ["delete", "deletecollection"]},
        {"level": "Metadata"},
    ],
}
ENDPOINT_CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
ADMIN = "admin"
# Go keeps twice the live heap by default; several control planes share one machine here.
LOW_MEMORY = {"GOGC": "50"}


def program_names(cluster: ClusterSpec) -> tuple[str, ...]:
    """Return the names of the programs that run beside a cluster's nodes."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "provisioner")
    return (*names, "coredns") if cluster.network else names


@dataclass(frozen=True, slots=True)
class Program:
    """A process of the lab: its command, and where it reports that it is ready ("" when no command waits for it)."""

    role: str
    command: Sequence[str | Path]
    log: Path
    health: str = ""
    port: tuple[str, int] | None = None
    environment: dict[str, str] = field(default_factory=dict)


class ControlPlane:
    """One cluster's control plane below `directory`."""

    def __init__(self, spec: ClusterSpec, directory: Path, binaries: Binaries) -> None:
        self.spec = spec
        self.directory = directory
        self.binaries = binaries
        self.authority = LabAuthority(directory / "pki")

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit" / "audit.log"

    def log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"

    def create_authority(self) -> ClusterAccess:
        """Make what precedes any program, an authority and its administrator, and return the access."""
        self.authority.make()
        return self.access(ADMIN, ADMIN, ["system:masters"])

    def admin(self) -> ClusterAccess:
        """Return the administrator's access; its files exist once the authority was made."""
        return self._access(*self.authority.pair(ADMIN))

    def access(self, file: str, user: str, groups: Sequence[str] = ()) -> ClusterAccess:
        """Issue a user's certificate, and return the access with it."""
        return self._access(*self.authority.issue(file, user, groups=groups))

    def _access(self, certificate: Path, key: Path) -> ClusterAccess:
        return ClusterAccess(self.spec.name, self.spec.server, self.authority.certificate_file, certificate, key)

    def kubeconfig(self, program: str, user: str = "") -> Path:
        access = self.access(program, user or f"system:{program}")
        return api.save_kubeconfig(self.directory / f"{program}.kubeconfig", [access])

    def controllers(self) -> list[Program]:
        """Return the programs of Kubernetes that get their rights from an API server that is ready."""
        return [self._controller_manager(), self._scheduler()]

    def companions(self) -> list[Program]:
        """Return the programs of the lab; their rights are among the lab's objects."""
        return [self._provisioner(), *([self._coredns()] if self.spec.network else [])]

    def _program(
        self, name: str, flags: dict[str, object], health: str = "", address: str = "127.0.0.1", **environment: str
    ) -> Program:
        command: list[str | Path] = [self.binaries[name], *(f"--{flag}={value}" for flag, value in flags.items())]
        port = self.spec.ports.get(name)
        url = f"https://{address}:{port}{health}" if health else ""
        role = f"{self.spec.name}/{name}"
        return Program(role, command, self.log(name), url, (address, port) if port else None, environment)

    def etcd(self) -> Program:
        certificate, key = self.authority.issue("etcd", "etcd", addresses=["127.0.0.1", "localhost"])
        client = f"https://127.0.0.1:{self.spec.ports['etcd']}"
        peer = f"https://127.0.0.1:{self.spec.ports['etcd-peer']}"
        flags: dict[str, object] = {
            "name": self.spec.name,
            "data-dir": self.directory / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"{self.spec.name}={peer}",
            "client-cert-auth": "true",
            "trusted-ca-file": self.authority.certificate_file,
            "cert-file": certificate,
            "key-file": key,
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": self.authority.certificate_file,
            "peer-cert-file": certificate,
            "peer-key-file": key,
            "unsafe-no-fsync": "true",  # a lab may lose its last second with the machine, and is much faster for it
            # Its only member elects itself, after up to two of these times; a second is usual.
            "election-timeout": 250,
            "heartbeat-interval": 50,
            "auto-compaction-retention": "5m",
            "quota-backend-bytes": 8 << 30,
            "log-level": "warn",
        }
        return self._program("etcd", flags)

    def apiserver(self) -> Program:
        spec, authority = self.spec, self.authority
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        addresses = [*names, "localhost", "127.0.0.1", str(spec.services[1]), spec.address]
        certificate, key = authority.issue("kube-apiserver", "kube-apiserver", addresses=list(dict.fromkeys(addresses)))
        etcd_certificate, etcd_key = authority.issue("apiserver-etcd", "kube-apiserver")
        kubelet_certificate, kubelet_key = authority.issue(
            "apiserver-kubelet", "kube-apiserver", groups=["system:masters"]
        )
        proxy_certificate, proxy_key = authority.issue("front-proxy", "front-proxy")
        public, signing = authority.signing_pair("service-accounts")
        policy = self.directory / "audit-policy.yaml"
        write_file(policy, yaml.safe_dump(AUDIT_POLICY))
        self.audit_log.parent.mkdir(parents=True, exist_ok=True)
        flags: dict[str, object] = {
            "bind-address": spec.address,
            "advertise-address": spec.address,
            "secure-port": spec.ports["kube-apiserver"],
            "permit-port-sharing": "true",  # with the proxy of faults
            "etcd-servers": f"https://127.0.0.1:{spec.ports['etcd']}",
            "etcd-cafile": authority.certificate_file,
            "etcd-certfile": etcd_certificate,
            "etcd-keyfile": etcd_key,
            "tls-cert-file": certificate,
            "tls-private-key-file": key,
            "client-ca-file": authority.certificate_file,
            "kubelet-certificate-authority": authority.certificate_file,
            "kubelet-client-certificate": kubelet_certificate,
            "kubelet-client-key": kubelet_key,
            "kubelet-preferred-address-types": "InternalIP",
            "proxy-client-cert-file": proxy_certificate,
            "proxy-client-key-file": proxy_key,
            "requestheader-client-ca-file": authority.certificate_file,
            "requestheader-allowed-names": "front-proxy",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": public,
            "service-account-signing-key-file": signing,
            "service-cluster-ip-range": spec.services,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "audit-policy-file": policy,
            "audit-log-path": self.audit_log,
            "audit-log-maxsize": 1000,
            "audit-log-maxbackup": 2,
            "profiling": "false",
            # A node that lost its network must not keep watches open for minutes after it is back.
            "min-request-timeout": 300,
        }
        if not spec.network:
            flags["endpoint-reconciler-type"] = "none"  # loopback is no address for an Endpoints object
        return self._program("kube-apiserver", flags, "/readyz", spec.address)

    def _controller_manager(self) -> Program:
        flags = self._controller("kube-controller-manager") | {
            "root-ca-file": self.authority.certificate_file,
            "cluster-signing-cert-file": self.authority.certificate_file,
            "cluster-signing-key-file": self.authority.key_file,
            "service-account-private-key-file": self.authority.signing_pair("service-accounts")[1],
            "use-service-account-credentials": "true",
            "allocate-node-cidrs": "false",
            # Each controller gets an account and a token; with the usual twenty requests a second that takes five.
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
        }
        if not self.spec.network:  # of loopback, where simulated pods have theirs, no address may be an endpoint's
            flags["controllers"] = ",".join(("*", *(f"-{name}" for name in ENDPOINT_CONTROLLERS)))
        if self.spec.network:  # a lost node is noticed in a quarter of a minute, so that tests of it are short
            flags |= {"node-monitor-grace-period": "16s", "node-monitor-period": "2s"}
        return self._program("kube-controller-manager", flags, "/healthz", **LOW_MEMORY)

    def _scheduler(self) -> Program:
        return self._program("kube-scheduler", self._controller("kube-scheduler"), "/healthz", **LOW_MEMORY)

    def _controller(self, name: str) -> dict[str, object]:
        """Return the flags that the programs share which only talk to the API server."""
        config = self.kubeconfig(name)
        certificate, key = self.authority.issue(f"{name}-serving", name, addresses=["127.0.0.1", "localhost"])
        return {
            "bind-address": "127.0.0.1",
            "secure-port": self.spec.ports[name],
            "tls-cert-file": certificate,
            "tls-private-key-file": key,
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            # Told, not looked up in the cluster when it starts: one that is slow to answer then ends the program.
            "client-ca-file": self.authority.certificate_file,
            "authentication-skip-lookup": "true",
            "leader-elect": "false",
            "profiling": "false",
        }

    def _provisioner(self) -> Program:
        flags: dict[str, object] = {
            "kubeconfig": self.kubeconfig("fleet-lab-provisioner"),
            "root": self.directory / "volumes",
            "simulated": "false" if self.spec.network else "true",
        }
        return self._program("provisioner", flags, PATH=packages.SEARCH, **LOW_MEMORY)

    def _coredns(self) -> Program:
        health = f"127.0.0.1:{self.spec.ports['coredns']}"
        corefile = self.directory / "Corefile"
        lines = [
            "cluster.local in-addr.arpa {",
            f"    bind {self.spec.gateway}",
            "    errors",
            f"    ready {health}",
            "    kubernetes cluster.local in-addr.arpa {",
            f"        kubeconfig {self.kubeconfig('fleet-lab-coredns')} {self.spec.name}",
            "        pods verified",
            "        ttl 1",
            "    }",
            "}",
        ]
        write_file(corefile, "\n".join(lines) + "\n")
        role, command = f"{self.spec.name}/coredns", (self.binaries["coredns"], "-conf", corefile)
        return Program(role, command, self.log("coredns"), f"http://{health}/ready", environment=LOW_MEMORY)
