"""Kinds of faults, one module per thing that they are about."""
