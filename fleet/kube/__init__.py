"""The only code that talks to Kubernetes: transport, discovery, reading, watching, leases, health, controllers.

Import the module that you need (`from fleet.kube.client.client import Client`): this package imports nothing by itself,
so that the pure parts (`health`) cost nothing to use.
"""
