"""Names and messages of others: what a terminal, Markdown or a browser would obey is shown, not obeyed."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from fleet.errors import Source
from fleet.objects.desired import Desired, Key, Object
from fleet.plan import PlanView, plan
from fleet.plan.views.escape import escape_html, escape_line, escape_lines, escape_markdown, fence_code
from fleet.plan.views.html import html_page
from fleet.plan.views.markdown import markdown_comment, markdown_comments
from fleet.plan.views.summary import NamedRevision, ViewHeader
from fleet.plan.views.text import text_tree
from tests.objects.live import config_map, entry_of, live_of

HOSTILE = (
    "\x1b[2J\x1b[1;1H",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066hidden\u2069",
    "back\x08\x08\x08",
    "</code></details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[link](https://example.com) ![picture](https://example.com/x.png)",
    "@everybody #1 | **bold** `code`",
    "```\n</details>\n# heading\n````",
    "\r\noverwritten",
    "/merge\n/approve",
    "' onmouseover='x",
    '" onmouseover="x',
)


def hostile_branches(text: str) -> list[PlanView]:
    """The text in every place that somebody else fills."""
    name = f"a{text}"
    before, after = config_map(name, {"k": text, text: "1"}), config_map(name, {"k": f"{text}2", text: "2"})
    inventory_entry = entry_of(before)
    wanted = Object(after, Source(f"stacks/{text}.py", 3))
    stack = f"shop{text}"
    desired = Desired(stack, f"eu{text}", (wanted,))
    from fleet.plan import Inventory

    known = Inventory(stack, f"eu{text}", "r", (inventory_entry,), repository=text)
    from fleet.plan import RepositoryOwnership

    made = plan(
        desired, known, {Key.of(after): live_of(before)}, ownership=RepositoryOwnership("ours", frozenset([text]))
    )
    (step,) = made.steps
    step = step._replace(reason=f"reason {text}", objection=f"said {text}", meanings=(f"meaning {text}",))
    from dataclasses import replace

    return [
        PlanView(stack, f"eu{text}", replace(made, steps=(step,))),
        PlanView(stack, f"us{text}", None, f"no {text}"),
    ]


def hostile_about(text: str) -> ViewHeader:
    return ViewHeader(
        "desired", NamedRevision(text, text, text), NamedRevision(text, text, text), "t", "h" * 64, remarks=(text,)
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_gets_nothing_to_obey(text: str) -> None:
    for width in (None, 40, 80):
        said = text_tree(hostile_branches(text), about=hostile_about(text), width=width, colour=False)
        assert all(line.isprintable() for line in said.split("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_gets_no_mark_up_of_others(text: str) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    for said in (
        markdown_comment(hostile_branches(text), about=hostile_about(text)),
        *markdown_comments(hostile_branches(text)),
    ):
        assert all(line.isprintable() for line in said.split("\n"))
        assert not [line for line in said.split("\n") if line.startswith("/")]
        tokens = [*parser.parse(said)]
        inline = [child for token in tokens for child in token.children or ()]
        assert {token.type for token in inline} <= {"text", "strong_open", "strong_close", "softbreak", "html_inline"}
        raw = [token.content for token in [*tokens, *inline] if token.type in ("html_block", "html_inline")]
        for part in raw:
            assert Tags.of(part) <= {"details", "summary", "b", "sub"}, part
        assert said.count("<details>") == said.count("</details>") - sum(
            token.content.count("</details>") for token in tokens if token.type == "fence"
        )
        assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3"]


class Tags(HTMLParser):
    """The elements and attributes that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    @classmethod
    def of(cls, text: str) -> set[str]:
        found = cls()
        found.feed(text)
        return found.tags


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_gets_no_element_of_others(text: str) -> None:
    said = html_page(hostile_branches(text), about=hostile_about(text))
    found = Tags()
    found.feed(said)
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert "a" not in found.tags
    assert found.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class", "open"}
    assert all(line.isprintable() for line in said.split("\n"))


def test_a_page_loads_nothing() -> None:
    said = html_page(hostile_branches("x"))
    assert "http://" not in said
    assert "https://" not in said
    assert "url(" not in said
    assert "@import" not in said


def test_ordinary_text_stays_as_it_is() -> None:
    assert escape_line("Ärger mit 日本語 – 3 → 5 ✓") == "Ärger mit 日本語 – 3 → 5 ✓"
    assert escape_line("a\x1b[31mb\nc") == "a�[31mb c"
    assert escape_line("a\u202eb") == "a�b"
    assert escape_lines("one\ntwo\tthree") == ["one", "two three"]
    assert escape_html('<a b="c">') == "&lt;a b=&quot;c&quot;&gt;"
    assert escape_markdown("a|b") == "a&#124;b"
    assert fence_code(["````"]) == ["`````", "````", "`````"]
