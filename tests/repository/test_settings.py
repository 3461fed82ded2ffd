"""fleet.toml: everything has a default, and a mistake is told with line, field and what would be right."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError
from fleet.repository import Code, Fleet, Settings
from fleet.repository.scaffold import TEMPLATE
from fleet.repository.settings import read_settings
from fleet.repository.toml import line_of

EVERY_SETTING = """
[fleet]
name = "shop"
[paths]
stacks = "deploy/stacks"
clusters = "deploy/clusters/"
[git]
remote = "upstream"
branch = "release/1"
status_branch = "health"
[budget]
deletions = 0
share = "2.5%"
[trust]
code = "others"
account = "tenants/{stack}"
[limits]
time = "1.5m"
cpu = "500ms"
memory = "2Gi"
output = "16Ki"
result = "1048576"
[approval]
required = true
branch = "seen"
[apps]
require = ["fleet-nats == 1.2.*", "fleet-queue"]
"""


def test_an_empty_file_gives_the_defaults() -> None:
    assert read_settings("") == Settings()


def test_the_template_says_what_the_defaults_are() -> None:
    read = read_settings((TEMPLATE / "fleet.toml").read_text())
    assert replace(read, fleet=Fleet()) == Settings()


def test_every_setting_is_read() -> None:
    settings = read_settings(EVERY_SETTING)
    assert settings.fleet.name == "shop"
    assert (settings.paths.stacks, settings.paths.clusters) == ("deploy/stacks", "deploy/clusters")
    assert (settings.git.remote, settings.git.branch, settings.git.status_branch) == ("upstream", "release/1", "health")
    assert (settings.budget.deletions, settings.budget.share) == (0, 0.025)
    assert settings.apps.require == ("fleet-nats==1.2.*", "fleet-queue")
    assert settings.trust.code is Code.OTHERS
    assert settings.trust.account == "tenants/{stack}"
    assert (settings.limits.time, settings.limits.cpu) == (90.0, 0.5)
    assert (settings.limits.memory, settings.limits.output, settings.limits.result) == (2 << 30, 16 << 10, 1 << 20)
    assert (settings.approval.required, settings.approval.branch) == (True, "seen")


MISTAKES = [
    ("\n[path]\n", 2, "path", "did you mean paths?"),
    ("[limits]\n\ntimes = '3s'\n", 3, "limits.times", "did you mean time?"),
    ("[limits]\nzzz = 1\n", 2, "limits.zzz", "time, cpu, memory, output, result"),
    ("[limits]\ntime = 3\n", 2, "limits.time", '"30s"'),
    ("[limits]\ntime = '0s'\n", 2, "limits.time", "above zero"),
    ("limits.memory = '1G'\n", 1, "limits.memory", '"512Mi"'),
    ("limits = { cpu = 'x' }\n", 1, "limits.cpu", "duration"),
    ("[fleet]\nname = ''\n", 2, "fleet.name", "no other fleet has"),
    ("[fleet]\nname = '--force'\n", 2, "fleet.name", "no other fleet has"),
    ("[fleet]\nname = 7\n", 2, "fleet.name", "no other fleet has"),
    ("[approval]\nrequired = 'yes'\n", 2, "approval.required", "true or false"),
    ("[approval]\nbranch = 'main'\n", 2, "approval.branch", "a branch of its own"),
    ("paths = 3\n", 1, "paths", "[paths]"),
    ("[paths]\nstacks = '../elsewhere'\n", 2, "paths.stacks", "below the repository's root"),
    ("[paths]\nstacks = '/etc'\n", 2, "paths.stacks", "below the repository's root"),
    ("[paths]\nclusters = ''\n", 2, "paths.clusters", "directory"),
    ("[git]\nbranch = '--upload-pack=x'\n", 2, "git.branch", "git accepts"),
    ("[git]\nstatus_branch = 'a..b'\n", 2, "git.status_branch", "git accepts"),
    ("[git]\nbranch = 'same'\nstatus_branch = 'same'\n", 3, "git.status_branch", "a branch of its own"),
    ("[budget]\ndeletions = -1\n", 2, "budget.deletions", "0 or more"),
    ("[budget]\ndeletions = true\n", 2, "budget.deletions", "whole number"),
    ("[budget]\nshare = 10\n", 2, "budget.share", '"10%"'),
    ("[budget]\nshare = '101%'\n", 2, "budget.share", '"10%"'),
    ("[trust]\naccount = 'system:masters'\n", 2, "trust.account", "namespace/name"),
    ("[trust]\ncode = 'all'\n", 2, "trust.code", '"own" or "others"'),
    ("[limits]\ntime = \n", 2, None, "toml.io"),
    ("[forge]\nkind = 'github.com'\n", 2, "forge.kind", '"gitea", "github" or "gitlab"'),
    ("[forge]\nurl = 'https://ann:secret@git.example.com'\n", 2, "forge.url", "without a user or a password"),
    ("[forge]\nrepository = '../fleet'\n", 2, "forge.repository", "team/fleet"),
    ("# [limits]\n[fleet]\nname = 'shop'\n[ 'limits' ] # of each\n\"cpu\"='1 s'\n", 5, "limits.cpu", "duration"),
    ("[fleet]\nname = '''\n[limits]\ncpu = 1'''\n[limits]\ncpu = 1\n", 2, "fleet.name", "no other fleet has"),
    ("[limits]\ntime = '1s'\ncpu = [\n'time =', # time =\n]\n", 3, "limits.cpu", "duration"),
]


@pytest.mark.parametrize(("text", "line", "field", "hint"), MISTAKES)
def test_a_mistake_is_told_with_its_line_and_field(text: str, line: int, field: str | None, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(text)
    assert caught.value.source is not None
    assert (caught.value.source.file, caught.value.source.line, caught.value.field) == ("fleet.toml", line, field)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        "a = " + "{b = " * 5000,
        "[budget]\ndeletions = " + "9" * 5000,
        "[trust]\ncode = 0x" + "f" * 5000,
        "paths = 0x" + "f" * 5000,
        "[limits]\nmemory = '" + "9" * 5000 + "'",
        "[limits]\ntime = '" + "9" * 5000 + "s'",
        "[budget]\nshare = '" + "9" * 5000 + "%'",
        "# " + "x" * (64 * 1024),
        "x = 1\n" + "# a comment\n" * 6_000,
    ],
    ids=lambda text: text[:24],
)
def test_what_no_person_would_write_is_told_too(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"fleet\.toml"):
        read_settings(text)


@pytest.mark.parametrize("key", ["a" + ".a" * 33, "[" + ".".join("a" * 40) + "]", '"\u2028#".' + ".".join("a" * 40)])
def test_a_key_of_very_many_parts_is_refused_before_it_is_read(key: str) -> None:
    """tomllib takes a minute and some gigabytes for one that a file of 256 KiB has room for."""
    text = f"[fleet]\n{key} = 1\n"
    with pytest.raises(ConfigurationError, match="more than 32 dots in a line"):
        read_settings(text)
    assert read_settings(f"# {key}\n") == Settings()


@pytest.mark.parametrize("what", ["no file", "a directory", "below a file"])
def test_a_file_that_is_none_is_told(tmp_path: Path, what: str) -> None:
    from fleet.repository import Repository

    root = tmp_path / "root"
    if what == "a directory":
        (root / "fleet.toml").mkdir(parents=True)
    elif what == "below a file":
        root.write_text("")
    with pytest.raises(ConfigurationError, match=r"there is no fleet\.toml"):
        Repository.at(root)


def test_the_line_of_a_key_is_found_in_its_own_section() -> None:
    text = "[a]\nx = 1\n[b]\n# x = 2\nx = 3\n"
    assert line_of(text, ("b", "x")) == 5
    assert line_of(text, ("b", "y")) == 0


def test_the_line_of_a_key_is_not_found_in_a_text_or_a_list() -> None:
    text = '''
["a b".'c']
first = """
[d]
x = 1 \\"""
"""
second = [ '[d]', "x = ", { x = "}" }, # ]
  "]" ]
