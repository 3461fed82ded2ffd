"""A stack that uses everything there is; a strict type checker has nothing to say about it."""

from typing import assert_type

import fleet
from fleet import NFS, S3, TLS, Alias, Backup, Claim, Options, Resources, Restore, Volume
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig


@fleet.stack(
    clusters=fleet.where(env="prod") & ~fleet.where({"example.com/tier": ["bronze", "none"]}),
    name="orders",
    namespace="orders",
    rollout=fleet.Rollout(waves=["eu-1", fleet.where(region="us"), ["ap-1", fleet.where(region="ap")]], soak="5m"),
    depends_on=["network"],
)
def orders(cluster: fleet.Cluster) -> None:
    db = Etcd(
        "orders-db",
        version="3.5",
        members=5 if cluster.labels["tier"] == "gold" else 3,
        storage="100Gi",
        resources=Resources(cpu="2", memory="8Gi", cpu_limit="4"),
        volume=Volume(storage_class="fast", on_delete="keep"),
        config=EtcdConfig(quota="8Gi", compaction="1h", options={"experimental-initial-corrupt-check": "true"}),
        tls=TLS(lifetime="30d"),
        backup=Backup(schedule="0 3 * * *", to=S3("backups/orders", secret="s3"), keep=14),
        opts=Options(protect=True, ignore_changes=["storage"], aliases=["old-db", Alias(namespace="old")]),
    )
    copy = Etcd(
        "orders-copy",
        version="3.5",
        restore_from=Restore(S3("backups/orders", secret="s3"), snapshot="latest"),
        backup=Backup(schedule="@daily", to=NFS("nas", "/exports") if cluster.name == "eu-1" else Claim("backups")),
        opts=Options(depends_on=[db, "orders-db"], parent=db, retain_on_delete=True, adopt=True),
    )
    settings = fleet.Manifest(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"db": db.endpoint}},
        opts=Options(depends_on=[copy]),
    )
    more = fleet.manifests("files/*.yaml", opts=Options(depends_on=[settings]))
    fleet.export("endpoint", db.endpoint)
    assert_type(db.members, int)
    assert_type(db.endpoint, str)
    assert_type(db.connection.port, int)
    assert_type(more, list[fleet.Manifest])
    assert_type(fleet.output("network", "domain"), str)
    assert_type(fleet.output("network", "port", int), int)


def test_orders() -> None:
    declared = orders(fleet.Cluster("eu-1", labels={"tier": "gold"}), outputs={"network": {"domain": "a", "port": 1}})
    assert_type(declared, fleet.Collected)
    assert_type(declared.app("orders-db", Etcd), Etcd)
    assert declared.app("orders-db", Etcd).members == 5
