"""Suggestions for an unknown word: the known word that was probably meant, or all that there are.

The word and the known ones may come from untrusted code, and comparing two words takes a while. So few and short words
are compared, and a message names few. Imports nothing heavy: the parent of an evaluation loads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_COMPARED = 1_000  # known words
LONGEST_COMPARED = 64  # letters of a word
MOST_NAMED = 50  # known words in a message


def closest(word: str, known_words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

    if len(word) > LONGEST_COMPARED:
        return None
    short = [candidate for candidate in known_words if len(candidate) <= LONGEST_COMPARED]
    matches = get_close_matches(word, short[:MOST_COMPARED], n=1, cutoff=cutoff)
    return matches[0] if matches else None


def suggestion(word: str, known_words: Iterable[str]) -> str | None:
    """Return a hint for an unknown word: the one that was probably meant, else all there are."""
    all_words = sorted(known_words)
    close = closest(word, all_words)
    if close:
        return f"did you mean {close!r}?"
    return f"there are: {list_words(all_words)}" if all_words else None


def list_words(candidates: Sequence[str], most: int = MOST_NAMED, between: str = ", ") -> str:
    """Return the words for a message; of very many the first, and how many more there are."""
    more = f"{between}… and {len(candidates) - most} more" if len(candidates) > most else ""
    return between.join(candidates[:most]) + more
