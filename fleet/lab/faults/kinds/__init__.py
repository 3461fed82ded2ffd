"""Kinds of faults, one module per thing that they happen to.

Each verb has its line in `FAULTS` of `fleet.lab.faults.registry`. Faults of an API server are in `fleet.lab.faults.api`
instead.
"""
