"""Settings of a web shop. It reads where the registry is, so it is applied after the stack that has it."""

import fleet


@fleet.stack(clusters=["eu-1", "us-1"])
def web(cluster: fleet.Cluster) -> None:
    registry = fleet.output("coordination", "endpoint")
    settings = fleet.Manifest(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"registry": registry, "greeting": "Howdy" if cluster.labels["region"] == "us" else "Hello"},
        }
    )
    fleet.Manifest(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}},
        opts=fleet.Options(depends_on=[settings]),
    )
