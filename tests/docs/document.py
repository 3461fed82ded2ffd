"""Markdown as a test sees it: the fenced examples of a page, in order, and the reason of those that cannot run.

- `console`: lines that begin with `$ ` are commands, further lines of one begin with `> `; what follows is the output,
  where a line `...` stands for any lines and `...` inside a line for any text and the spaces behind it.
- `python`, `toml`, `yaml`: a block whose first line is `# some/path.py` is that file; other Python is run as it is.
- `<!-- not run: reason -->` right above a block leaves it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNABLE = ("console", "sh", "python", "toml", "yaml")
_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*)")
_NOT_RUN = re.compile(r" *<!-- not run: (?P<reason>\S.*) -->")
_FILE = re.compile(r"# (?P<path>[\w.-]+(/[\w.-]+)*\.(py|toml|ya?ml))")


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    line: int
    not_run: str = ""

    @property
    def path(self) -> str:
        """The file that it is, "" if it is none."""
        match = _FILE.fullmatch(self.text.partition("\n")[0])
        return match["path"] if match else ""


@dataclass(frozen=True, slots=True)
class Command:
    text: str
    line: int
    output: tuple[str, ...]


def pages() -> list[Path]:
    """Every page with examples for people; what is generated has its own test."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    left_out = (ROOT / "docs" / "reference", ROOT / "docs" / "performance")
    return sorted(page for page in found if not any(page.is_relative_to(one) for one in left_out))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    above = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if not fence:
            above = line
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner.removeprefix(fence["indent"]))
        reason = _NOT_RUN.fullmatch(above)
        found.append(Block(fence["language"], "\n".join(body), number, reason["reason"] if reason else ""))
        above = ""
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a `console` block, each with the output that is shown for it."""
    found: list[tuple[str, int, list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            found.append((line[2:], number, []))
        elif line.startswith("> ") and found and not found[-1][2]:
            text, first, output = found[-1]
            found[-1] = (f"{text}\n{line[2:]}", first, output)
        elif found:
            found[-1][2].append(line)
        else:
            raise AssertionError(f"line {number}: output before the first command")
    return [Command(text, number, tuple(_without_empty_end(output))) for text, number, output in found]


def agrees(shown: tuple[str, ...], said: list[str]) -> bool:
    """Whether what is shown in a page is what was said, with `...` for what may be anything."""
    parts = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append(".*".join(re.escape(part) for part in re.split(r"\.\.\. *", line.rstrip())) + r"[ ]*\n")
    text = "".join(f"{line.rstrip()}\n" for line in said)
    return re.fullmatch("".join(parts), text) is not None


def _without_empty_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
