"""`fleet check`: evaluation and validation of all that the repository holds. Nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.clusters import open_repository
from fleet.cli.output import emit_result, format_table, output_option, print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.evaluate import Evaluation, Problem


@click.command()
@click.option("--revision", metavar="REV", help="Check this commit and not the working tree.")
@click.option("--once", is_flag=True, help="Evaluate once only: quicker, and proves no determinism.")
@output_option
def check(revision: str | None, once: bool, form: str) -> int:
    """Evaluate and validate every stack, twice, for all its clusters.

    The second time the clock, the order of sets and of directory listings are others: a stack whose result depends on
    them is found here and not in a plan that nobody understands. What stacks print is shown. Exit code 2 when anything
    is wrong.

    \b
    fleet check
    fleet check --revision origin/main -o json
    """
    from fleet.evaluate import Pool

    with open_repository(revision) as repository, Pool(twice=not once) as pool:
        from fleet.evaluate import evaluate  # while the pool warms up

        evaluation = evaluate(repository, twice=not once, pool=pool)
        level = pool.sandbox_report().level
    if not level.confines:
        print_message("the stacks ran without a sandbox: see `fleet doctor`")
    if form == "text":
        evaluation.check()
        for file in sorted(
            {read.file for read in evaluation.reads} - {stack.source.file for stack in evaluation.stacks}
        ):
            print_message(f"{file} declares no stack; start the name with _ if it is shared code")
        for file, text in evaluation.printed:
            print_message("\n".join([f"{file} printed:", *(f"    {line}" for line in text.splitlines())]))
        for line in _find_unknown_releases(evaluation):
            print_message(line)
    emit_result(
        _evaluation_data(evaluation) | {"sandbox": level}, form, lambda: _format_evaluation(evaluation, twice=not once)
    )
    return evaluation.problems[0].exit_code if evaluation.problems else 0


def _evaluation_data(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "ok": not evaluation.problems,
        "problems": [_problem_data(problem) for problem in evaluation.problems],
        "printed": dict(evaluation.printed),
        "clusters": [cluster.name for cluster in evaluation.clusters],
        "stacks": [
            {
                "name": stack.name,
                "source": str(stack.source),
                "clusters": list(stack.clusters),
                "waves": [list(wave) for wave in stack.rollout.waves],
                "needs": list(stack.needs),
                "objects": sum(len(desired.objects) for desired in stack.desired),
            }
            for stack in evaluation.stacks
        ],
    }


def _find_unknown_releases(evaluation: Evaluation) -> list[str]:
    """Return a line per place in the files where an app has a version that this release of fleet does not know."""
    objects = (item for stack in evaluation.stacks for desired in stack.desired for item in desired.objects)
    apps = [item for item in objects if item.app and _is_exact_release(item.manifest)]
    if not apps:
        return []
    from fleet.apps.impact import unknown_release  # the model, which a check needs for nothing else

    lines = {(item.source, item.key.name, unknown_release(item.key.kind, item.manifest)) for item in apps}
    return sorted(f"{source}: {name}: {line}" for source, name, line in lines if line)


def _is_exact_release(manifest: Mapping[str, Any]) -> bool:
    """Return whether an app's version is an exact release, such as 3.5.21."""
    spec = manifest.get("spec")
    return isinstance(spec, dict) and str(spec.get("version")).count(".") == 2


def _problem_data(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.source.file if problem.source else None,
        "line": problem.source.line if problem.source else None,
        "field": problem.field,
        "message": problem.message,
        "hint": problem.hint,
        "output": problem.output or None,
    }


def _format_evaluation(evaluation: Evaluation, *, twice: bool) -> str:
    rows = [
        [
            stack.name,
            _format_names(stack.clusters),
            str(sum(len(desired.objects) for desired in stack.desired)),
            str(stack.source),
        ]
        for stack in evaluation.stacks
    ]
    count = f"{count_noun(len(evaluation.stacks), 'stack')}, {count_noun(len(evaluation.clusters), 'cluster')}"
    proof = ", the same result twice" if twice else ""
    summary = f"All right: {count}{proof}."
    return f"{format_table(['stack', 'clusters', 'objects', 'source'], rows)}\n\n{summary}" if rows else summary


def _format_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
