"""An etcd as people set it up themselves, from the manifests in `setups/`, and as the app that it becomes."""

from __future__ import annotations

import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import yaml

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.found import layout
from fleet.apps.etcd.layout import Layout
from fleet.kit.credentials.certificates import Authority, Leaf
from fleet.lab.cluster.api import Api
from fleet.testing import Cluster
from fleet.testing.git import git
from fleet.testing.traffic import MemberAddress
from tests.operator.app_on_nodes import App, Object
from tests.operator.etcd.under_test import ETCD

_AS = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
SETUPS = Path(__file__).parent / "setups"


@dataclass(frozen=True)
class SetUp:
    """What is in the file of this name, and what git says of it."""

    name: str
    stateful_set: str
    adopt: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    manager: str = ""  # who applies it; kubectl, as a person does, unless given
    port: int = 2379
    host: str = "{pod}"
    tls: bool = False
    container: str = "etcd"
    claim: str = "data"
    series: str = "3.4"

    def documents(self, namespace: str, image: str = "") -> list[Object]:
        text = (SETUPS / f"{self.name}.yaml").read_text()
        image = image or ETCD.image.format(series=self.series)
        return list(yaml.safe_load_all(text.replace("@namespace@", namespace).replace("@image@", image)))

    def stateful(self, namespace: str = "default") -> Object:
        found = next(one for one in self.documents(namespace) if one["kind"] == "StatefulSet")
        return {**found, "metadata": {"namespace": namespace, **found["metadata"]}}

    def wanted(self, identity: str) -> dict[str, Any]:
        """The spec of its custom resource."""
        taken = {"takeFrom": [self.manager or "kubectl-client-side-apply"]}
        adopt = {"identity": identity, "statefulSet": self.stateful_set, **taken, **self.adopt}
        fields = {"version": self.series, "members": 3, "tls": {"enabled": self.tls}, "adopt": adopt}
        return fields | self._described() | self.spec

    def _described(self) -> dict[str, Any]:
        """How its members are set up, as an app says it."""
        documents = {(one["kind"], one["metadata"]["name"]): one.get("data") for one in self.documents("default")}
        found = self.stateful()
        read = layout(found, lambda kind, name: documents.get((kind, name)))
        assert isinstance(read, Layout), read
        fields = DRIVER.adoption_rules().describe(found, read, (), [])
        told = {name: fields[name] for name in ("storage", "resources", "config") if name in fields}
        return Etcd(self.name, namespace="default", version=self.series, **told).spec() if told else {}


SET_UPS = {
    one.name: one
    for one in (
        SetUp("plain", "etcd", {"service": "etcd"}, host="{pod}.etcd-headless"),
        SetUp("tls", "kv", {"service": "kv"}, host="{pod}.kv-peers.{namespace}.svc", tls=True),
        SetUp("ordered", "etcd", {"service": "etcd"}, host="{pod}.etcd"),
        SetUp(
            "renamed",
            "raft-store",
            {"service": "consensus-api", "port": 4379},
            port=4379,
            host="{pod}.consensus",
            container="store",
            claim="raft",
        ),
        SetUp("static", "db-etcd", {"service": "db-etcd"}, host="{pod}.db-etcd", claim="disk"),
        SetUp("sidecars", "etcd", {"service": "etcd"}, host="{pod}.etcd", container="member"),
        SetUp(
            "chart",
            "prod-etcd",
            {"service": "prod-etcd"},
            manager="helm",
            host="{pod}.prod-etcd-headless",
        ),
    )
}


