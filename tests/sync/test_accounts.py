"""A fleet that has no rights but to act in the name of stacks' accounts, and to keep its own books."""

from __future__ import annotations

from pathlib import Path

import yaml

from fleet.testing import Cluster
from tests.sync.fleet_repository import FleetRepository, config_map

STACK = """
import fleet

@fleet.stack(
    clusters={clusters!r}, name={name!r}, rollout=fleet.Rollout(waves={clusters!r}, soak="1s")
)
def stack(cluster: fleet.Cluster) -> None:
    {body}
"""


def narrow_kubeconfig(repository: FleetRepository, space: str, path: Path) -> Path:
    """Of somebody who may impersonate the stack's account, and use ConfigMaps and Leases of fleet-system."""
    config = yaml.safe_load(repository.clusters[0].kubeconfig.read_text())
    users = {one["name"]: one["context"]["user"] for one in config["contexts"]}
    for cluster in repository.clusters:
        token = _narrow_token(cluster, space, repository.stack)
        for one in config["users"]:
            if one["name"] == users[cluster.context]:
                one["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


def _narrow_token(cluster: Cluster, space: str, stack: str) -> str:
    account, who = f"--serviceaccount={space}:{stack}", f"--serviceaccount={space}:narrow"
    cluster.kubectl("create", "namespace", space)
    here = ("-n", space)
    for name in (stack, "narrow"):
        cluster.kubectl(*here, "create", "serviceaccount", name)
    verbs = "--verb=get,list,watch,create,patch,update,delete"
    cluster.kubectl(*here, "create", "role", "maps", verbs, "--resource=configmaps")
    cluster.kubectl(*here, "create", "rolebinding", "maps", "--role=maps", account)
    acts = ("--verb=impersonate", "--resource=serviceaccounts", f"--resource-name={stack}")
    cluster.kubectl(*here, "create", "role", "acts", *acts)
    cluster.kubectl(*here, "create", "rolebinding", "acts", "--role=acts", who)
    system = ("-n", "fleet-system")
    books = ("--resource=configmaps", "--resource=leases.coordination.k8s.io")
    cluster.kubectl(*system, "create", "role", space, verbs, *books)
    cluster.kubectl(*system, "create", "rolebinding", space, f"--role={space}", who)
    return cluster.kubectl(*here, "create", "token", "narrow").strip()


def test_a_sync_by_somebody_who_may_only_act_as_the_accounts_of_stacks(
    repository: FleetRepository, tmp_path: Path
) -> None:
    space = f"{repository.stack}-x"
    names = [one.name for one in repository.clusters]
    for cluster in repository.clusters:
        if "fleet-system" not in cluster.kubectl("get", "namespaces", "-o", "name"):
            cluster.kubectl("create", "namespace", "fleet-system")
    try:
        narrow = narrow_kubeconfig(repository, space, tmp_path / "narrow")
        repository.monkeypatch.setenv("KUBECONFIG", str(narrow))
        repository.write("fleet.toml", f'[trust]\naccount = "{space}/{{stack}}"\n')
        for number in ("1", "2"):
            mine = config_map("mine", {"a": number}).replace(
                "'name': 'mine'", f"'name': 'mine', 'namespace': {space!r}"
            )
            text = STACK.format(clusters=names, name=repository.stack, body=mine)
            repository.write("stacks/stack.py", text)
            repository.commit()
            done = repository.sync()
            assert done.code == 0, done.out + done.err
            assert done.out.count("healthy") == 2, done.out
        assert repository.fleet("destroy", repository.stack, "--yes").code == 0
    finally:
        for cluster in repository.clusters:
            cluster.kubectl("delete", "namespace", space, "--ignore-not-found", "--wait=false")
            for kind in ("rolebinding", "role"):
                cluster.kubectl("-n", "fleet-system", "delete", kind, space, "--ignore-not-found")
