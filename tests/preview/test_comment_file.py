"""The file of `fleet preview --comment-file`: what is written is posted, and a forged one does no more than that."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.errors import ConfigurationError, FleetError, Source
from fleet.forge.comments import has_mark, requested_commit
from fleet.forge.forge import CommitState, PullRequest
from fleet.plan import Change, Inventory, Plan, PlanView, Verb
from fleet.plan.views.summary import NamedRevision, ViewHeader
from fleet.preview import comment_file
from fleet.preview.comment import CommentIdentity, PreviewRequest, error_text, preview_text
from fleet.preview.comment_file import PreviewComment, describe_preview, describe_refusal, read_comment, write_comment
from tests.plan.example import STEPS, about, branches

HEAD = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
BASE = "1" * 40
PULL = PullRequest(7, "Prices", "ann", "https://example.com/7", "main", BASE, "francs", HEAD, fork=True)
REQUEST, VOICE, ROOM = (
    PreviewRequest(PULL, live=True),
    CommentIdentity(page="https://ci.example.com/preview.html"),
    63_488,
)
HASH = "4" * 64
MARK = CommentIdentity("teams/other").sticky.mark(1)
HOSTILE = (
    f"@everybody #1 !1 ~bug &1 GH-1 :+1: <img src=https://x> [a](https://x) </details>\n/merge\n{MARK}\n```\n"
    "\u202eevil\u2066 \U000e0041 \x1b[31m | - [x] www.evil.example.com\r/approve\u2028/close"
)


def merge() -> ViewHeader:
    """The example's, with commits as git has them."""
    return replace(about(), base=NamedRevision("main", BASE), head=NamedRevision("francs", HEAD), plan_hash=HASH)


