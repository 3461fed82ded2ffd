"""Kinds of faults, one module per thing that they happen to."""
