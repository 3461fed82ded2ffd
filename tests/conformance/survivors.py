"""Why a mutant that survived is none: what is known of it, by its function and what is left out.

A mutant is equivalent if no state that there can be tells it from what it was made of. What is told of others is the
test that is missing.
"""

from __future__ import annotations

from tests.conformance.mutations import Mutant

WHY: dict[tuple[str, str], str] = {}


def explain(mutant: Mutant) -> str:
    """Return what is known of a mutant that survived."""
    return WHY.get((f"{mutant.file}:{mutant.function}", mutant.words), "a case is missing")
