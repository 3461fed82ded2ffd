"""Pages that quote the program or list its variables say what the code says."""

from __future__ import annotations

import re

from fleet.text import count_noun
from tests.docs.document import ROOT

SOURCES = [*(ROOT / "fleet").rglob("*.py"), *(ROOT / "operator").rglob("*.py")]
CODE = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)


def _page(name: str) -> str:
    return (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")


def test_what_is_quoted_for_troubleshooting_is_said_by_the_code() -> None:
    quoted = re.findall(r"(?m)^\| `([^`]+)` \| [^|]+ \| [^|]+ \|$", _page("troubleshoot"))
    assert len(quoted) > 10
    assert [words for words in quoted if words not in CODE] == []


def test_every_variable_of_ours_is_listed() -> None:
    used = set(re.findall(r"\b_?FLEET_[A-Z]+(?:_[A-Z]+)*\b", CODE))
    listed = set(re.findall(r"`(_?FLEET_[A-Z_]+)`", _page("environment")))
    assert used == listed


def test_numbers_and_nouns_agree() -> None:
    assert [count_noun(number, "member") for number in (0, 1, 2)] == ["0 members", "1 member", "2 members"]
    assert count_noun(2, "process", "processes") == "2 processes"
    by_hand = re.findall(r"""\{[^{}]*['"]e?s['"] (?:if|\*) [^{}]*\}""", CODE)
    never_one = re.findall(
        r"(?<!of )\{(?:len\([^{}]*\)|count|total|ready|available|hidden|left|failed|gone)\} [a-z]+s\b", CODE
    )
    counted = re.findall(r"(?<!of )\{[^{}]*\} (?:members|pods|nodes)\b", CODE)
    never_one += [words for words in counted if words != "{cluster.nodes} nodes"]  # "real" or "simulated"
    assert [*by_hand, *never_one] == [], "count_noun says `1 member` and `2 members`"


def test_versions_are_those_of_the_code() -> None:
    from fleet.apps.etcd.versions import VERSIONS
    from fleet.cli import access
    from fleet.cli.commands.doctor import OLDEST_PYTHON
    from fleet.git import command
    from fleet.lab.spec import KUBERNETES

    text = _page("versions")
    for row, oldest in (("Kubernetes", access.OLDEST), ("Python", OLDEST_PYTHON), ("git", command.OLDEST)):
        assert f"| {row} | {'.'.join(map(str, oldest))} and later" in text
    assert f"The tests run on {'.'.join(KUBERNETES.split('.')[:2])} |" in text
    assert f"| etcd | {', '.join(VERSIONS.series[:-1])} and {VERSIONS.series[-1]};" in text
