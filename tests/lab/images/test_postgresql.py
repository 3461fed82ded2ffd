"""PostgreSQL of two majors, each a cluster of one member under Patroni, which keeps its state in Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fleet.testing import Cluster
from tests.lab.images.http import ask
from tests.lab.images.pods import engine, name_of, start

pytestmark = pytest.mark.real_nodes
OLD, NEW = "postgresql:15", "postgresql:17"
PASSWORD = "of-the-test"


def configuration(image: str, namespace: str) -> str:
    return yaml.safe_dump(
        {
            "scope": name_of(image),
            "name": name_of(image),
            "kubernetes": {"namespace": namespace, "labels": {"app": name_of(image)}},
            "restapi": {"listen": "0.0.0.0:8008"},
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 1, "retry_timeout": 3},
                "initdb": [{"encoding": "UTF8"}, "data-checksums", "no-sync"],
            },
            "postgresql": {
                "listen": "0.0.0.0:5432",
                "data_dir": "/var/lib/postgresql/data",
                "authentication": {
                    "superuser": {"username": "postgres", "password": PASSWORD},
                    "replication": {"username": "replicator", "password": PASSWORD},
                },
                "pg_hba": ["host all all all scram-sha-256", "host replication all all scram-sha-256"],
            },
        }
    )


def rights() -> list[dict[str, Any]]:
    """What Patroni needs to keep its state and its leader in ConfigMaps, and to label its pod."""
    verbs = ["create", "get", "list", "patch", "update", "watch", "delete", "deletecollection"]
    rules = [{"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": verbs}]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "patroni"}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "patroni"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "patroni"},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        },
    ]


def test_patroni_makes_a_database_of_each_major_and_sql_works_over_the_network(real_cluster: Cluster) -> None:
    real_cluster.images(OLD, NEW)
    pods = [
        engine(
            image,
            port=5432,
            command=["patroni", "/etc/patroni/patroni.yml"],
            environment={
                "PATRONI_POSTGRESQL_CONNECT_ADDRESS": "$(ADDRESS):5432",
                "PATRONI_RESTAPI_CONNECT_ADDRESS": "$(ADDRESS):8008",
                "PGPASSWORD": PASSWORD,
            },
            configuration={"/etc/patroni": {"patroni.yml": configuration(image, real_cluster.namespace)}},
        )
        for image in (OLD, NEW)
    ]
    real_cluster.apply(*rights(), *(manifest for pod in pods for manifest in pod))
    addresses = start(real_cluster, OLD, NEW)

    for image, version, patroni in ((OLD, 15, "3."), (NEW, 17, "4.")):
        url = f"http://{addresses[image]}:8008"

        def leads(url: str = url) -> bool:
            return bool(ask(f"{url}/primary")["state"] == "running")

        real_cluster.wait(f"{image} is primary", leads)
        found = ask(url)
        assert found["role"] in ("master", "primary")
        assert found["server_version"] // 10000 == version
        assert found["patroni"]["version"].startswith(patroni)

    # Each with the client of the other's pod: across the network, with a password.
    for image, other in ((OLD, NEW), (NEW, OLD)):
        command = ["psql", "-h", addresses[image], "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-Atq"]
        for statement in ("create table apples (n int primary key)", "insert into apples select generate_series(1,9)"):
            command += ["-c", statement]
        said = real_cluster.execute(name_of(other), *command, "-c", "select sum(n), pg_jit_available() from apples")
        assert said.split() == ["45|f"]
