"""What is decided about the members of one role, the same for every engine: one module for each procedure. Pure.

Every decision follows from an observation, and from what the engine answers (`fleet.kit.observe.answers.Answers`).
Nothing is remembered between reconciles but what the ledger, the StatefulSet and the engine itself hold: so a reconcile
may end anywhere, and the next one goes on from what it finds.
"""
