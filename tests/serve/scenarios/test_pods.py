"""The service and the agent as they are installed: Deployments on real nodes, with the rights of their own manifests.

Git is a private repository of a real forge, with TLS by an authority of the lab. The service reaches its cluster by a
kubeconfig in a Secret, whose user may do what its stack needs; the agent by the account of its pod.
"""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from fleet.lab.images.recipes import find_recipes
from fleet.render.operator_rights import system_namespace as home_of_fleet
from fleet.testing import Cluster, Forge
from fleet.testing.forge import Repository
from fleet.testing.git import git

pytestmark = pytest.mark.real_nodes
SYSTEM = "fleet-system"
STACK = """
import fleet

@fleet.stack(clusters="here", name={name!r})
def menu(cluster: fleet.Cluster) -> None:
    about = {{"name": "menu"}}
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {{"soup": {value!r}}}}})
"""


@dataclass
class Place:
    """A cluster, a repository that its pods can read, and somebody's clone of it."""

    cluster: Cluster
    repository: Repository
    url: str  # of it
    home: Path  # of somebody who may use it
    clone: Path

    @property
    def stack(self) -> str:
        return f"{self.cluster.namespace}-menu"

    def push(self, value: str) -> str:
        (self.clone / "stacks/menu.py").write_text(STACK.format(name=self.stack, value=value))
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "--quiet", "--message", value)
        return self.repository.push(self.clone)

    def fleet(self, *arguments: str) -> str:
        """As typed in the clone, by somebody who reaches no cluster."""
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *arguments],
            cwd=self.clone,
            env={**os.environ, "KUBECONFIG": os.devnull, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def system(self) -> Cluster:
        """The same in the namespace of fleet."""
        return replace(self.cluster, namespace=SYSTEM)

    def secret(self, name: str, **files: str) -> None:
        data = {key: b64encode(text.encode()).decode() for key, text in files.items()}
        self.system.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})

    def soup(self) -> str:
        return str(replace(self.cluster, namespace=self.stack).get("configmap", "menu")["data"]["soup"])

    def told(self, revision: str) -> bool:
        git(self.clone, "fetch", "--quiet", self.repository.url_with_token, "fleet/status")
        told = orjson.loads(git(self.clone, "show", f"FETCH_HEAD:clusters/here/{self.stack}.json"))
        return (told["revision"], told["health"], told["sync"]) == (revision, "Healthy", "Synced")

    def leader(self, lease: str) -> str:
        """The pod that has the replicas' Lease."""
        holder: str = self.system.get("lease", lease)["spec"]["holderIdentity"]
        return next(name for name in self.pods(lease) if holder.startswith(name))

    def pods(self, deployment: str) -> list[str]:
        found = self.system.get("pods", f"--selector=app.kubernetes.io/name={deployment}")["items"]
        return [pod["metadata"]["name"] for pod in found]

    def happens(self, deployment: str, what: str, *conditions: Any) -> None:
        try:
            self.cluster.wait(what, lambda: all(condition() for condition in conditions), 120)
        except AssertionError as problem:
            said = [self.system.kubectl("logs", name, "--tail=30") for name in self.pods(deployment)]
            shown = self.system.kubectl("get", "pods,events")
            raise AssertionError(f"{problem}\n{shown}\n" + "\n".join(said)) from problem


@pytest.fixture
def place(real_cluster: Cluster, forge: Forge, tmp_path: Path) -> Iterator[Place]:
    repository = forge.repository("fleet", private=True)
    clone, home = tmp_path / "clone", tmp_path / "home"
    real_cluster.images("fleet-serve")
    made = Place(real_cluster, repository, repository.url, home, repository.clone(clone))
    git(clone, "remote", "set-url", "origin", repository.url)
    for name in ("clusters", "stacks"):
        (clone / name).mkdir()
    (clone / "fleet.toml").write_text(f'[fleet]\nname = "{real_cluster.namespace}"\n')
    host = urlsplit(repository.url)
    credentials = f"https://{forge.user.name}:{forge.user.token}@{host.netloc}\n"
    files = {".git-credentials": credentials, "ca.crt": forge.certificate.read_text()}
    home.mkdir()
    for name, text in {**files, ".gitconfig": _git_configuration(str(home))}.items():
        (home / name).write_text(text)
    real_cluster.apply(home_of_fleet())
    made.secret("fleet-git", **files, **{".gitconfig": _git_configuration("/home/fleet")})
    yield made
    labels = "app.kubernetes.io/name in (fleet-serve, fleet-agent)"
    made.system.kubectl("delete", "deployments,services,roles,rolebindings,serviceaccounts", f"--selector={labels}")
    made.system.kubectl("delete", "secret", "fleet-git")
    real_cluster.kubectl("delete", "namespace", made.stack, "--wait=false", "--ignore-not-found")


