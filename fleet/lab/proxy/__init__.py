"""A proxy in front of an API server that does to requests what a plan says, for tests and for faults of a lab.

`plan` has the data and the decision, `act` what can be done, `service` does it.
"""
