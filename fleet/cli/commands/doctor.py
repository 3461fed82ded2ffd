"""`fleet doctor`: is this machine as fleet needs it, and how well can it hold the code of others?"""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import click

from fleet.cli.output import emit, output_option, table

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. Not `ok` is what has to be mended before fleet works."""

    what: str
    found: str
    ok: bool
    note: str = ""


@click.command()
@output_option
def doctor(form: str) -> int:
    """Say what this machine gives: Python, git, and the sandbox that stacks are evaluated in.

    \b
    level A      namespaces, Landlock, seccomp and limits
    level B      Landlock, seccomp and limits, as in pods that may not make user namespaces
    level none   limits only: your own code is evaluated, the code of others is refused

    Each level is tried out and not guessed. A cgroup on top of it limits all processes of an evaluation together; what
    the level promises does not depend on it. Exit code 1 when something is missing that fleet cannot do without.
    """
    findings = [_python(), _git(), *_sandbox()]
    emit([_data(one) for one in findings], form, lambda: _text(findings))
    return 0 if all(one.ok for one in findings) else 1


def _python() -> Finding:
    ok = sys.version_info >= OLDEST_PYTHON
    return Finding(
        "python", platform.python_version(), ok, "" if ok else f"{_dotted(OLDEST_PYTHON)} or newer is needed"
    )


def _git() -> Finding:
    from fleet.git.command import OLDEST

    try:
        said = subprocess.run(["git", "version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return Finding("git", "none", False, "install git: commits, health and previews are read and written with it")
    version = said.removeprefix("git version ").split()[0]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    ok = numbers >= OLDEST
    return Finding("git", version, ok, "" if ok else f"{_dotted(OLDEST)} or newer is needed")


def _sandbox() -> list[Finding]:
    """Tried in a process of its own, as an evaluation does it."""
    import orjson

    from fleet.evaluate.sandbox.level import Given

    command = [sys.executable, "-P", "-m", "fleet.evaluate.sandbox.probe"]
    tried = subprocess.run(command, capture_output=True, timeout=60, check=True)
    given = Given.of(orjson.loads(tried.stdout))
    notes = [f"not {level}: {why}" for level, why in given.why_not.items()]
    if not given.level.confines:
        notes.append("the code of others is refused here")
    limited, why_not = given.group or "none", f"not limited in sum: {given.why_no_group}" if given.why_no_group else ""
    return [
        Finding("sandbox", f"level {given.level}", True, "; ".join(notes)),
        Finding("cgroup", limited, True, why_not),
    ]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _data(finding: Finding) -> dict[str, Any]:
    return asdict(finding)


def _text(findings: list[Finding]) -> str:
    rows = [[one.what, one.found, "yes" if one.ok else "NO", one.note] for one in findings]
    return table(["what", "found", "ok", "note"], rows)
