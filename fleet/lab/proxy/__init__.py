"""A proxy in front of an API server that does to requests what a plan says, for tests and for faults of a lab.

`plan` has the rules and the decision, `actions` what can be done to a request, `proxy` does it.
"""
