"""What is printed: nothing in it is invisible or turns the text around it, and no message has a password of an URL."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from fleet.cli.output import format_json
from fleet.errors import FleetError
from fleet.install.manifests import dockerfile
from fleet.text import escape_json, printable, without_credentials
from fleet.yaml_text import dump, read_documents

ROOT = Path(__file__).parents[2]
OBEYED = [
    *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0x200B, 0x2010))),
    *map(chr, (0x85, 0x9B, 0x7F, 0xAD, 0x61C, 0x2060, 0x206A, 0x3164, 0xFEFF)),
    *map(chr, (0xE0001, 0xE0041, 0xE007F, 0xE0100)),
]

_PYTHON_MODULE = re.compile(r"\bpython[\d.]*\b(?P<options>[^\n|;&]*?)[\s\"']-m\b")


@pytest.mark.parametrize("letter", OBEYED, ids=lambda letter: f"U+{ord(letter):04X}")
def test_what_is_invisible_is_escaped_and_means_the_same(letter: str) -> None:
    data = {f"key{letter}": [f"a{letter}b", "grün 木 🙂"]}
    for text, back in (
        (format_json(data), json.loads),
        (dump(data), lambda text: next(iter(read_documents(text))).data),
    ):
        assert letter not in text
        assert back(text) == data
    assert letter not in printable(f"a{letter}b")


def test_what_is_visible_stays_as_it_is() -> None:
    assert escape_json('{"a": "grün 木 🙂"}') == '{"a": "grün 木 🙂"}'


@pytest.mark.parametrize(
    "user",
    [
        "me",
        "me:secret",
        "me:sec/ret",
        "me:s@cret",
        "me:s/e@c/r@et",
        ":secret",
        "me:",
        "secret%2F",
        "me:1/secret",
        "s@cret",
    ],
)
@pytest.mark.parametrize("place", ["https://{}@host:8443/team/x.git", "ssh://{}@host:8443/team/x.git"])
def test_no_message_has_the_user_or_password_of_an_url(user: str, place: str) -> None:
    url, shown = place.format(user), place.replace("{}@", "")
    assert without_credentials(f"cannot read '{url}', and so on") == f"cannot read '{shown}', and so on"
    error = FleetError(f"cannot read {url}", hint=f"is {url} right?")
    for said in (error.message, error.hint or "", str(error), *error.args):
        assert user not in said.split()
        assert url not in said and shown in said


@pytest.mark.parametrize("text", ["https://host/team/x.git", "https://host:8443/a/b", "git@host:team/x.git", "a @ b"])
def test_what_has_none_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_no_program_that_is_started_finds_modules_where_it_happens_to_stand() -> None:
    """`python -m` puts the directory it is started in before all others; with -P or -I it does not."""
    commands = 0
    for path in [*ROOT.glob("fleet/**/*.py"), *ROOT.glob("operator/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.List | ast.Tuple):
                continue
            words = [ast.unparse(element).strip("'\"") for element in node.elts]
            if "-m" in words and words[0] in ("sys.executable", "python3", "python"):
                commands += 1
                assert {"-P", "-I"} & set(words[: words.index("-m")]), f"{path}:{node.lineno}"
    assert commands > 9


def test_no_job_and_no_image_that_is_written_finds_modules_where_it_happens_to_stand() -> None:
    """In the text of CI templates, Dockerfiles and recipes of images, as command of a shell and as list of words."""
    files = {
        str(path.relative_to(ROOT)): path.read_text()
        for place in ("fleet/repository/template", "fleet/lab/images", "operator/deploy")
        for path in (ROOT / place).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    files["fleet operator dockerfile"] = dockerfile()
    commands = [(name, match) for name, text in files.items() for match in _PYTHON_MODULE.finditer(text)]
    assert len(commands) > 11
    for name, command in commands:
        assert re.search(r"-[PI]\b", command["options"]), f"{name}: {command[0]}"
