"""One comment, whatever was there before: by decisions on data. With a real forge and several posters: test_gitea."""

from __future__ import annotations

import pytest

from fleet.forge.comments import (
    CreateComment,
    DeleteComment,
    EditComment,
    StickyComment,
    approval_command,
    own_parts,
    plan_comment_steps,
    requested_commit,
    users_naming,
)
from fleet.forge.forge import Comment

TOPIC = StickyComment("preview")
SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"


def text(part: int, words: str = "") -> str:
    return f"{TOPIC.mark(part)}\nwords{words}"


def comment(number: int, body: str, author: str = "bot") -> Comment:
    return Comment(number, body, author, f"https://example.com/{number}")


def there(*comments: Comment) -> dict[int, list[Comment]]:
    return own_parts(comments, "Bot", TOPIC)


def test_a_comment_is_ours_by_its_mark_and_its_author() -> None:
    found = there(
        comment(1, text(1)),
        comment(2, text(1), "eve"),  # a stranger with our mark
        comment(3, f"as it said: {text(1)}"),  # a quotation
        comment(4, "words"),
        comment(5, StickyComment("preview", "another").mark(1)),
        comment(6, StickyComment("sync").mark(1)),
        comment(7, f"\r\n{text(2)}"),
    )
    assert {part: [one.id for one in its] for part, its in found.items()} == {1: [1], 2: [7]}


def test_the_first_time_all_parts_are_made_in_order() -> None:
    assert plan_comment_steps({}, [text(1), text(2)]) == [CreateComment(text(1)), CreateComment(text(2))]


def test_what_is_as_it_should_be_is_left_alone_whatever_the_ends_of_its_lines() -> None:
    assert plan_comment_steps(there(comment(1, text(1).replace("\n", "\r\n") + "\r\n")), [text(1)]) == []


def test_what_changed_is_edited_the_first_part_last_and_surplus_parts_go_after_that() -> None:
    found = there(*(comment(part, text(part)) for part in (1, 2, 3)))
    wanted = [text(1, "!"), text(2, "!")]
    assert plan_comment_steps(found, wanted) == [EditComment(2, wanted[1]), EditComment(1, wanted[0]), DeleteComment(3)]
    assert plan_comment_steps(found, [text(1), text(2), text(3), text(4)]) == [CreateComment(text(4))]


def test_of_parts_that_were_made_twice_the_oldest_stays() -> None:
    assert plan_comment_steps(there(comment(9, text(1)), comment(4, text(1))), [text(1)]) == [DeleteComment(9)]


def test_if_somebody_deleted_the_first_part_all_is_made_anew_before_the_rest_goes() -> None:
    wanted = [text(1), text(2)]
    assert plan_comment_steps(there(comment(2, text(2))), wanted) == [
        CreateComment(wanted[0]),
        CreateComment(wanted[1]),
        DeleteComment(2),
    ]


@pytest.mark.parametrize(
    ("body", "commit"),
    [
        (approval_command(SHA), SHA),
        (f"  /fleet  preview {SHA.upper()}  \r\nthank you", SHA),
        ("/fleet preview", ""),
        (f"/fleet preview {SHA[:12]}", ""),
        (f"/fleet preview {SHA}0", ""),
        ("/fleet preview main", ""),
        (f"/fleet preview {SHA} --live", None),
        (f"please\n{approval_command(SHA)}", None),
        (f"> {approval_command(SHA)}", None),
        (f"`{approval_command(SHA)}`", None),
        ("/fleet sync", None),
        (f"{TOPIC.mark(1)}\n{approval_command(SHA)}", None),
        ("", None),
    ],
)
def test_only_a_comment_that_begins_with_the_command_and_the_whole_commit_approves(
    body: str, commit: str | None
) -> None:
    assert requested_commit(body) == commit


def test_who_named_a_commit() -> None:
    comments = [
        comment(1, approval_command(SHA), "ann"),
        comment(2, approval_command("0" * 40), "bob"),
        comment(3, approval_command(SHA), "eve"),
        comment(4, approval_command(SHA), "ann"),
    ]
    assert users_naming(comments, SHA) == ["ann", "eve"]
