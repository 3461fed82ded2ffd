"""Every example of README and docs/ is run as it stands there, on real clusters, and says what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api

from fleet.lab.faults import clear
from tests.docs.conftest import Desk
from tests.docs.document import ROOT, RUNNABLE, Block, agrees, blocks, commands, pages
from tests.docs.terminal import Terminal


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _is_run(page: Path) -> bool:
    return any(block.language in RUNNABLE and not block.not_run for block in blocks(page))


FROM_NOTHING = ("README.md", "docs/tutorial.md")  # pages that begin in an empty directory; others in a repository
ON_REAL_NODES = "docs/tutorial-etcd.md"  # see test_real_nodes.py
IN_ITS_OWN_PYTHON = "docs/tutorial-app-type.md"  # see test_tutorial_app_type.py
WITH_THE_OPERATOR = ("docs/how-to/backup.md", "docs/how-to/connect.md", "docs/how-to/operate-etcd.md")  # there too
TESTS_ON_REAL_NODES = ("docs/how-to/lab-images.md", "docs/how-to/lab-volumes.md")  # whose test is run there
WITHOUT_A_CLUSTER = {  # pages whose stacks are for something else than clusters
    "docs/how-to/packages.md": "what is wrong with a lockfile",
    "docs/how-to/test-a-stack.md": "tests of stacks without a cluster",
    "docs/tutorial-app-type.md": "an app type that is nowhere but there",
}
WITH_CLUSTERS = re.compile(r"fleet (sync|serve|agent|preview|cluster)\b")  # commands that do something with a stack
TO_THE_END = "docs/tutorial.md"  # the page that takes the lab down
WITH_EXAMPLES = sorted(
    (page for page in pages() if any(block.language in RUNNABLE for block in blocks(page))),
    key=lambda page: name(page) == TO_THE_END,
)


@pytest.fixture
def terminal(desk: Desk, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """At the start of a page: an empty directory and clusters with nothing in them, or a repository."""
    page: Path = request.getfixturevalue("page")
    directory = tmp_path / "work"
    environment = dict(desk.environment)
    if name(page) in FROM_NOTHING:
        directory.mkdir()
        desk.tidy()
    else:
        directory = desk.repository(directory, page.stem)
        environment["KUBECONFIG"] = str(desk.lab.kubeconfig)
    try:
        with Terminal(directory, environment, tmp_path) as opened:
            yield opened
    finally:
        clear(desk.lab)  # of a page that did not come to its end
    if name(page) in FROM_NOTHING:
        desk.tidy_behind()


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in WITH_EXAMPLES
        if _is_run(page) and name(page) not in (ON_REAL_NODES, IN_ITS_OWN_PYTHON, *WITH_THE_OPERATOR)
    ],
    ids=name,
)
def test_the_examples_of_a_page_do_what_it_says(page: Path, terminal: Terminal) -> None:
    follow(page, terminal)


def follow(page: Path, terminal: Terminal) -> None:
    """Type and write what stands there, from top to bottom, and compare."""
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


def test_every_python_example_passes_a_strict_type_checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str] = {}
    for page in WITH_EXAMPLES:
        for block in blocks(page):
            if block.language == "python":
                stem = re.sub(r"\W", "_", name(page).removesuffix(".md"))
                path = tmp_path / f"{stem}_{block.line}" / (block.path or "example.py")
                path.parent.mkdir(parents=True)
                path.write_text(block.text + "\n", encoding="utf-8")
                files[str(path)] = f"{name(page)}:{block.line}"
    options = ["--strict", "--config-file=", "--explicit-package-bases"]
    options += [f"--disable-error-code={code}" for code in ("import-not-found", "import-untyped")]  # of each other
    cache = ROOT / ".mypy_cache" / "examples"
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
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
            is_file = block.language not in {"toml", "yaml"} or block.path or block.not_run
            assert is_file, f"{where}: nobody reads it; its first line is `# PATH`, the file that it is"


def test_no_example_is_only_written() -> None:
    """A stack is for clusters, and a test is run: neither is shown that nothing was done with."""
    for page in WITH_EXAMPLES:
        shown = [block for block in blocks(page) if not block.not_run]
        typed = [
            (block.line, command.text) for block in shown if block.language == "console" for command in commands(block)
        ]
        for block in shown:
            if block.language != "python" or not block.path:
                continue
            later = [text for line, text in typed if line > block.line]
            where = f"{name(page)}:{block.line}: {block.path}"
            if block.path.startswith("tests/"):
                is_run = name(page) in TESTS_ON_REAL_NODES or any("pytest" in text for text in later)
                assert is_run, f"{where} is a test that nobody runs"
            else:
                is_used = name(page) in WITHOUT_A_CLUSTER or any(WITH_CLUSTERS.search(text) for text in later)
                assert is_used, f"{where} is only checked"


def test_examples_that_are_not_run_are_few() -> None:
    everything = [block for page in WITH_EXAMPLES for block in blocks(page) if block.language in RUNNABLE]
    left_out = [block for block in everything if block.not_run]
    assert len(left_out) <= len(everything) / 8, [block.text for block in left_out]
