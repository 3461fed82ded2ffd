"""Adoption of engines that run already: finds them and describes them as a stack. Nothing in a cluster is changed."""
