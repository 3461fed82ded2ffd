"""`fleet comment`: post what `fleet preview --comment-file` wrote. The only step of a preview that needs a token.

The file comes from a job that evaluated code that no maintainer has approved. Nothing is evaluated or checked
out here; the pull request and its commit come from the CI job's own event or an option, and everything else about it
from the forge.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import parse_page_url

if TYPE_CHECKING:
    from fleet.errors import FleetError
    from fleet.forge.forge import PullRequest
    from fleet.preview.comment_file import PreviewComment
    from fleet.repository.settings import ForgeSettings


def _check_directory(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Return a directory of a repository as git names it; raise for what is none."""
    import re

    if value is None or value == ".":
        return None if value is None else ""
    parts = value.split("/")
    if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", value) or ".." in parts or "." in parts:
        raise click.BadParameter(f"{value!r} is no directory of a repository such as teams/shop")
    return value


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--pull-request",
    "number",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="The pull request to comment on. [default: that of the CI job]",
)
@click.option(
    "--directory",
    metavar="DIR",
    callback=_check_directory,
    help="The fleet's directory in its repository, if that is not the root. [default: that of the fleet.toml here]",
)
@click.option(
    "--html-url", "page", metavar="URL", callback=parse_page_url, help="Where people find the page of `preview --html`."
)
def comment(*, file: Path, number: int | None, directory: str | None, page: str) -> int:
    """Post the preview in FILE, which `fleet preview --comment-file` wrote: one comment and a commit status.

    For two jobs in CI: one evaluates the pull request and holds no token that may write, the other one holds the token
    and runs this. FILE is checked as what strangers wrote. The pull request and its commit come from the CI job, and no
    clone is needed. A preview of another commit than the pull request's newest is not posted.

    The token is FLEET_FORGE_TOKEN, else GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN.

    \b
    fleet preview --comment-file preview.json       (in the first job)
    fleet comment preview.json                      (in the second)
    """
    import os

    from fleet.cli.preview_comment import ForgeSession, is_overtaken
    from fleet.errors import FleetError
    from fleet.forge import detect
    from fleet.forge.detect import detect_repository, read_token
    from fleet.preview.comment import CommentIdentity, error_text, read_request
    from fleet.preview.comment_file import read_comment

    job = detect.detect_job(os.environ)
    number = number or (job.number if job else None)
    if number is None:
        raise click.UsageError("which pull request? Say --pull-request NUMBER: this is no CI job of one")
    remote, settings, fleet_directory = _read_clone()
    identity = CommentIdentity(fleet_directory if directory is None else directory, page)
    repository = detect_repository(remote, settings, job)
    forge_session = ForgeSession(repository, read_token(repository, os.environ), identity)
    written: PreviewComment | FleetError
    try:
        written = read_comment(file)
    except FleetError as error:
        written = error
    live = not isinstance(written, FleetError) and written.live
    request = forge_session.ask(lambda forge: read_request(forge, number, live=live))
    if is_overtaken(job, request.pull_request):
        return 0
    if not isinstance(written, FleetError) and written.head != request.pull_request.head_sha:
        written = _make_commit_error(file, written.head, request.pull_request)
        if not (job and job.number == number and job.head):  # another job may be about the newest commit
            raise written
    if isinstance(written, FleetError):
        forge_session.post(request, error_text(written, request=request, identity=identity))
        raise written
    forge_session.post(request, written.text(request, identity, forge_session.room))
    return 0


def _read_clone() -> tuple[str, ForgeSettings, str]:
    """Return the clone's remote, what that remote's main branch says of the forge, and the fleet's directory.

    All are empty where there is no clone: a job that posts needs none.
    """
    from fleet.cli.preview_comment import find_fleet, find_remote, read_forge_settings
    from fleet.errors import FleetError
    from fleet.repository.settings import ForgeSettings

    try:
        git, directory = find_fleet()
    except FleetError:
        return "", ForgeSettings(), ""
    return find_remote(git), read_forge_settings(git, None, directory), directory


def _make_commit_error(file: Path, head: str, pull_request: PullRequest) -> FleetError:
    """Return the error for a preview of another commit than the pull request's newest."""
    from fleet.errors import ConfigurationError, Source

    return ConfigurationError(
        f"it is a preview of {head[:8]}, and the head of pull request {pull_request.number} is "
        f"{pull_request.head_sha[:8]}",
        hint="preview the newest commit",
        source=Source(str(file)),
        field="head",
    )
