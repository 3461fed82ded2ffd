"""Figures, measured on the machine at hand. `make bench` runs all; `python -m tests.bench lab` those of the lab.

A benchmark is a module with a `figures()` that yields Figure objects, and a name in BENCHMARKS. Both sides of a
comparison run in one process run, in turns, so that a busy machine disturbs both alike.
"""
