"""`fleet init`: a new repository that passes its own checks and tests from the first minute."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.output import emit_result, output_option, print_message


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--no-git", is_flag=True, help="Do not make it a git repository.")
@click.option(
    "--schema",
    "only_schema",
    is_flag=True,
    help="Write only fleet.schema.json, anew, into the repository around DIRECTORY: after an upgrade of fleet.",
)
@output_option
def init(directory: Path, no_git: bool, only_schema: bool, form: str) -> None:
    """Make a new repository in DIRECTORY (here, unless named).

    It has settings (and the JSON schema with which editors check them), a cluster, a stack, tests that hold for every
    stack, and for GitHub, Gitea and GitLab jobs that check every pull request and comment what it would change. Nothing
    that exists is overwritten, and a directory that is in no git repository becomes one, on the branch main.

    \b
    fleet init shop && cd shop && fleet check
    """
    from fleet.repository.scaffold import write_repository

    if only_schema:
        _write_schema(directory, form)
        return
    files = write_repository(directory)
    git_message = "" if no_git else _init_git(directory)
    steps = [*([f"cd {directory}"] if directory != Path() else []), "fleet check", "pytest", "fleet preview"]
    data = {"directory": str(directory), "files": list(files), "git": git_message or None, "next": steps}
    emit_result(data, form, lambda: "\n".join([*files, "", "Next:", *(f"  {step}" for step in steps)]))
    if git_message:
        print_message(git_message)


def _write_schema(directory: Path, form: str) -> None:
    from fleet.repository import find_root
    from fleet.repository.scaffold import DIRECTIVE, write_schema
    from fleet.repository.settings import FILE

    root = find_root(directory)
    name = write_schema(root)
    emit_result({"directory": str(root), "files": [name]}, form, lambda: name)
    if DIRECTIVE not in (root / FILE).read_text(encoding="utf-8", errors="replace").splitlines():
        print_message(f"editors find it by the first line of {FILE}: {DIRECTIVE}")


def _init_git(directory: Path) -> str:
    """Make a git repository if there is none around and git is installed; return what to tell the user about it."""
    from fleet.errors import FleetError
    from fleet.git.command import Git

    git = Git(directory)
    try:
        if git.run("look for a repository", "rev-parse", "--show-toplevel", accept=(0, 128)).status == 0:
            return ""
        git.run("make a repository", "init", "--quiet", "--initial-branch=main")
    except FleetError as error:  # without git everything but sync works
        return f"no git repository was made: {error.message}"
    return "made a git repository on the branch main"
