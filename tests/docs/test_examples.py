"""Every example of README and docs/ is run as it stands there, on real clusters, and says what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api

from tests.docs.conftest import Desk
from tests.docs.document import ROOT, RUNNABLE, Block, agrees, blocks, commands, pages
from tests.docs.terminal import Terminal

FROM_NOTHING = ("README.md", "docs/tutorial.md")  # pages that begin in an empty directory; others in a repository
WITH_EXAMPLES = [page for page in pages() if any(block.language in RUNNABLE for block in blocks(page))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def terminal(desk: Desk, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    page: Path = request.getfixturevalue("page")
    directory = tmp_path / "work"
    environment = dict(desk.environment)
    if name(page) in FROM_NOTHING:
        directory.mkdir()
    else:
        directory = desk.repository(directory)
        environment["KUBECONFIG"] = str(desk.lab.kubeconfig)
    with Terminal(directory, environment, tmp_path) as opened:
        yield opened
    desk.tidy()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_the_examples_of_a_page_do_what_it_says(page: Path, terminal: Terminal) -> None:
    for block in blocks(page):
        if block.not_run:
            continue
        if block.language == "console":
            _type(page, block, terminal)
        elif block.path:
            _write(block, terminal)
        elif block.language == "python":
            said = terminal.run(f"python - <<'END_OF_EXAMPLE'\n{block.text}\nEND_OF_EXAMPLE")
            assert said.code == 0, f"{name(page)}:{block.line}\n" + "\n".join(said.lines)


def _type(page: Path, block: Block, terminal: Terminal) -> None:
    typed = commands(block)
    for command, following in zip(typed, [*typed[1:], None], strict=True):
        said = terminal.run(command.text)
        where = f"{name(page)}:{command.line}\n$ {command.text}\n" + "\n".join(said.lines)
        code_is_shown = following is not None and following.text == "echo $?"
        assert said.code == 0 or code_is_shown, f"{where}\nexit code {said.code}"
        if command.output:
            assert agrees(command.output, said.lines), f"{where}\n--- the page shows\n" + "\n".join(command.output)


def _write(block: Block, terminal: Terminal) -> None:
    make = f"mkdir -p \"$(dirname '{block.path}')\""
    said = terminal.run(f"{make} && cat > '{block.path}' <<'END_OF_EXAMPLE'\n{block.text}\nEND_OF_EXAMPLE")
    assert said.code == 0, said.raw


def test_every_python_example_passes_a_strict_type_checker(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for page in WITH_EXAMPLES:
        for block in blocks(page):
            if block.language == "python":
                stem = re.sub(r"\W", "_", name(page).removesuffix(".md"))
                path = tmp_path / f"{stem}_{block.line}" / (block.path or "example.py")
                path.parent.mkdir(parents=True)
                path.write_text(block.text + "\n", encoding="utf-8")
                files[str(path)] = f"{name(page)}:{block.line}"
    options = ["--strict", "--config-file=", "--explicit-package-bases", "--disable-error-code=import-not-found"]
    cache = ROOT / ".mypy_cache" / "examples"
    report, failure, code = api.run([*options, f"--cache-dir={cache}", *files])
    for file, where in files.items():
        report = report.replace(file, where)
    assert code == 0, report + failure


def test_every_block_that_could_run_says_how_or_why_not() -> None:
    for page in WITH_EXAMPLES:
        for block in blocks(page):
            where = f"{name(page)}:{block.line}"
            assert block.language, f"{where}: a fence without a language (text, console, python …)"
            assert block.language != "sh" or block.not_run, f"{where}: `sh` is not run; write `console` with `$ `"


def test_examples_that_are_not_run_are_few() -> None:
    everything = [block for page in WITH_EXAMPLES for block in blocks(page) if block.language in RUNNABLE]
    left_out = [block for block in everything if block.not_run]
    assert len(left_out) <= len(everything) / 8, [block.text for block in left_out]
