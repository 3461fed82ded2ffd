"""Text for people: foreign text made safe to show, with nothing that a terminal would obey and no password of a URL;
numbers with nouns.
"""

from __future__ import annotations

import re

# Control characters, lone surrogates (bytes that are no UTF-8), and what changes the direction of text or is not seen,
# tags included: with these a line can be made to look like another one, or say what only a program reads.
_OBEYED = re.compile(
    "[^\n\t\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_WORD = re.compile(r"\S+")
_USER = re.compile("[^/@:]*:")  # and a password after it


def printable(text: str) -> str:
    """Return the text with a mark in the place of each character that a terminal would obey; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub("�", text)


def escape_json(json: str) -> str:
    """Return a JSON text with each of those characters as an escape, which is the same text to programs."""
    return json if json.isascii() and "\x7f" not in json else _OBEYED.sub(_escape, json)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it removed.

    A user ends with the last @ before a slash; one with a password, which may have slashes too, with the last of all.
    `host:8443/team@v2` is taken for a password as well: to show too little is the better mistake. Each letter is looked
    at a few times, however many addresses an attacker wrote into the text.
    """
    return _WORD.sub(_remove_users, text) if "://" in text else text


def _remove_users(match: re.Match[str]) -> str:
    word, parts, position = match[0], list[str](), 0
    last = word.rfind("@")
    while (begin := word.find("://", position) + 3) > 2 and begin <= last:
        parts.append(word[position:begin])
        if _USER.match(word, begin):
            position = last + 1
            break
        slash = word.find("/", begin)
        position = max(begin, word.rfind("@", begin, slash if slash >= 0 else len(word)) + 1)
    return "".join([*parts, word[position:]])


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