d.x = 'here'
[[d]]\r
  "\\u0078" = { y = "it" }'''
    assert [line_of(text, path) for path in (("a b",), ("a b", "c", "d", "x"))] == [2, 9]
    assert [line_of(text, path) for path in (("d",), ("d", "x"), ("d", "x", "y"), ("x",))] == [10, 11, 11, 0]


@pytest.mark.parametrize(
    "text",
    [
        '"""' + '\\"' * 25_000,
        "'''" + "''x" * 20_000,
        "a = [" + "'''x'''," * 7_000 + "]",
        "".join(f"k{number}=1\n" for number in range(8_000)),
        "".join(f"'k{number}'=1\n" for number in range(6_000)),
    ],
    ids=lambda text: text[:8],
)
def test_a_line_is_looked_up_in_time_whatever_the_text_is(text: str) -> None:
    begin = time.process_time()
    assert line_of(text, ("not", "there")) == 0
    assert time.process_time() - begin < 2


def test_a_long_value_is_shortened_in_an_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(f"[git]\nbranch = ['{'x' * 60_000}']\n")
    assert len(str(caught.value)) < 300


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    from fleet.repository import Repository

    (tmp_path / "fleet.toml").write_bytes(b"\n\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"fleet\.toml:2: is not UTF-8"):
        Repository.at(tmp_path)
