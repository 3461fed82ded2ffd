"""The contract of app types: what one declares, what its half that acts is asked, and what it answers."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from docs.tools.reference.python import list_methods
from docs.tools.reference.text import cell, prose, shown
from fleet.kit.app_type import AppService, AppType, DataVolume, Port, Ready, Remedy, Role, Setting
from fleet.kit.credentials.tls import DeclaredAuthority, DeclaredCertificate, Tls
from fleet.kit.credentials.users import User
from fleet.kit.driver import CONTRACT, Hop, Impact, Problem, Refusal
from fleet.kit.members import MemberRecord
from fleet.kit.observe import answers
from fleet.kit.observe.answers import Answers, DesiredTemplate
from fleet.kit.observe.observation import Agreement, MemberState, Observation, Silence
from fleet.kit.operate import engine
from fleet.kit.operate.engine import ActingHalf, Begun, Connector, Declined, Done, NotYet
from fleet.kit.programs import CommandJob, CommandOutcome, EngineCommand
from fleet.kit.rights import ApiRule
from fleet.kit.step import Act
from fleet.kit.versions import Versions
from fleet.kit.workload.roll import StopObjection
from fleet.testing.conformance.subject import Change, Servers, Subject

SHAPE = (AppType, Role, Port, Ready, DataVolume, ApiRule, AppService)
DECLARED = (*SHAPE, Setting, Impact, Versions, Hop, Refusal, Problem)
SECURED = (User, Tls, DeclaredCertificate, DeclaredAuthority)
ACTING = (ActingHalf, Connector, MemberState, Silence, Agreement, Act, Done, Begun, NotYet, Declined)
PROGRAMS = (EngineCommand, CommandJob, CommandOutcome)
ANSWERED = (Answers, Observation, MemberRecord, StopObjection, DesiredTemplate, Remedy, *PROGRAMS)
TRIED = (Subject, Change, Servers)


def app_type() -> str:
    """Return the page."""
    parts = [
        "# The contract of app types",
        "",
        f"What an app type declares and answers, contract {CONTRACT}. A type begins with `fleet new app-type`; the",
        "[tutorial](../tutorial-app-type.md) makes one, and [Write an app type](../how-to/app-types.md) says how it is",
        "used.",
        "",
    ]
    for title, about, classes in (
        ("The declaration", inspect.getmodule(AppType), DECLARED),
        ("Users and certificates", None, SECURED),
        ("The half that acts", engine, ACTING),
        ("Answers about an observation", answers, ANSWERED),
        ("What is tried", None, TRIED),
    ):
        parts += [f"## {title}", ""]
        parts += [shown(about.__doc__ or ""), ""] if about is not None else []
        for cls in classes:
            parts += _describe(cls)
    return "\n".join(parts)


def _describe(cls: type) -> list[str]:
    parts = [f"### {cls.__name__}", "", f"`{cls.__module__}`", "", prose(cls), ""]
    if rows := list(_list_attributes(cls)):
        parts += ["| attribute | type | unless given | |", "|---|---|---|---|", *rows, ""]
    if rows := list(list_methods(cls)):
        parts += ["| asked | |", "|---|---|", *rows, ""]
    return parts


def _list_attributes(cls: type) -> Iterator[str]:
    """Yield a row for each attribute that the class declares, with the comment behind it or right above it."""
    lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    for item in tree.body if isinstance(tree, ast.ClassDef) else ():
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            name, type_name = item.target.id, ast.unparse(item.annotation)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            name, type_name = item.targets[0].id, ""
        else:
            continue
        if name.startswith("_"):
            continue
        default = ast.unparse(item.value) if item.value is not None else "required"
        default = "" if default.startswith("field(") else f"`{cell(default)}`" if item.value is not None else default
        said = lines[item.lineno - 1].partition("  # ")[2] or _find_comment_above(lines, item.lineno - 1)
        yield f"| `{name}` | {f'`{cell(type_name)}`' if type_name else ''} | {default} | {cell(said)} |"


def _find_comment_above(lines: list[str], number: int) -> str:
    found: list[str] = []
    while number > 0 and lines[number - 1].strip().startswith("# "):
        number -= 1
        found.insert(0, lines[number].strip().removeprefix("# "))
    return " ".join(found)