@dataclass(frozen=True)
class Kept(App):
    """The app is called as its StatefulSet, and its members are those of the set-up."""

    set_up: SetUp = SET_UPS["plain"]

    def set_up_by_hand(self) -> None:
        """As its owner did, long before anybody thought of an operator; and until it serves."""
        if self.set_up.tls:
            self.cluster.apply(*self._certificates())
        if self.set_up.name == "static":
            self.cluster.apply(*self._volumes())
        text = yaml.safe_dump_all(self.set_up.documents(self.namespace))
        how = ["--server-side", f"--field-manager={self.set_up.manager}"] if self.set_up.manager else []
        self.cluster.kubectl("apply", *how, "-f", "-", input=text)
        self.wait("it serves", lambda: self.stateful()["status"].get("readyReplicas") == 3)

    def stateful(self) -> Object:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{self.set_up.stateful_set}"
        return self.api.get(path)

    def adopt(self, **more: Any) -> None:
        self.want(**{**self.set_up.wanted(self.identity), **more})

    def wait_adopted(self, seconds: float = 180.0) -> None:
        self.wait("it is taken over", lambda: self.condition("Adopted").get("status") == "True", seconds)
        self.wait_ready(seconds)

    @cached_property
    def identity(self) -> str:
        """What etcd calls its cluster, asked beside a member."""
        answer = orjson.loads(self.ctl("endpoint", "status", "--write-out=json"))
        return f"{answer[0]['Status']['header']['cluster_id']:x}"

    def ctl(self, *arguments: str, pod: str = "") -> str:
        own = ("--cacert=/certs/client/ca.crt", "--cert=/certs/client/tls.crt", "--key=/certs/client/tls.key")
        name = pod or f"{self.set_up.stateful_set}-0"
        host = self.set_up.host.format(pod=name, namespace=self.namespace)
        endpoint = f"{'https' if self.set_up.tls else 'http'}://{host}:{self.set_up.port}"
        inside = ["env", "ETCDCTL_API=3", "etcdctl", f"--endpoints={endpoint}", *(own if self.set_up.tls else ())]
        return self.cluster.kubectl("exec", name, "-c", self.set_up.container, "--", *inside, *arguments)

    def pods(self, api: Api | None = None) -> dict[str, Object]:
        found = (api or self.api).get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {one["metadata"]["name"]: one for one in found if self._is_member(one["metadata"]["name"])}

    def _is_member(self, pod: str) -> bool:
        return pod.removeprefix(f"{self.set_up.stateful_set}-").isdigit()

    def starts(self) -> dict[str, tuple[str, tuple[tuple[str, str, int], ...]]]:
        """What changes when anything in a pod is started again: its UID, and of each container when it started."""
        return {
            name: (
                pod["metadata"]["uid"],
                tuple(
                    (one["name"], one["state"].get("running", {}).get("startedAt", ""), one["restartCount"])
                    for one in sorted(pod["status"]["containerStatuses"], key=lambda one: str(one["name"]))
                ),
            )
            for name, pod in self.pods().items()
        }

    def places(self, api: Api | None = None) -> list[MemberAddress]:
        return [
            MemberAddress(
                pod["status"]["podIP"], self.set_up.host.format(pod=name, namespace=self.namespace), self.set_up.port
            )
            for name, pod in sorted(self.pods(api).items())
            if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")
        ]

    def tls(self) -> ssl.SSLContext | None:
        """As its own clients have it."""
        if not self.set_up.tls:
            return None
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        pair = self.authority.issue(Leaf("somebody", client=True))
        with tempfile.NamedTemporaryFile() as both:
            both.write(pair.cert_pem + pair.key_pem)
            both.flush()
            context.load_cert_chain(both.name)
        return context

    @cached_property
    def authority(self) -> Authority:
        return Authority.new("somebody's")

    def _certificates(self) -> list[Object]:
        hosts = tuple(self.set_up.host.format(pod=f"kv-{number}", namespace=self.namespace) for number in range(7))
        service = f"kv.{self.namespace}.svc"
        made = []
        for name, authority in (("kv-client-tls", self.authority), ("kv-peer-tls", Authority.new("peers"))):
            leaf = Leaf("kv", (*hosts, service, "localhost"), ("127.0.0.1",), server=True, client=True)
            pair = authority.issue(leaf)
            data = {"ca.crt": authority.pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
            encoded = {key: b64encode(value).decode() for key, value in data.items()}
            made.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})
        return made

    def _volumes(self) -> list[Object]:
        """A directory of a node each, bound to the claim that the StatefulSet will look for; and two to spare."""
        made: list[Object] = []
        for number in range(5):
            claim, volume = f"disk-db-etcd-{number}", f"{self.namespace}-{number}"
            node = self.cluster.node_names[number % len(self.cluster.node_names)]
            size, modes = {"storage": "256Mi"}, ["ReadWriteOnce"]
            term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            spec = {
                "capacity": size,
                "accessModes": modes,
                "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": self.namespace, "name": claim},
                "hostPath": {"path": f"/var/lib/{volume}", "type": "DirectoryOrCreate"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            }
            own = {"accessModes": modes, "storageClassName": "", "volumeName": volume, "resources": {"requests": size}}
            made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
            if number < 3:
                made.append(
                    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": own}
                )
        return made

    def leave(self) -> None:
        if self.set_up.name == "static":
            names = [f"{self.namespace}-{number}" for number in range(5)]
            self.cluster.kubectl("delete", "pv", *names, "--wait=false", "--ignore-not-found")


@dataclass(frozen=True)
class Desk:
    """A person's repository for the cluster, and the command line in it."""

    cluster: Cluster
    root: Path
    packages: Path | None = None  # where a type of others is installed

    @classmethod
    def make(cls, cluster: Cluster, root: Path, packages: Path | None = None) -> Desk:
        (root / "clusters").mkdir(parents=True)
        (root / "stacks").mkdir()
        (root / "fleet.toml").write_text(f'[fleet]\nname = "{cluster.namespace}"\n')
        (root / "clusters" / "all.py").write_text(f'import fleet\n\nfleet.Cluster("{cluster.name}")\n')
        (root / "stacks" / "empty.py").write_text("")
        git(root, "init", "--quiet", "--initial-branch=main")
        made = cls(cluster, root, packages)
        made.commit("A fleet")
        return made

    def commit(self, message: str) -> None:
        git(self.root, "add", "--all")
        git(self.root, *_AS, "commit", "--quiet", "--message", message)

    def fleet(self, *arguments: str, code: int = 0) -> str:
        """What it printed, remarks included."""
        environment = {**self.cluster.lab.environment(), "NO_COLOR": "1"}
        environment |= {"PYTHONPATH": str(self.packages)} if self.packages else {}
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
            env=environment,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
