"""The file between the job that evaluates a pull request and the job that may comment on it.

The first job runs code that is not approved, so everything in the file may be forged. It holds data, no Markdown: the
job that posts makes the text, with the same escapes as for any preview, and takes the pull request, its commit, its
branches and the mark of the comment from the forge. So the worst that a forged file leads to is a preview that lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NotRequired

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from fleet.errors import ConfigurationError, FleetError, Source
from fleet.evaluate.decode import MalformedError
from fleet.evaluate.schema import check_key, check_name
from fleet.plan.views import json_schema
from fleet.plan.views.json import plan_data, read_key_data, read_plan_data
from fleet.plan.views.summary import NamedRevision, PlanView, ViewHeader
from fleet.preview.comment import (
    LONGEST_LINE,
    MOST_LINES,
    CommentIdentity,
    CommentText,
    PreviewRequest,
    failure_text,
    preview_text,
)
from fleet.text import printable

SCHEMA = "fleet.dev/preview-comment/v1"
MOST_BYTES = 16 * 1024 * 1024
LONGEST_ERROR = LONGEST_LINE * MOST_LINES  # more of it is not shown
LONGEST_TEXT = 1_024  # of what stands in a line or in a table of the comment
MOST_PROBLEMS = 1_000
DEEPEST = 100  # values in values, of a field that changes
_TOO_LONG = "the preview is too long to be told here; `fleet preview` shows it"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{64}")


class CommentFile(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    schemaVersion: Literal["fleet.dev/preview-comment/v1"]
    head: str  # the commit that it is a preview of
    live: bool  # the clusters were to be asked
    problems: list[str]  # what is wrong in the preview, or the reason why there is none
    preview: NotRequired[json_schema.Document]
    error: NotRequired[str]  # in the place of a preview: the problem as the command line shows it


@dataclass(frozen=True, slots=True)
class PreviewComment:
    """The content of a preview's comment, before it is known to which pull request it goes."""

    head: str
    live: bool
    problems: tuple[str, ...] = ()
    branches: tuple[PlanView, ...] = ()
    about: ViewHeader | None = None  # None: there is no preview, and `error` says why
    error: str = ""

    def text(self, request: PreviewRequest, identity: CommentIdentity, room: int) -> CommentText:
        """Return the text for the pull request, whose branches are named as the forge names them."""
        if self.about is None:
            return failure_text(self.error, self.problems[0], request=request, identity=identity)
        pull_request = request.pull_request
        commit = self.about.base.commit if self.about.base else ""
        base = NamedRevision(pull_request.base_ref, commit)
        about = replace(self.about, base=base, head=NamedRevision(pull_request.head_ref, pull_request.head_sha))
        errors = [FleetError(problem) for problem in self.problems]
        text = preview_text(self.branches, about, errors, request=request, identity=identity, room=room)
        if all(len(part) <= room for part in text.parts):
            return text
        return failure_text(_TOO_LONG, _TOO_LONG, request=request, identity=identity)


def describe_preview(
    branches: Sequence[PlanView], about: ViewHeader, problems: Sequence[FleetError], *, head: str, live: bool
) -> PreviewComment:
    """Return the comment for a preview, with or without problems in it."""
    return PreviewComment(head, live, tuple(problem.message for problem in problems), tuple(branches), about)


def describe_refusal(error: FleetError, *, head: str, live: bool) -> PreviewComment:
    """Return the comment for a preview that could not be made."""
    return PreviewComment(head, live, (error.message,), error=str(error))


def write_comment(file: Path, comment: PreviewComment) -> None:
    """Write the file. What is longer than a file may be is left out: first the fields that change, then the objects."""
    for shorter in (_dump_whole, _dump_without_changes, _dump_without_preview):
        content = orjson.dumps(shorter(comment))
        if len(content) <= MOST_BYTES:
            break
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None


