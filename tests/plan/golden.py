"""Every view of the example, as files that people look at and tests compare to the byte.

python -m tests.plan.golden     write them anew, after a view was changed on purpose; look at the difference in git
"""

from __future__ import annotations

from pathlib import Path

import orjson
import yaml

from fleet.plan.views.html import html_page
from fleet.plan.views.json import plan_data
from fleet.plan.views.markdown import markdown_comment, markdown_comments
from fleet.plan.views.text import text_tree
from tests.plan.example import about, branches

DIRECTORY = Path(__file__).parent / "views"
WIDTHS = (40, 60, 80, 120)


def views() -> dict[str, str]:
    """Every file by its name."""
    data = plan_data(branches(), about=about())
    made = {
        "text.txt": text_tree(branches(), about=about()),
        "text-colour.txt": text_tree(branches(), about=about(), colour=True),
        "text-unchanged.txt": text_tree(branches(), about=about(), unchanged=True),
        "text-without-a-merge.txt": text_tree(branches()),
        "preview.md": markdown_comment(branches(), about=about()),
        "preview-cut.md": markdown_comment(branches(), about=about(), limit=3000),
        "preview.html": html_page(branches(), about=about()),
        "preview.json": orjson.dumps(data, option=orjson.OPT_INDENT_2).decode(),
        "preview.yaml": yaml.safe_dump(data, sort_keys=False, allow_unicode=True),
        "nothing.txt": text_tree([]),
        "nothing.md": markdown_comment([]),
        "nothing.html": html_page([]),
    }
    for width in WIDTHS:
        made[f"text-{width}.txt"] = text_tree(branches(), about=about(), width=width)
        made[f"text-{width}-colour.txt"] = text_tree(branches(), about=about(), width=width, colour=True)
    for number, text in enumerate(markdown_comments(branches(), about=about(), limit=3000), start=1):
        made[f"preview-comment-{number}.md"] = text
    return {name: f"{text.rstrip()}\n" for name, text in made.items()}


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for file in DIRECTORY.iterdir():
        file.unlink()
    for name, text in views().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
