"""The JSON schema of fleet.toml: editors find it, and refuse nothing that fleet takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from fleet.repository.scaffold import DIRECTIVE, SCHEMA_FILE, TEMPLATE
from fleet.repository.schema import describe_sections, schema_text, settings_schema
from fleet.repository.settings import read_settings
from tests.copies import ROOT, copy_fleet, insert_before, run_code
from tests.repository.test_settings import EVERY_SETTING, MISTAKES

ONLY_FLEET_JUDGES = [("limits.time", "0s"), ("git.status_branch", "same"), ("approval.branch", "main")]


def errors_in(text: str) -> list[str]:
    """Return the path of each error that the schema finds in a fleet.toml."""
    errors = Draft7Validator(settings_schema()).iter_errors(tomllib.loads(text))
    return [".".join(str(part) for part in error.absolute_path) for error in errors]


def test_the_schema_is_one_and_the_file_of_new_repositories_is_it() -> None:
    Draft7Validator.check_schema(settings_schema())
    assert (TEMPLATE / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text(), "run `make docs`"


@pytest.mark.parametrize("file", [ROOT / "fleet.toml", TEMPLATE / "fleet.toml"], ids=["our own", "the template"])
def test_a_fleet_toml_leads_to_the_schema_and_is_valid_by_it(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    directive, _, address = text.splitlines()[0].partition(" ")
    assert directive == "#:schema"
    assert (file.parent / address).read_text(encoding="utf-8") == schema_text()
    assert errors_in(text) == []


def test_the_template_has_the_line_that_is_told() -> None:
    assert (TEMPLATE / "fleet.toml").read_text(encoding="utf-8").splitlines()[0] == DIRECTIVE


@pytest.mark.parametrize(
    "text",
    [
        EVERY_SETTING,
        "[fleet]\nname = 'example.com/team/fleet'\n[paths]\nstacks = './a/.b/./c'\n",
        "[paths]\nstacks = '...'\nclusters = '..a/b..'\nlock = 'a.lock'\n",
        "[git]\nbranch = 'a.b/c-d@e'\n[limits]\ntime = '1m30s'\ncpu = '1.5h'\n",
        "[budget]\nshare = '100 %'\n[forge]\nurl = 'http://[::1]:3000/git/'\nrepository = 'a/b/c'\nkind = 'gitea'\n",
    ],
    ids=lambda text: " ".join(text.split())[:32],
)
def test_what_fleet_takes_is_right_by_the_schema(text: str) -> None:
    read_settings(text)
    assert errors_in(text) == []


@pytest.mark.parametrize(("text", "line", "field", "hint"), MISTAKES)
def test_a_mistake_in_a_value_is_one_by_the_schema(text: str, line: int, field: str | None, hint: str) -> None:
    if field is None:
        return  # no TOML
    value: Any = tomllib.loads(text)
    for part in field.split("."):
        value = value[part]
    found = errors_in(text)
    if (field, value) in ONLY_FLEET_JUDGES:
        assert found == []
    else:
        assert found[0] in (field, field.rpartition(".")[0]), "an unknown name is an error of what has it"


def test_every_section_and_setting_is_explained() -> None:
    for name, description, settings in describe_sections():
        assert description.endswith("."), name
        for setting in settings:
            assert setting.description.endswith("."), f"{name}.{setting.name} has no docstring"


def test_a_setting_is_one_field(tmp_path: Path) -> None:
    """Its default, its check with the line, its place in the schema and in the reference follow from the field."""
    settings = copy_fleet(tmp_path) / "repository" / "settings.py"
    field = '    pods: int = setting(values.COUNT, 7)\n    """The pods that one sync may delete."""\n'
    insert_before(settings, '    share: float = setting(values.SHARE, "10%")\n', field)
    code = """
from docs.tools.reference.settings import settings as reference
from fleet.errors import ConfigurationError
from fleet.repository.schema import settings_schema
from fleet.repository.settings import read_settings

print(read_settings("").budget.pods, read_settings("[budget]\\npods = 3").budget.pods)
try:
    read_settings("[budget]\\n\\npods = -1")
except ConfigurationError as error:
    print(error.source.line, error.field, error.hint)
print(settings_schema()["properties"]["budget"]["properties"]["pods"])
print([line for line in reference().splitlines() if "pods" in line])
"""
    assert run_code(tmp_path, code).splitlines() == [
        "7 3",
        "3 budget.pods pods is a whole number, 0 or more and 1000000 at most",
        "{'description': 'The pods that one sync may delete.', 'type': 'integer', 'minimum': 0, 'maximum': 1000000,"
        " 'default': 7}",
        "['| `pods` | `7` | The pods that one sync may delete. |']",
    ]
