"""The views as files, and what has to be true of all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from pydantic import ValidationError

from docs.tools.reference.preview import SCHEMA_FILE, schema_text
from fleet.plan.effect import EffectKind
from fleet.plan.step import Verb
from fleet.plan.views.json_schema import SCHEMA, Document, check_preview
from fleet.plan.views.markdown import markdown_comment, markdown_comments
from fleet.plan.views.summary import destructive_steps
from fleet.plan.views.text import text_tree
from tests.plan.example import about, branches
from tests.plan.golden import DIRECTORY, WIDTHS, views

COLOURS = re.compile(r"\x1b\[\d+m")
VIEWS = views()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_as_its_file(name: str) -> None:
    assert (DIRECTORY / name).read_bytes() == VIEWS[name].encode(), "on purpose? python -m tests.plan.golden"


def test_there_is_no_file_without_a_view() -> None:
    assert {file.name for file in DIRECTORY.iterdir()} == set(VIEWS)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(width: int) -> None:
    text = VIEWS[f"text-{width}.txt"]
    assert max(map(len, text.splitlines())) <= width
    frame = str.maketrans("", "", "│├└─ \n")
    assert sorted(text.translate(frame)) == sorted(VIEWS["text.txt"].translate(frame))


@pytest.mark.parametrize("width", WIDTHS)
def test_colour_adds_colour_and_nothing_else(width: int) -> None:
    coloured = VIEWS[f"text-{width}-colour.txt"]
    assert COLOURS.sub("", coloured) == VIEWS[f"text-{width}.txt"]
    assert COLOURS.search(coloured)


def test_what_is_destructive_stands_first_and_outside_any_fold() -> None:
    assert len(destructive_steps(branches())) == 3
    assert VIEWS["text.txt"].startswith("3 destructive changes\n")
    for name in ("preview.md", "preview-cut.md", "preview-comment-1.md"):
        head, _, _ = VIEWS[name].partition("<details")
        for word in ("data deleted", "point of no return", "ConfigMap orders/old"):
            assert word in head
    head, _, _ = VIEWS["preview.html"].partition("<details")
    assert "data deleted" in head
    steps = json.loads(VIEWS["preview.json"])["steps"]
    assert [one["destructive"] for one in steps] == sorted((one["destructive"] for one in steps), reverse=True)


@pytest.mark.parametrize("limit", [2500, 3000, 4000, 60_000])
def test_markdown_stays_under_a_limit_and_is_cut_between_objects(limit: int) -> None:
    whole = markdown_comment(branches(), about=about())
    cut = markdown_comment(branches(), about=about(), limit=limit)
    several = markdown_comments(branches(), about=about(), limit=limit)
    for text in (cut, *several):
        assert len(text) <= limit
        assert text.count("<details>") == text.count("</details>")
        assert text.count("```") == 2 * text.count("<details>")
        assert f"plan {'4' * 12}" in text
    objects = [
        line for line in whole.splitlines() if re.match(r"[-+! ] (create|update|adopt|delete|forget|record)", line)
    ]
    assert [line for text in several for line in text.splitlines() if line in objects] == objects
    details = whole.count("\n    ")
    assert sum(text.count("\n    ") for text in several) == details
    shown = [line for line in cut.splitlines() if line in objects]
    assert shown == objects[: len(shown)]
    if len(shown) < len(objects):
        assert re.search(r"…and \d+ more objects?; ", cut)


def test_a_preview_of_thousands_keeps_its_summary_and_stays_in_a_comment() -> None:
    many = [replace(branches()[0], cluster=f"c{number}") for number in range(300)]
    text = markdown_comment(many)
    assert len(text) < 65_536
    assert "**⚠️ 900 destructive changes**" in text
    assert "more objects" in text


def test_the_json_is_as_its_schema_says() -> None:
    document = json.loads(VIEWS["preview.json"])
    check_preview(document)
    assert document["schemaVersion"] == SCHEMA
    for wrong in ({**document, "more": 1}, {**document, "planHash": 5}, {**document, "steps": [{}]}):
        with pytest.raises(ValidationError):
            check_preview(wrong)
    without = {name: value for name, value in document.items() if name != "steps"}
    with pytest.raises(ValidationError):
        check_preview(without)


def test_the_schema_file_is_made_from_the_code() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run `make docs`"
    fields = json.loads(schema_text())["properties"]
    assert set(fields) == set(Document.__annotations__)


def test_the_schema_knows_every_verb_and_effect() -> None:
    definitions = json.loads(schema_text())["$defs"]
    assert set(definitions["Step"]["properties"]["verb"]["enum"]) == {verb.value for verb in Verb}
    assert set(definitions["Step"]["properties"]["does"]["enum"]) == {does.value for does in EffectKind}
    assert set(definitions["Summary"]["properties"]) == {verb.value for verb in Verb}


def test_a_narrow_terminal_is_no_reason_to_fail() -> None:
    assert text_tree(branches(), width=1)
