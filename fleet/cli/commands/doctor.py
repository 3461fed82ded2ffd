"""`fleet doctor`: what this machine has of what fleet needs, and how well it confines code of strangers."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import click

from fleet.cli.output import emit_result, format_table, output_option

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """A thing that was checked. What is not `ok` has to be repaired before fleet works."""

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
    findings = [_check_python(), _check_git(), *_check_sandbox()]
    emit_result([_finding_data(finding) for finding in findings], form, lambda: _format_findings(findings))
    return 0 if all(finding.ok for finding in findings) else 1


def _check_python() -> MachineFinding:
    ok = sys.version_info >= OLDEST_PYTHON
    return MachineFinding(
        "python", platform.python_version(), ok, "" if ok else f"{_format_version(OLDEST_PYTHON)} or newer is needed"
    )


def _check_git() -> MachineFinding:
    from fleet.git.command import OLDEST

    try:
        output = subprocess.run(["git", "version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return MachineFinding(
            "git", "none", False, "install git: commits, health and previews are read and written with it"
        )
    version = output.removeprefix("git version ").split()[0]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    ok = numbers >= OLDEST
    return MachineFinding("git", version, ok, "" if ok else f"{_format_version(OLDEST)} or newer is needed")


def _check_sandbox() -> list[MachineFinding]:
    """Try the sandbox in a process of its own, as an evaluation does it, and return the findings."""
    import orjson

    from fleet.evaluate.sandbox.level import SandboxReport

    command = [sys.executable, "-P", "-m", "fleet.evaluate.sandbox.probe"]
    probe = subprocess.run(command, capture_output=True, timeout=60, check=True)
    given = SandboxReport.of(orjson.loads(probe.stdout))
    notes = [f"not {level}: {why}" for level, why in given.why_not.items()]
    if not given.level.confines:
        notes.append("the code of others is refused here")
    limited, why_not = given.group or "none", f"not limited in sum: {given.why_no_group}" if given.why_no_group else ""
    return [
        MachineFinding("sandbox", f"level {given.level}", True, "; ".join(notes)),
        MachineFinding("cgroup", limited, True, why_not),
    ]


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _finding_data(finding: MachineFinding) -> dict[str, Any]:
    return asdict(finding)


def _format_findings(findings: list[MachineFinding]) -> str:
    rows = [[item.what, item.found, "yes" if item.ok else "NO", item.note] for item in findings]
    return format_table(["what", "found", "ok", "note"], rows)
