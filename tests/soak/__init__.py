"""The service under everything at once, by a seed: random commits, kills, faults of API servers, and strangers.

`model` draws what happens (pure), `world` makes it happen to real processes, `checks` says whether it ended well.
"""
