"""A cluster in memory with members that do what their files and volumes say, for the conformance suite."""
