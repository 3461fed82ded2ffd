"""Foreign text in a view: names and messages come from repositories, servers and pods, and some would move the cursor,
begin a line of their own, or be read as mark-up.
"""

from __future__ import annotations

import re
from html import escape

from fleet.text import printable

_MARKDOWN = frozenset("\\`*_{}[]()<>|#~!$&@")
# What forges make links, mentions and pictures of: !1, $1, ~bug, &1, %1 (GitLab), GH-1 (GitHub), :emoji: (all).
_REFERENCE = re.compile(r"[!$~&%](?=[\w\"])|\bGH-(?=\d)|:(?=[\w+-]+:)", re.IGNORECASE)
_NOTHING = "\u200b"  # a space of no width


def escape_line(text: str) -> str:
    """Return the text on one line, with nothing that a terminal would obey."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def escape_lines(text: str) -> list[str]:
    """Return a text of several lines, each escaped by itself."""
    return [escape_line(line) for line in text.splitlines()] or [""]


def escape_html(text: str) -> str:
    return escape(escape_line(text), quote=True)


def escape_markdown(text: str) -> str:
    """Return text that Markdown and HTML read as text, also in a table: no link, no picture, no mention.

    Forges look for mentions and addresses in what Markdown has made, so those get a space of no width inside.
    """
    separated = _REFERENCE.sub(rf"\g<0>{_NOTHING}", escape_line(text))
    escaped = "".join(
        f"&#{ord(letter)};" if letter in _MARKDOWN or letter == _NOTHING else letter for letter in separated
    )
    if escaped.startswith("/"):  # at the beginning of a line, it is a command
        escaped = f"&#47;{escaped[1:]}"
    for mark in ("&#64;", "&#35;", ":", "www"):
        escaped = escaped.replace(mark, f"{mark}&#8203;") if _begins_link(mark, escaped) else escaped
    return escaped


def fence_code(body: list[str], language: str = "") -> list[str]:
    """Return a block of code that nothing in it can end."""
    longest = max((len(run) for line in body for run in _backtick_runs(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *body, fence]


def _begins_link(mark: str, text: str) -> bool:
    return f"{mark}//" in text if mark == ":" else mark in text


def _backtick_runs(line: str) -> list[str]:
    return [part for part in "".join(letter if letter == "`" else " " for letter in line).split() if part]
