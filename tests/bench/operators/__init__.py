"""Operators that do the same work, each with another runtime; `bench` measures them beside one another.

- `kind`: the custom resource, and 2,000 of it
- `engine`: the stand-in for what an operator operates: a server that answers probes, in a process of its own
- `ours`, `with_kopf.py`, `go/`: the three operators; `bare.py`: the writes alone, without an operator
- `sides`: how each is built and started; `run`: one of them, from its start to its end, and what it took
"""
