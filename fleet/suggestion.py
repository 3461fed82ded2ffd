"""Suggestions for a word that nothing is called by: the known word that was probably meant, or all there are.

The word and the known ones may come from the code of others, and comparing two words takes a while. So few and short
words are compared, and a message names few. Imports nothing heavy: the parent of an evaluation loads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_COMPARED = 1_000  # known words
LONGEST_COMPARED = 64  # letters of a word
MOST_NAMED = 50  # known words in a message


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to an error

    if len(word) > LONGEST_COMPARED:
        return None
    short = [one for one in known if len(one) <= LONGEST_COMPARED]
    found = get_close_matches(word, short[:MOST_COMPARED], n=1, cutoff=cutoff)
    return found[0] if found else None


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint for an unknown word: the one that was probably meant, else all there are."""
    words = sorted(known)
    close = closest(word, words)
    if close:
        return f"did you mean {close!r}?"
    return f"there are: {list_words(words)}" if words else None


def list_words(words: Sequence[str], most: int = MOST_NAMED, between: str = ", ") -> str:
    """Return the words for a message; of very many the first, and how many more there are."""
    more = f"{between}… and {len(words) - most} more" if len(words) > most else ""
    return between.join(words[:most]) + more
