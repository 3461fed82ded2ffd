"""The half that acts: the contract of an engine, its default, its report, and its decisions on record."""
