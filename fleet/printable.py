"""Text for people: that of others as it may be shown, with nothing that a terminal would obey; numbers with nouns."""

from __future__ import annotations

import re

# Control characters, lone surrogates (bytes that are no UTF-8), and what changes the direction of text or is not seen:
# with these a line can be made to look like another one.
_OBEYED = re.compile(
    "[^\n\t\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)


def printable(text: str) -> str:
    """With a mark in the place of each; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub("�", text)


def count_noun(number: int, singular: str, plural: str = "") -> str:
    """Return a number and what it counts: "1 member", "2 members". The plural is given where it is not made by an s."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


_QUOTED = re.compile("‹[^›]*(?:›|$)")  # a message may have been cut off in the middle


def quote_output(text: str) -> str:
    """Return what a container printed as a part of a message, marked: it may print secrets, and messages go to git."""
    return f"‹{' '.join(printable(text).translate(_MARKS).split())}›"


def without_output(text: str) -> str:
    """Return a message as it may leave the cluster: without what containers printed."""
    return _QUOTED.sub("(what it printed stays in the cluster)", text)


_MARKS = str.maketrans({"‹": "'", "›": "'"})
