"""Faults of a cluster's API server as its clients see it, made by a proxy that shares its port. `ports` says how."""