def read_comment(file: Path) -> PreviewComment:
    """Read the file and check all of it; raise ConfigurationError with the field that is wrong, and what is right."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        hint = "the job that makes the preview wrote none: its log says why"
        missing = isinstance(error, FileNotFoundError)
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}", hint=hint if missing else None) from None
    try:
        return _parse(content)
    except _InvalidError as wrong:
        raise ConfigurationError(
            wrong.message,
            hint="`fleet preview --comment-file` of this release writes such a file",
            source=Source(str(file)),
            field=wrong.field or None,
        ) from None


def _dump_whole(comment: PreviewComment) -> dict[str, Any]:
    data: dict[str, Any] = {
        "schemaVersion": SCHEMA,
        "head": comment.head,
        "live": comment.live,
        "problems": [printable(problem[:LONGEST_ERROR]) for problem in comment.problems[:MOST_PROBLEMS]],
    }
    if comment.about is None:
        return {**data, "error": comment.error[:LONGEST_ERROR]}
    preview = plan_data(comment.branches, unchanged=True, about=comment.about)
    for step in preview["steps"]:
        step["effect"] = step["effect"][:LONGEST_TEXT]
    for pair in preview["clusters"]:
        pair |= {name: pair[name][:LONGEST_TEXT] for name in ("note", "takenFrom") if name in pair}
    return {**data, "preview": preview}


def _dump_without_changes(comment: PreviewComment) -> dict[str, Any]:
    data = _dump_whole(comment)
    for step in data["preview"]["steps"] if "preview" in data else ():
        if step.pop("changes", None):
            reasons = (step.get("reason"), "its fields are not shown, as the preview is too long")
            step["reason"] = "; ".join(reason for reason in reasons if reason)
    return data


def _dump_without_preview(comment: PreviewComment) -> dict[str, Any]:
    return _dump_whole(PreviewComment(comment.head, comment.live, (_TOO_LONG,), error=_TOO_LONG))


class _InvalidError(Exception):
    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message, self.field = message, field


def _parse(content: bytes) -> PreviewComment:
    """Return the comment; raise _WrongError for the first thing that is not as `write_comment` makes it."""
    if len(content) > MOST_BYTES:
        raise _InvalidError(f"it is longer than {MOST_BYTES // 1024 // 1024} MiB, the most that such a file has")
    try:
        data = TypeAdapter(CommentFile).validate_python(orjson.loads(content))
    except orjson.JSONDecodeError:
        raise _InvalidError("it is not JSON") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _InvalidError(_explain(first["type"], first["msg"]), _format_path(first["loc"])) from None
    _check_texts(data)
    preview = data.get("preview")
    comment = PreviewComment(data["head"], data["live"], tuple(data["problems"]), error=data.get("error", ""))
    if (preview is None) is ("error" not in data):
        raise _InvalidError("there is either a preview or an error", "preview")
    if preview is None:
        if not comment.problems:
            raise _InvalidError("there is an error, so there is at least one problem", "problems")
        return comment
    for field, text in _uncut_texts(preview):
        if len(text) > LONGEST_TEXT:
            raise _InvalidError(f"it is longer than {LONGEST_TEXT} characters", field)
    for number, step in enumerate(preview["steps"]):
        values = [value for change in step.get("changes", ()) for value in (change["before"], change["after"])]
        if any(_measure_depth(value) > DEEPEST for value in values):
            raise _InvalidError(f"a value is more than {DEEPEST} deep", f"preview.steps[{number}].changes")
    try:
        branches, about = read_plan_data(preview)
    except ValueError as error:
        raise _InvalidError(str(error), "preview") from None
    _check_agreement(preview, branches, about)
    return replace(comment, branches=tuple(branches), about=about)


def _check_agreement(preview: json_schema.Document, branches: Sequence[PlanView], about: ViewHeader) -> None:
    """Raise for what does not follow from the rest: counts, order, what stands there twice."""
    derived = plan_data(branches, unchanged=True, about=about)
    for name in {**derived, **preview}:
        if derived.get(name) != preview.get(name):
            raise _InvalidError("it does not agree with the rest of the preview", f"preview.{name}")


def _check_texts(data: CommentFile) -> None:
    """Raise for what has a grammar and another one in the file."""
    _check("head", data["head"], _COMMIT, "the id of a commit in full")
    preview = data.get("preview")
    if preview is None:
        return
    base = preview["base"]["commit"] if "base" in preview else ""
    _check("preview.base.commit", base, _COMMIT, "the id of a commit in full")
    _check("preview.planHash", preview["planHash"], _HASH, "a hash")
    for number, pair in enumerate(preview["clusters"]):
        field_path = f"preview.clusters[{number}]"
        for field in ("stack", "cluster"):
            try:
                check_name(pair[field])
            except MalformedError:
                raise _InvalidError(
                    f"it is not the name of a {field}: small letters, digits and -", f"{field_path}.{field}"
                ) from None
        _check(f"{field_path}.planHash", pair.get("planHash", "0" * 64), _HASH, "a hash")
    for number, step in enumerate(preview["steps"]):
        try:
            check_key(read_key_data(step["object"]))
        except MalformedError:
            raise _InvalidError("it is not an object of Kubernetes", f"preview.steps[{number}].object") from None


def _check(field: str, text: str, grammar: re.Pattern[str], expected: str) -> None:
    if not grammar.fullmatch(text):
        raise _InvalidError(f"it is not {expected}", field)


def _uncut_texts(preview: json_schema.Document) -> Iterator[tuple[str, str]]:
    """Yield what stands outside of any fold and is not cut there, with its field."""
    for number, pair in enumerate(preview["clusters"]):
        yield f"preview.clusters[{number}].note", pair.get("note", "")
        yield f"preview.clusters[{number}].takenFrom", pair.get("takenFrom", "")
    for number, step in enumerate(preview["steps"]):
        yield f"preview.steps[{number}].effect", step["effect"]


def _measure_depth(value: Any) -> int:
    """Return how deep values lie in each other, with no recursion that a file could exhaust."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [inner for outer in level for inner in _inner_values(outer)]
    return depth


def _inner_values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _format_path(location: Sequence[int | str]) -> str:
    """Return `preview.steps[3].verb`, cut: the names of fields are the file's own."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in location)
    return path.removeprefix(".")[:LONGEST_TEXT]


def _explain(kind: str, message: str) -> str:
    messages = {"extra_forbidden": "there is no such field", "missing": "the field is missing"}
    return messages.get(kind) or f"{message[:1].lower()}{message[1:]}"