def _git_configuration(home: str) -> str:
    return f"[credential]\n\thelper = store --file={home}/.git-credentials\n[http]\n\tsslCAInfo = {home}/ca.crt\n"


def _kubeconfig(place: Place) -> str:
    """Of an account that may do what the stack needs, from inside of the cluster."""
    cluster, name = place.cluster, place.cluster.namespace
    cluster.kubectl("create", "serviceaccount", "deployer")
    cluster.kubectl(
        *("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--serviceaccount={name}:deployer")
    )
    token = cluster.kubectl("create", "token", "deployer").strip()
    authority = cluster.get("configmap", "kube-root-ca.crt")["data"]["ca.crt"]
    server = {
        "server": "https://kubernetes.default.svc",
        "certificate-authority-data": b64encode(authority.encode()).decode(),
    }
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": server}],
            "users": [{"name": "here", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
            "current-context": "here",
        }
    ).decode()


def test_the_service_in_its_pods_applies_commits_and_goes_on_when_the_leader_is_killed(place: Place) -> None:
    secret = f"{place.cluster.namespace}-here"
    place.secret(secret, kubeconfig=_kubeconfig(place))
    declared = f'import fleet\n\nfleet.Cluster("here", secret="{SYSTEM}/{secret}")\n'
    (place.clone / "clusters/all.py").write_text(declared)
    first = place.push("4.50")
    image = find_recipes("fleet-serve")[0].reference
    manifests = place.fleet("serve", place.url, "--manifests", f"--image={image}", "--poll=1s")
    place.system.kubectl("apply", "--server-side", "-f", "-", input=manifests)
    try:
        place.happens("fleet-serve", "the first commit", lambda: place.soup() == "4.50", lambda: place.told(first))
        place.system.kubectl("rollout", "status", "deployment/fleet-serve", "--timeout=180s")
        leader = place.leader("fleet-serve")
        found = place.system.kubectl("exec", leader, "--", "python3", "-m", "fleet", "doctor", "-o", "json")
        assert '"level B"' in found or '"level A"' in found, "stacks are evaluated in a sandbox there, too"
        place.system.kubectl("delete", "pod", leader, "--grace-period=0", "--force")
        second = place.push("4.90")
        place.happens("fleet-serve", "the second commit", lambda: place.soup() == "4.90", lambda: place.told(second))
        assert place.leader("fleet-serve") != leader
    finally:
        place.system.kubectl("delete", "secret", secret)
        place.cluster.kubectl("delete", "clusterrolebinding", place.cluster.namespace)


def test_the_agent_in_its_pods_applies_what_was_rendered_and_goes_on_when_the_leader_is_killed(place: Place) -> None:
    (place.clone / "clusters/all.py").write_text('import fleet\n\nfleet.Cluster("here", pull=True)\n')
    first = place.push("4.50")
    place.fleet("render", "--push")
    image = find_recipes("fleet-serve")[0].reference
    asked = ("--repository", place.url, "--cluster=here", "--poll=1s", "--replicas=2")
    manifests = place.fleet("agent", *asked, "--manifests", f"--image={image}")
    place.system.kubectl("apply", "--server-side", "-f", "-", input=manifests)
    try:
        place.happens("fleet-agent", "the first set", lambda: place.soup() == "4.50", lambda: place.told(first))
        place.system.kubectl("rollout", "status", "deployment/fleet-agent", "--timeout=180s")
        leader = place.leader("fleet-agent")
        place.system.kubectl("delete", "pod", leader, "--grace-period=0", "--force")
        second = place.push("4.90")
        place.fleet("render", "--push")
        place.happens("fleet-agent", "the second set", lambda: place.soup() == "4.90", lambda: place.told(second))
        assert place.leader("fleet-agent") != leader
    finally:
        place.cluster.kubectl("delete", "clusterrolebinding", "fleet-agent")
