# ruff: noqa: B018, F401, F841 - mistakes are what this file is for
"""Mistakes that a strict type checker finds, each with what it says about it."""

import fleet
from fleet import S3, Backup, Options, Optoins  # E: has no attribute "Optoins"
from fleet.apps import Etcd, Oracle  # E: has no attribute "Oracle"


@fleet.stack  # E: Missing named argument "clusters"
def bare(cluster: fleet.Cluster) -> None: ...


@fleet.stack(clusters=7)  # E: Argument "clusters" to "stack" has incompatible type "int"
def placed_on_a_number(cluster: fleet.Cluster) -> None: ...


@fleet.stack(clusters="eu-1")  # E: incompatible type "Callable[[str], None]"
def takes_a_name(cluster: str) -> None: ...


@fleet.stack(clusters="eu-1")
def wrong(cluster: fleet.Cluster) -> None:
    Etcd(version="3.5")  # E: Missing positional argument "name"
    Etcd("a")  # E: Missing named argument "version"
    Etcd("a", version=3.5)  # E: Argument "version" to "Etcd" has incompatible type "float"; expected "str"
    Etcd("a", version="3.5", members="3")  # E: Argument "members" to "Etcd" has incompatible type "str"; expected "int"
    Etcd("a", version="3.5", memebrs=3)  # E: Unexpected keyword argument "memebrs" for "Etcd"; did you mean "members"?
    Etcd("a", version="3.5", backup="daily")  # E: expected "Backup | None"
    Etcd("a", version="3.5", backup=Backup(schedule="@daily", to="s3"))  # E: expected "S3 | NFS | Claim"
    Etcd("a", version="3.5", opts=Options(protect="yes"))  # E: Argument "protect" to "Options"
    Etcd("a", version="3.5", opts=Options(depends_on=[3]))  # E: List item 0 has incompatible type "int"
    Etcd("a", version="3.5", opts={"protect": True})  # E: expected "Options"
    S3("bucket")  # E: Missing named argument "secret"
    db = Etcd("b", version="3.5")
    db.members = 5  # E: Property "members" defined in "Etcd" is read-only
    db.endpiont  # E: "Etcd" has no attribute "endpiont"
    fleet.Manifest("ConfigMap")  # E: Argument 1 to "Manifest" has incompatible type "str"
    fleet.Rollout(waves=[1])  # E: List item 0 has incompatible type "int"
    fleet.where(env=1)  # E: Argument "env" to "where" has incompatible type "int"
    port: int = fleet.output("network", "port")  # E: Incompatible types in assignment
    cluster.labels["tier"] = "gold"  # E: Unsupported target for indexed assignment
