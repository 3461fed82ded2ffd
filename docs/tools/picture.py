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

from docs.tools.reference.text import ROOT
from tests.docs.conftest import desk_of
from tests.docs.terminal import Terminal

TARGET = ROOT / "docs" / "images" / "terminal.svg"
BACKGROUND, TEXT = "#161b22", "#e6edf3"
COLOURS = {"31": "#ff7b72", "32": "#56d364", "33": "#e3b341", "35": "#d2a8ff", "36": "#76e3ea", "2": "#8b949e"}
WIDTH, HEIGHT, SIZE, MARGIN = 8.43, 19, 14, 20  # of a letter, of a line, of the font, around all
_COLOUR = re.compile(r"\x1b\[([\d;]*)m")

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


def record() -> list[str]:
    """The lines of a terminal, with their colours."""
    with tempfile.TemporaryDirectory() as directory, desk_of(Path(directory)) as desk:
        environment = {**desk.environment, "KUBECONFIG": str(desk.lab.kubeconfig)}
        del environment["NO_COLOR"]
        repository = desk.repository(Path(directory) / "work")
        with Terminal(repository, environment, Path(directory)) as terminal:
            (repository / "stacks" / "orders.py").write_text(BEFORE)
            terminal.run("git add . && git commit --quiet -m 'A registry' && fleet sync --no-wait --cluster dev")
            (repository / "stacks" / "orders.py").write_text(AFTER)
            lines = ["$ fleet preview", *_kept(terminal.run("fleet preview").raw), ""]
            commit = "git commit --quiet --all -m 'etcd 3.6'"
            terminal.run(commit)
            lines += [f"$ {commit}", "$ fleet sync --no-wait"]
            said = _kept(terminal.run("fleet sync --no-wait").raw)
            lines += [f"{_dim('  (the same plan)')}", *said[-2:]]
    return lines


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def _kept(raw: str) -> list[str]:
    """What is not wiped away: lines without the controls of progress displays."""
    raw = re.sub(
        r"\x1b\[\?25l.*?\x1b\[\?25h(?:\r?\x1b\[1A)?(?:\r?\x1b\[2K)?(?:\x1b\[1A\x1b\[2K)*", "", raw, flags=re.DOTALL
    )
    return [line for line in raw.replace("\r", "").strip("\n").split("\n") if not line.startswith("prod: the kind")]


def spans(line: str) -> Iterator[tuple[str, str, bool]]:
    """The parts of a line with colour and weight."""
    position, colour, bold = 0, TEXT, False
    for match in [*_COLOUR.finditer(line), None]:
        text = line[position : match.start() if match else None]
        if text:
            yield text, colour, bold
        if match:
            position = match.end()
            for code in match[1].split(";"):
                colour = TEXT if code in ("", "0") else COLOURS.get(code, colour)
                bold = code == "1" or (bold and code not in ("", "0"))


def picture(lines: list[str]) -> str:
    columns = max(len(_COLOUR.sub("", line)) for line in lines)
    width, height = round(columns * WIDTH + 2 * MARGIN), round(len(lines) * HEIGHT + 2 * MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="fleet preview and fleet sync at a terminal">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{SIZE}" '
        'xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        column, y = 0, MARGIN + HEIGHT * number + SIZE
        for text, colour, bold in spans(line):
            x = MARGIN + column * WIDTH
            column += len(text)
            if text.strip():
                # The length is given, so that columns stay straight whatever font there is.
                length = f'textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
                weight = ' font-weight="bold"' if bold else ""
                parts.append(f'<text x="{x:.1f}" y="{y}" fill="{colour}"{weight} {length}>{escape(text)}</text>')
    return "\n".join([*parts, "</g>", "</svg>", ""])


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(record()), encoding="utf-8")
