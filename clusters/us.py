"""Clusters in the United States."""

import fleet

us_1 = fleet.Cluster("us-1", labels={"env": "prod", "region": "us", "tier": "silver"})
