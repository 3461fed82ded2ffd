"""Plans as commands show them: the table of views, and what is printed, written to a page and counted.

A new view is a module in fleet.plan.views and an entry in VIEWS. Views are imported when they are used: a command that
shows no plan loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import get_terminal_width, is_colour_wanted
from fleet.cli.output import format_json, print_message

if TYPE_CHECKING:
    from fleet.plan.views.summary import PlanView, ViewHeader
    from fleet.sync.run import Run


def _view_text(branches: Sequence[PlanView], about: ViewHeader, unchanged: bool) -> str:
    from fleet.plan.views.text import text_tree

    colour, width = is_colour_wanted(), get_terminal_width()
    return text_tree(branches, colour=colour, unchanged=unchanged, width=width, about=about)


def _view_json(branches: Sequence[PlanView], about: ViewHeader, unchanged: bool) -> str:
    from fleet.plan.views.json import plan_data

    return format_json(plan_data(branches, unchanged=unchanged, about=about))


def _view_yaml(branches: Sequence[PlanView], about: ViewHeader, unchanged: bool) -> str:
    from fleet.plan.views.json import plan_data
    from fleet.yaml_text import dump

    return dump(plan_data(branches, unchanged=unchanged, about=about)).rstrip()


def _view_markdown(branches: Sequence[PlanView], about: ViewHeader, _: bool) -> str:
    from fleet.plan.views.markdown import markdown_comment

    return markdown_comment(branches, about=about)


def _view_html(branches: Sequence[PlanView], about: ViewHeader, _: bool) -> str:
    from fleet.plan.views.html import html_page

    return html_page(branches, about=about).removesuffix("\n")


VIEWS: dict[str, Callable[[Sequence[PlanView], ViewHeader, bool], str]] = {
    "text": _view_text,
    "json": _view_json,
    "yaml": _view_yaml,
    "markdown": _view_markdown,
    "html": _view_html,
}

plan_output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(list(VIEWS)),
    default="text",
    show_default=True,
    help="Form of the result on standard output.",
)


def view_plan(
    branches: Sequence[PlanView], form: str, *, unchanged: bool = False, about: ViewHeader | None = None
) -> str:
    """Return plans in one of the forms of VIEWS, without the last line break; `about` says what was compared."""
    from fleet.plan.views.summary import LIVE_HEADER

    return VIEWS[form](branches, about or LIVE_HEADER, unchanged)


def print_plan(run: Run, form: str, *, unchanged: bool = False, about: ViewHeader | None = None) -> None:
    """Print the plans of a run on standard output, and the run's remarks on standard error."""
    branches = [result.branch for result in run.results]
    click.echo(view_plan(branches, form, unchanged=unchanged, about=_add_remarks(about, run)))
    for line in run.remarks:
        print_message(line)


def write_page(run: Run, file: Path | None, about: ViewHeader | None = None) -> None:
    """Write the plans of a run as an HTML page if the user named a file; raise ConfigurationError if that fails."""
    if file is None:
        return
    from fleet.errors import ConfigurationError

    text = view_plan([result.branch for result in run.results], "html", about=_add_remarks(about, run))
    try:
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None


def _add_remarks(about: ViewHeader | None, run: Run) -> ViewHeader:
    from dataclasses import replace

    from fleet.plan.views.summary import LIVE_HEADER

    return replace(about or LIVE_HEADER, remarks=run.remarks)


def count_changes(run: Run) -> int:
    """Return how many objects the plans of a run change; a stack taken over from another repository counts as one."""
    plans = [result.plan for result in run.results if result.plan]
    return sum(bool(plan.taken_from) + sum(step.verb != "unchanged" for step in plan.steps) for plan in plans)
