"""Writes docs/images/terminal.svg: `fleet preview` and `fleet sync` as a terminal showed them in a real run.

It starts a lab of its own with two clusters, makes a repository, syncs it, changes it, and records what the terminal
says then. The picture brings its own dark background, so it reads the same on light and on dark pages, and no fonts.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

from docs.tools.reference.text import ROOT
from tests.docs.conftest import desk_of
from tests.docs.terminal import Terminal, coloured

TARGET = ROOT / "docs" / "images" / "terminal.svg"
BACKGROUND, TEXT = "#161b22", "#e6edf3"
COLOURS = {"31": "#ff7b72", "32": "#56d364", "33": "#e3b341", "35": "#d2a8ff", "36": "#76e3ea", "2": "#8b949e"}
WIDTH, HEIGHT, SIZE, MARGIN = 8.43, 19, 14, 20  # of a letter, of a line, of the font, around all
COLUMNS = 118
COMMIT = 'git commit --quiet --all -m "etcd 3.6"'

BEFORE = """import fleet
from fleet.apps import Etcd


@fleet.stack(clusters=fleet.where(env=["dev", "prod"]))
def orders(cluster: fleet.Cluster) -> None:
    registry = Etcd("registry", version="3.4", members=3)
    fleet.Manifest(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "registry"}, "data": {"at": registry.endpoint}}
    )
"""
AFTER = """import fleet
from fleet.apps import Etcd


@fleet.stack(clusters=fleet.where(env=["dev", "prod"]))
def orders(cluster: fleet.Cluster) -> None:
    production = cluster.labels["env"] == "prod"
    registry = Etcd("registry", version="3.6", members=5 if production else 3)
    fleet.Manifest(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clients"}, "data": {"at": registry.endpoint}}
    )
"""


Line = list[tuple[str, str]]  # runs of text, each with its colour


def record() -> list[Line]:
    """What the terminal shows."""
    with tempfile.TemporaryDirectory() as directory, desk_of(Path(directory)) as desk:
        environment = {**desk.environment, "KUBECONFIG": str(desk.lab.kubeconfig)}
        del environment["NO_COLOR"]
        repository = desk.repository(Path(directory) / "work", "shop")
        with Terminal(repository, environment, Path(directory)) as terminal:
            (repository / "stacks" / "orders.py").write_text(BEFORE)
            terminal.run("git add . && git commit --quiet -m 'A registry' && fleet sync --no-wait --cluster dev")
            (repository / "stacks" / "orders.py").write_text(AFTER)
            preview = coloured(terminal.run("fleet preview").raw)
            terminal.run(COMMIT)
            sync = coloured(terminal.run("fleet sync --no-wait").raw)
    plan = [line for line in preview if not _text(line).startswith("prod: the kind")]
    outcome = [line for line in sync if _text(line).startswith("•")]
    plan = [row for line in plan for row in _wrapped(line)]
    return [_typed("fleet preview"), *plan, [], _typed(COMMIT), _typed("fleet sync --no-wait"), [("…", "2")], *outcome]


def _typed(command: str) -> Line:
    return [("$ ", "2"), (command, "1")]


def _wrapped(line: Line) -> list[Line]:
    """As a terminal of that width shows it; only lines of one colour are so long."""
    text = _text(line)
    if len(text) <= COLUMNS:
        return [line]
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return [[(part, line[0][1])] for part in wrap(text, COLUMNS, subsequent_indent=indent, drop_whitespace=True)]


def _pieces(line: Line) -> Iterator[tuple[int, str, str]]:
    """Column, text and colour of what stands between wide spaces: not every viewer keeps those."""
    column = 0
    for run, style in line:
        for found in re.finditer(r"\S+(?: \S+)*", run):
            yield column + found.start(), found[0], style
        column += len(run)


def _text(line: Line) -> str:
    return "".join(text for text, _ in line)


def picture(lines: list[Line]) -> str:
    columns = max(len(_text(line)) for line in lines)
    width, height = round(columns * WIDTH + 2 * MARGIN), round(len(lines) * HEIGHT + 2 * MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="fleet preview and fleet sync at a terminal">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{SIZE}">',
    ]
    for number, line in enumerate(lines):
        y = MARGIN + HEIGHT * number + SIZE
        for column, text, style in _pieces(line):
            x = MARGIN + column * WIDTH
            # The length is given, so that columns stay straight whatever font there is.
            length = f'textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            weight = ' font-weight="bold"' if style == "1" else ""
            colour = COLOURS.get(style, TEXT)
            parts.append(f'<text x="{x:.1f}" y="{y}" fill="{colour}"{weight} {length}>{escape(text)}</text>')
    return "\n".join([*parts, "</g>", "</svg>", ""])


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(record()), encoding="utf-8")
