"""Finds what runs already and was set up by others, and describes it as a stack. Nothing in a cluster is changed."""
