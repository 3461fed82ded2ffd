"""The only code that talks to Kubernetes: transport, discovery, reading, applying, inventory, leases, health.

Import the module that you need (`from fleet.kube.client import Client`): this package imports nothing by itself,
so that the pure parts (`order`, `health`) cost nothing to use.
"""
