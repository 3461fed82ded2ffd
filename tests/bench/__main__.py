"""Run benchmarks and print their figures as Markdown; with --write, keep them in docs/performance/."""

from __future__ import annotations

import argparse
import datetime
import importlib
import platform
import sys
from pathlib import Path

import psutil

from tests.bench.figure import HEADER, Figure

BENCHMARKS = ("cli", "evaluate", "sandbox", "preview", "sync", "beside", "serve", "operator", "failover", "lab", "demo")
ON_DEMAND = ("cold", "s3")  # minutes of the whole machine: measured when named
MODULES = {"operator": "operators.bench"}  # those whose module is not named as they are
DOCS = Path(__file__).parents[2] / "docs" / "performance"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(BENCHMARKS)}, all by default; or {', '.join(ON_DEMAND)}",
    )
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/performance/NAME.md")
    options = parser.parse_args()
    for unknown in set(options.names) - {*BENCHMARKS, *ON_DEMAND}:
        parser.error(f"there is no benchmark {unknown!r}; there are: {', '.join((*BENCHMARKS, *ON_DEMAND))}")
    for name in options.names or BENCHMARKS:
        module = importlib.import_module(f"tests.bench.{MODULES.get(name, name)}")
        print(f"measuring {name} …", file=sys.stderr)
        text = report(name, (module.__doc__ or "").strip(), list(module.figures()))
        print(text)
        if options.write:
            DOCS.mkdir(parents=True, exist_ok=True)
            (DOCS / f"{name}.md").write_text(text)


def report(name: str, about: str, figures: list[Figure]) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, {platform.system()} "
    machine += f"{platform.release().partition('-')[0]}, Python {platform.python_version()}"
    lines = [
        f"# Performance: {name}",
        "",
        about,
        "",
        f"Measured on {today} by `python -m tests.bench {name}` on {machine}.",
    ]
    for shortfall in filter(None, (figure.shortfall for figure in figures)):
        lines += ["", shortfall]
    lines += ["", f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    lines += [f"| {' | '.join(figure.row())} |" for figure in figures]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