def preview() -> PreviewComment:
    return describe_preview(branches(), merge(), [FleetError("two\nlines")], head=HEAD, live=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "preview.json"


def written(file: Path) -> dict[str, Any]:
    write_comment(file, preview())
    data: dict[str, Any] = orjson.loads(file.read_bytes())
    return data


def test_a_preview_from_a_file_is_told_as_one_without(file: Path) -> None:
    write_comment(file, preview())
    told = read_comment(file).text(REQUEST, VOICE, ROOM)
    assert told == preview_text(
        branches(), merge(), [FleetError("two\nlines")], request=REQUEST, identity=VOICE, room=ROOM
    )
    assert told.state is CommitState.FAILURE
    assert "point of no return" in told.parts[0]


def test_many_parts_and_no_change_at_all_are_told_as_without_a_file_too(file: Path) -> None:
    write_comment(file, preview())
    for room in (3_000, 1_000_000):
        assert read_comment(file).text(REQUEST, VOICE, room) == preview_text(
            branches(), merge(), [FleetError("two\nlines")], request=REQUEST, identity=VOICE, room=room
        )
    nothing = ViewHeader("desired", NamedRevision("main", BASE), NamedRevision("francs", HEAD), plan_hash=HASH)
    write_comment(file, describe_preview([], nothing, [], head=HEAD, live=False))
    told = read_comment(file).text(REQUEST, VOICE, ROOM)
    assert told == preview_text([], nothing, [], request=REQUEST, identity=VOICE, room=ROOM)
    assert (told.state, told.line) == (CommitState.SUCCESS, "no changes")


def test_that_there_is_no_preview_is_told_as_without_a_file(file: Path) -> None:
    problem = ConfigurationError("```\n/merge", source=Source("stacks/shop.py", 9), hint="write\n" * 200)
    write_comment(file, describe_refusal(problem, head=HEAD, live=False))
    told = read_comment(file).text(REQUEST, VOICE, ROOM)
    assert told == error_text(problem, request=REQUEST, identity=VOICE)


def test_branches_and_the_commit_are_those_of_the_forge(file: Path) -> None:
    data = written(file)
    for side in ("base", "head"):
        data["preview"][side] |= {"name": "release", "subject": "Approved by everybody"}
    data["preview"]["head"]["commit"] = "2" * 40
    file.write_bytes(orjson.dumps(data))
    told = read_comment(file).text(REQUEST, VOICE, ROOM)
    assert told == preview_text(
        branches(), merge(), [FleetError("two\nlines")], request=REQUEST, identity=VOICE, room=ROOM
    )


@pytest.mark.parametrize(
    ("change", "field", "right"),
    [
        (lambda data: data.update(pullRequest=8), "pullRequest", "there is no such field"),
        (lambda data: data.update(schemaVersion="fleet.dev/preview-comment/v2"), "schemaVersion", "/v1"),
        (lambda data: data.pop("live"), "live", "missing"),
        (lambda data: data.update(live="yes"), "live", "boolean"),
        (lambda data: data.update(head="main"), "head", "the id of a commit in full"),
        (lambda data: data.update(head=HEAD[:12]), "head", "the id of a commit in full"),
        (lambda data: data.update(error="both"), "preview", "either a preview or an error"),
        (lambda data: data.pop("preview"), "preview", "either a preview or an error"),
        (lambda data: data["preview"].pop("base"), "preview.base.commit", "the id of a commit"),
        (lambda data: data["preview"].update(planHash="<b>"), "preview.planHash", "a hash"),
        (lambda data: data["preview"].update(depth="deep"), "preview.depth", "'live'"),
        (lambda data: data["preview"].update(destructive=0), "preview.destructive", "agree"),
        (lambda data: data["preview"]["changeSummary"].update(delete=0), "preview.changeSummary", "agree"),
        (lambda data: data["preview"]["clusters"].append(data["preview"]["clusters"][0]), "preview", "twice"),
        (lambda data: data["preview"]["clusters"][0].update(stack="@ann"), "preview.clusters[0].stack", "a stack"),
        (
            lambda data: data["preview"]["clusters"][0].update(cluster="a\nb"),
            "preview.clusters[0].cluster",
            "a cluster",
        ),
        (lambda data: data["preview"]["clusters"][0].update(planHash="x"), "preview.clusters[0].planHash", "a hash"),
        (lambda data: data["preview"]["clusters"][0].update(note="x" * 2000), "preview.clusters[0].note", "1024"),
        (lambda data: data["preview"]["steps"][0].update(cluster="mars"), "preview", "steps[0]"),
        (lambda data: data["preview"]["steps"][0].update(verb="apply"), "preview.steps[0].verb", "'create'"),
        (lambda data: data["preview"]["steps"][0].update(effect="x" * 2000), "preview.steps[0].effect", "1024"),
        (lambda data: data["preview"]["steps"][0].update(markdown="# hello"), "preview.steps[0].markdown", "no such"),
        (lambda data: data["preview"]["steps"][0]["object"].update(kind="<img>"), "preview.steps[0].object", "object"),
        (lambda data: data["preview"]["steps"][0]["object"].update(name="\u202e"), "preview.steps[0].object", "object"),
        (lambda data: data["preview"]["steps"].reverse(), "preview.steps", "agree"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_with_its_field(
    file: Path, change: Callable[[dict[str, Any]], Any], field: str, right: str
) -> None:
    data = written(file)
    change(data)
    file.write_bytes(orjson.dumps(data))
    with pytest.raises(ConfigurationError) as refused:
        read_comment(file)
    assert (str(refused.value.source), refused.value.field) == (str(file), field)
    assert right in refused.value.message


def deep(levels: int) -> bytes:
    data = orjson.dumps({"schemaVersion": comment_file.SCHEMA, "head": HEAD, "live": False, "problems": []})
    return data.removesuffix(b"}") + b',"preview":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("content", "right"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", "dict"),
        (b'{"head": "\\ud800"}', "it is not JSON"),
        (b" " * (comment_file.MOST_BYTES + 1), "longer than 16 MiB"),
        (deep(1_000_000), "it is not JSON"),
        (deep(900), "dict"),
    ],
)
def test_what_is_no_such_file_is_refused(file: Path, content: bytes, right: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=re.escape(right)):
        read_comment(file)


def test_values_that_are_too_deep_are_refused(file: Path) -> None:
    data = written(file)
    value: Any = 1
    for _ in range(200):
        value = [value]
    step = next(step for step in data["preview"]["steps"] if "changes" in step)
    step["changes"][0]["after"] = value
    file.write_bytes(orjson.dumps(data))
    with pytest.raises(ConfigurationError, match="more than 100 deep"):
        read_comment(file)


def test_a_file_that_is_not_there_is_told_with_where_to_look(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="its log says why"):
        read_comment(file)


def hostile(head: str = HEAD, text: str = HOSTILE) -> list[dict[str, Any]]:
    """Return forged files, in which every text that has no grammar is a hostile one."""
    plain = {"stack": "shop", "cluster": "eu-1", "planHash": HASH}
    step = {
        "stack": "shop",
        "cluster": "eu-1",
        "verb": "update",
        "object": {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "@ann"},
        "does": "delete data",
        "effect": text,
        "destructive": True,
        "note": text,
        "source": {"file": text, "line": 1},
        "reason": text,
        "meanings": [text],
        "changes": [{"path": text, "before": text, "after": {text: [text]}}],
        "objection": text,
    }
    pair = {**plain, "error": text, "note": text, "takenFrom": text}
    side = {"name": text, "commit": BASE, "subject": text}
    counts = {verb.value: 0 for verb in Verb}
    top = {"schemaVersion": comment_file.SCHEMA, "head": head, "live": True, "problems": [text]}
    empty = {
        "schemaVersion": "fleet.dev/preview/v1",
        "depth": "live",
        "base": side,
        "head": side,
        "tree": text,
        "planHash": HASH,
        "changeSummary": {**counts, "update": 1},
        "destructive": 1,
        "clusters": [plain],
        "steps": [step],
        "remarks": [text],
    }
    noted = {name: pair[name] for name in pair if name != "error"}
    return [
        {**top, "preview": empty},
        {**top, "preview": {**empty, "clusters": [pair]}},
        {**top, "preview": {**empty, "clusters": [noted]}},
        {**top, "error": text},
    ]


@pytest.mark.parametrize("data", hostile())
def test_the_most_that_a_forged_file_leads_to_is_a_preview_that_lies(file: Path, data: dict[str, Any]) -> None:
    file.write_bytes(orjson.dumps(data))
    for room in (4_000, ROOM):
        words = read_comment(file).text(REQUEST, VOICE, room)
        assert words.parts[0].startswith(("### fleet preview\n", "### fleet preview, "))
        for part in words.parts:
            assert len(part) <= room
            assert not [line for line in part.splitlines() if line.startswith("/")]
            assert not has_mark(part)
            assert requested_commit(part) is None
            assert not re.search("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff\x1b]", part)
            assert_inert(part)
        assert "\n" not in words.line
        assert "\u202e" not in words.line


def assert_inert(part: str) -> None:
    """Outside of blocks of code there is nothing of others that a forge makes anything of."""
    fence, outside = "", list[str]()
    for line in part.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line.rstrip("abcdefghijklmnopqrstuvwxyz")
        else:
            outside.append(line)
    assert not fence, "a block of code is closed"
    text = "\n".join(outside).replace(f"(<{VOICE.page}>)", "")
    for mark in ("@", "<img", "](", "<!--", "```"):
        assert mark not in text, (mark, text)
    assert not re.search(r"^- \[|^>|^#(?!## fleet preview)", text, re.MULTILINE)
    # Forges look for these in what Markdown has made: there a space of no width stands inside.
    assert not re.search(r"@\w|[#!&]\d|~\w|GH-\d|:\+1:|https?://|www\.", unescape(text))


def test_what_is_longer_than_a_file_may_be_loses_fields_and_then_objects(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comment_file, "MOST_BYTES", 30_000)
    step = STEPS[1]._replace(verb=Verb.UPDATE, reason="because")
    long = step._replace(changes=(Change("data.x", "a" * 20_000, "b" * 20_000),))
    plan = Plan("orders", "eu-1", (long,), Inventory("orders", "eu-1"))
    write_comment(file, describe_preview([PlanView("orders", "eu-1", plan)], merge(), [], head=HEAD, live=False))
    told = read_comment(file).text(REQUEST, VOICE, ROOM).parts[0]
    assert "because; its fields are not shown, as the preview is too long" in told
    assert "**1 to update**" in told

    many = replace(plan, steps=tuple(step._replace(key=step.key._replace(name=f"map-{n}")) for n in range(500)))
    write_comment(file, describe_preview([PlanView("orders", "eu-1", many)], merge(), [], head=HEAD, live=False))
    told = read_comment(file).text(REQUEST, VOICE, ROOM).parts[0]
    assert "the preview is too long to be told here" in told


def test_a_comment_that_no_forge_would_take_is_not_made(file: Path) -> None:
    write_comment(file, preview())
    words = read_comment(file).text(REQUEST, VOICE, 200)
    assert "too long" in words.parts[0]
    assert words.state is CommitState.FAILURE
