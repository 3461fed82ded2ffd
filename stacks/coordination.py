"""An etcd that other stacks keep their settings and locks in, on every production cluster, Europe first."""

import fleet
from fleet import Options, Resources
from fleet.apps import Etcd


@fleet.stack(
    clusters=fleet.where(env="prod"),
    rollout=fleet.Rollout(waves=["eu-1", fleet.where(region="us")], soak="5s"),
)
def coordination(cluster: fleet.Cluster) -> None:
    gold = cluster.labels["tier"] == "gold"
    registry = Etcd(
        "registry",
        version="3.5",
        members=3,
        storage="2Gi" if gold else "1Gi",
        resources=Resources(cpu="100m", memory="256Mi"),
    )
    fleet.Manifest(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "registry-clients"},
            "data": {"ETCD_ENDPOINTS": registry.connection.url, "REGION": cluster.labels["region"]},
        },
        opts=Options(parent=registry),
    )
    fleet.manifests("network/*.yaml")
    fleet.export("endpoint", registry.endpoint)
