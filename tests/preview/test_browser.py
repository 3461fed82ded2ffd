"""The HTML of a preview in a real browser: at a desk and on a phone, light and dark."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.lab.programs.packages import find_program, require_programs
from fleet.plan.views.html import html_page
from tests.plan.example import about, branches
from tests.preview.browser import opened

PHONE, DESK = (390, 844), (1280, 900)
LOOK = """(() => {
  const box = one => one.getBoundingClientRect();
  const all = [...document.querySelectorAll("body *")];
  const shown = one => box(one).width > 0 && box(one).height > 0;
  return {
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    outside: all.filter(one => shown(one) && box(one).right > document.documentElement.clientWidth + 1).length,
    smallest: Math.min(...all.filter(shown).map(one => parseFloat(getComputedStyle(one).fontSize))),
    back: getComputedStyle(document.body).backgroundColor,
    text: getComputedStyle(document.body).color,
    danger: box(document.querySelector(".danger")).top,
    first: box(document.querySelector("details")).top,
    words: document.body.innerText,
    folds: document.querySelectorAll("details").length,
  };
})()"""


@pytest.fixture(scope="module")
def chromium() -> str:
    try:
        require_programs({"chromium": "chromium"}, "pictures of pages")
    except ResourceError as problem:
        pytest.skip(str(problem))
    found = find_program("chromium")
    assert found
    return found


@pytest.fixture(scope="module")
def looks(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], dict[str, Any]]:
    """What the page looks like at each size and in each scheme; pictures go to FLEET_PICTURES where that is set."""
    directory = tmp_path_factory.mktemp("page")
    file = directory / "preview.html"
    file.write_text(html_page(branches(), about=about()), encoding="utf-8")
    pictures = Path(os.environ.get("FLEET_PICTURES") or directory)

    async def look() -> dict[tuple[int, bool], dict[str, Any]]:
        found = {}
        async with opened(chromium) as tab:
            for width, height in (PHONE, DESK):
                for dark in (False, True):
                    await tab.open(file, width=width, height=height, dark=dark)
                    seen = await tab.ask(LOOK)
                    found[width, dark] = {**seen, "requests": list(tab.requests), "picture": await tab.picture()}
        return found

    seen = asyncio.run(look())
    for (width, dark), one in seen.items():
        (pictures / f"preview-{width}-{'dark' if dark else 'light'}.png").write_bytes(one["picture"])
    return seen


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE[0], DESK[0]])
def test_the_page_fits_and_can_be_read(looks: dict[tuple[int, bool], dict[str, Any]], width: int, dark: bool) -> None:
    seen = looks[width, dark]
    assert seen["overflow"] <= 0, "nobody scrolls sideways"
    assert seen["outside"] == 0
    assert seen["smallest"] >= 12
    assert seen["danger"] < seen["first"], "what is destructive stands above every fold"
    for part in ("3 destructive changes", "data deleted", "rolling restart of 3 pods", "point of no return", "drift:"):
        assert part in seen["words"]


def test_light_and_dark_are_as_the_reader_has_them(looks: dict[tuple[int, bool], dict[str, Any]]) -> None:
    light, dark = looks[DESK[0], False], looks[DESK[0], True]
    assert (light["back"], light["text"]) == ("rgb(255, 255, 255)", "rgb(31, 35, 40)")
    assert (dark["back"], dark["text"]) == ("rgb(13, 17, 23)", "rgb(230, 237, 243)")


def test_the_page_asks_for_nothing_but_itself(looks: dict[tuple[int, bool], dict[str, Any]]) -> None:
    for seen in looks.values():
        assert {address.rpartition("/")[2] for address in seen["requests"]} <= {"preview.html", "favicon.ico"}
