"""Pages that agree with the code and with each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.git.status import parse_note
from tests.docs.document import ROOT, blocks

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?://)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"#{1,6} (?P<title>.+)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_reference_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.tools.reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_shows_a_note_as_it_is_read() -> None:
    page = ROOT / "docs" / "reference" / "status-file.md"
    note = blocks(page)[-1].text
    assert [str(outcome) for outcome in parse_note(note)] == note.splitlines() != []
    assert page.read_text(encoding="utf-8").count("## ") == 1, "what else the module says is not for this page"


def test_the_reference_shows_whole_examples_of_fixtures() -> None:
    examples = blocks(ROOT / "docs" / "reference" / "testing.md")
    proxy = next(block.text for block in examples if "proxy.plan" in block.text)
    assert isinstance(ast.parse(proxy).body[0], ast.With)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"))
    for link in _LINK.finditer(text):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        assert target.exists(), f"{_name(page)}: {link[0]}"
        if link["anchor"]:
            assert link["anchor"] in _anchors(target), f"{_name(page)}: {link[0]}"


def test_every_how_to_and_reference_page_is_listed() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in [*(ROOT / "docs" / "how-to").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]:
        assert f"({page.relative_to(ROOT / 'docs').as_posix()})" in index, page.name


def test_the_picture_brings_its_own_background_and_needs_nothing_from_elsewhere() -> None:
    picture = (ROOT / "docs" / "images" / "terminal.svg").read_text(encoding="utf-8")
    assert "<rect" in picture
    assert ">fleet preview<" in picture
    assert ">2 destructive changes<" in picture, "as the program says it now"
    assert re.findall(r"(?:href|src|url)\W", picture) == []


def _anchors(page: Path) -> set[str]:
    """As forges make them: lower case, no punctuation, dashes for spaces."""
    titles = [
        match["title"] for line in page.read_text(encoding="utf-8").splitlines() if (match := _HEADING.match(line))
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
