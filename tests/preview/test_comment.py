"""What is said on a pull request, from data: it fits, it has its summary, and nothing in it is obeyed by a forge."""

from __future__ import annotations

import pytest

from fleet.errors import ConfigurationError, FleetError, ResourceError, Source
from fleet.forge.comments import requested_commit
from fleet.forge.forge import CommitState, PullRequest
from fleet.objects.compare import Change
from fleet.objects.desired import Key
from fleet.plan import Inventory, Plan, Step, Verb
from fleet.plan.effect import Effect, EffectKind
from fleet.plan.views.summary import NamedRevision, PlanView, ViewHeader
from fleet.preview.comment import CommentIdentity, CommentText, PreviewRequest, error_text, preview_text

SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
PULL = PullRequest(7, "Prices", "ann", "https://example.com/7", "main", "0" * 40, "francs", SHA, fork=True)
ABOUT = ViewHeader("desired", NamedRevision("main", "0" * 40), NamedRevision("francs", SHA))
HOSTILE = "@everybody #1 <img src=x> [a](https://evil.example.com) `|*_" * 20


def said(
    branches: list[PlanView], problems: list[FleetError], *, room: int = 60_000, remarks: tuple[str, ...] = ()
) -> CommentText:
    about = ViewHeader("desired", ABOUT.base, ABOUT.head, remarks=remarks)
    return obeyed_by_nobody(
        preview_text(branches, about, problems, request=PreviewRequest(PULL), identity=CommentIdentity(), room=room)
    )


def obeyed_by_nobody(words: CommentText) -> CommentText:
    """Forges and their bots look for commands at the beginning of lines, wherever these are."""
    assert not [line for part in words.parts for line in part.splitlines() if line.startswith("/")]
    return words


@pytest.mark.parametrize("room", [10_000, 63_488, 1_000_000])
def test_the_first_part_has_the_summary_and_fits_whatever_names_and_problems_are_like(room: int) -> None:
    branches = [PlanView(f"stack-{n}", "c" * 63, problem=HOSTILE) for n in range(400)]
    words = said(branches, [ResourceError(HOSTILE)] * 400, room=room, remarks=(HOSTILE,) * 300)
    assert len(words.parts[0]) <= room
    assert "**1 cluster failed**" in words.parts[0]
    assert "… and" in words.parts[0]
    assert words.state is CommitState.FAILURE
    assert words.line.endswith("(and 399 more)")


def test_no_changes_is_a_success_too() -> None:
    words = said([], [])
    assert (words.state, words.line, len(words.parts)) == (CommitState.SUCCESS, "no changes", 1)


def test_what_went_wrong_is_shown_as_code_with_its_place_and_not_obeyed() -> None:
    problem = ConfigurationError("```\n/merge\n" + HOSTILE, source=Source("stacks/shop.py", 9), hint="write\n" * 200)
    words = obeyed_by_nobody(error_text(problem, request=PreviewRequest(PULL), identity=CommentIdentity()))
    [part] = words.parts
    assert "│ /merge" in part.splitlines()
    fence = next(line for line in part.splitlines() if line.startswith("````"))
    before, inside, after = part.split(fence.removesuffix("text"))
    assert "stacks/shop.py:9: ```" in inside
    assert "@everybody" not in before + after
    assert "more lines" in inside
    assert words.state is CommitState.FAILURE
    assert "\n" not in words.line


@pytest.mark.parametrize("text", ["/merge", "x\n/merge", "x\n```\n/merge\n/approve\n````", "\u2028/merge", "x\r/merge"])
def test_no_line_of_a_comment_begins_with_a_command(text: str) -> None:
    step = Step(Verb.DELETE, Key("", "ConfigMap", text, text), source=Source(text, 1), reason=text)
    effect = Effect(EffectKind.DATA, text, destructive=True)
    change = Change(text, text, text)
    changed = step._replace(verb=Verb.UPDATE, changes=(change,), meanings=(text,), objection=text, effect=effect)
    plan = Plan(text, text, (step, changed), Inventory(text, text))
    branches = [PlanView(text, text, plan), PlanView(text, text, problem=text), PlanView(text, text, note=text)]
    about = ViewHeader("desired", NamedRevision(text, text, text), NamedRevision(text, text, text), remarks=(text,))
    request = PreviewRequest(PULL, withheld=True, approver=text, doubt=text)
    for room in (3_000, 60_000):
        words = preview_text(
            branches, about, [FleetError(text)], request=request, identity=CommentIdentity(text), room=room
        )
        assert "merge" in obeyed_by_nobody(words).parts[0]
    problem = FleetError(text, hint=text, source=Source(text, 1), field=text)
    obeyed_by_nobody(error_text(problem, request=request, identity=CommentIdentity(text)))


def test_a_fork_is_told_which_comment_approves_it_and_that_is_no_approval_itself() -> None:
    words = obeyed_by_nobody(
        preview_text(
            [], ABOUT, [], request=PreviewRequest(PULL, withheld=True), identity=CommentIdentity(), room=60_000
        )
    )
    assert f"`/fleet preview {SHA}`" in words.parts[0]
    assert all(requested_commit(line) is None for line in words.parts[0].splitlines())


def test_who_approved_it_and_who_may_have_is_said_without_calling_them() -> None:
    words = preview_text(
        [], ABOUT, [], request=PreviewRequest(PULL, live=True, approver="@ann"), identity=CommentIdentity(), room=60_000
    )
    assert "@ann" not in words.parts[0]
    assert "approved it" in words.parts[0]
    words = preview_text(
        [],
        ABOUT,
        [],
        request=PreviewRequest(PULL, withheld=True, doubt="not told"),
        identity=CommentIdentity(),
        room=60_000,
    )
    assert "not told" in words.parts[0]


def test_two_fleets_of_one_repository_have_a_comment_and_a_status_each() -> None:
    one, other = CommentIdentity(), CommentIdentity("teams/shop")
    assert (one.context, other.context) == ("fleet/preview", "fleet/preview/teams/shop")
    assert one.sticky.mark(1) != other.sticky.mark(1)
    assert other.title == "fleet preview of teams/shop"
