"""Clusters in Europe. Each is reached through the kubeconfig context of the same name."""

import fleet

eu_1 = fleet.Cluster("eu-1", labels={"env": "prod", "region": "eu", "tier": "gold"})
