"""Write a stack for them, on a branch.

A stack's file for apps that run already: typed, formatted, and with only what differs from the defaults. Pure.

Files on a branch of their own, on top of what is checked out, without touching the working tree or the index.
"""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

import fleet
from fleet.apps.discovery import Candidate
from fleet.errors import ConfigurationError
from fleet.git import refs
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, publish
from fleet.git.repository import Repository as Git
from fleet.model.app import App
from fleet.repository import Repository

WIDTH = 120
INDENT = 4


def stack_file(namespace: str, clusters: Sequence[str], candidates: Sequence[Candidate]) -> str:
    """The text of the file for all apps of one namespace, which the stack is called after if it can be."""
    lines = [*_imports([one.app for one in candidates]), "", ""]
    called = function_name(namespace)
    where = "" if called == namespace.replace("-", "_") else f", namespace={_flat(namespace)}"
    lines.append(f"@fleet.stack(clusters={_flat(list(clusters))}{where})")
    lines.append(f"def {called}(cluster: fleet.Cluster) -> None:")
    for one in candidates:
        lines += [line for text in one.kept for line in _comment(f"kept as found: {text}")]
        lines.append(_fitted("", one.app, INDENT, ""))
    return "\n".join(lines) + "\n"


def function_name(namespace: str) -> str:
    """After the namespace, unless that is none of Python's names or one with a meaning here: 1shop, class, fleet."""
    name = namespace.replace("-", "_")
    return name if name.isidentifier() and not keyword.iskeyword(name) and name != "fleet" else f"stack_{name}"


def _comment(text: str) -> list[str]:
    """However long, and whatever others wrote in it: it stays a comment."""
    begin = " " * INDENT + "# "
    return textwrap.wrap(text, WIDTH, initial_indent=begin, subsequent_indent=f"{begin}  ")


def _imports(apps: Sequence[App]) -> Iterator[str]:
    """Apps from `fleet.apps`, what all apps have from `fleet`, and what one has alone from its own package."""
    names: dict[str, set[str]] = {}
    for app in apps:
        names.setdefault("fleet.apps", set()).add(type(app).__name__)
        package = type(app).__module__.rpartition(".")[0]
        for name in _models(app):
            names.setdefault("fleet" if name in fleet.__all__ else package, set()).add(name)
    yield "import fleet"
    for module in sorted(names):
        ordered = sorted(names[module], key=lambda name: (not name.isupper(), name))
        yield f"from {module} import {', '.join(ordered)}"


def _models(value: BaseModel) -> Iterator[str]:
    for _, one in _given(value):
        if isinstance(one, BaseModel):
            yield type(one).__name__
            yield from _models(one)


def _given(value: BaseModel) -> list[tuple[str, object]]:
    """What was said, options last; where an app is goes without saying, the stack is called after it."""
    names = [name for name in type(value).model_fields if name in value.model_fields_set]
    names.sort(key="opts".__eq__)
    return [(name, getattr(value, name)) for name in names if not (isinstance(value, App) and name == "namespace")]


def _prefix(value: BaseModel, name: str) -> str:
    return "" if isinstance(value, App) and name == "name" else f"{name}="


def _fitted(prefix: str, value: object, indent: int, suffix: str) -> str:
    """In one line if that is short enough, else an argument a line, as formatters have it."""
    flat = f"{' ' * indent}{prefix}{_flat(value)}{suffix}"
    if len(flat) <= WIDTH or not isinstance(value, BaseModel):
        return flat
    inner = [_fitted(_prefix(value, name), one, indent + INDENT, ",") for name, one in _given(value)]
    return "\n".join([f"{' ' * indent}{prefix}{type(value).__name__}(", *inner, f"{' ' * indent}){suffix}"])


def _flat(value: object) -> str:
    match value:
        case BaseModel():
            inner = ", ".join(f"{_prefix(value, name)}{_flat(one)}" for name, one in _given(value))
            return f"{type(value).__name__}({inner})"
        case Mapping():
            return "{" + ", ".join(f"{_flat(key)}: {_flat(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_flat, value))}]"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return repr(value)


MESSAGE = "Take over what runs already"


def commit(files: Mapping[str, str], branch: str) -> list[str]:
    """The paths that were written, by files' names below the repository's directory of stacks. The branch is new."""
    found = Repository.find()
    git = Git.find(found.root)
    ref = refs.ref(f"refs/heads/{branch}")
    tip = git.resolve("HEAD").id
    prefix = found.root.resolve().relative_to(git.root.resolve()).as_posix().removeprefix(".").lstrip("/")
    directory = "/".join(part for part in (prefix, found.settings.paths.stacks) if part)
    paths = {f"{directory}/{name}": text.encode() for name, text in files.items()}
    _check_free(git, tip, paths, ref)
    git.git.run("make the branch", "update-ref", ref, tip, "0" * len(tip))

    def decide(there: Snapshot | None) -> Changes:
        return paths

    publish(git, None, [Edit(ref, MESSAGE, decide)])
    return sorted(paths)


def _check_free(git: Git, tip: str, paths: Mapping[str, bytes], ref: str) -> None:
    with git.objects("look for files") as objects:
        there = [path for path in paths if objects.find(f"{tip}:{path}") is not None]
        taken = objects.find(f"{ref}^{{commit}}") is not None
    if taken:
        raise ConfigurationError(
            f"there is a branch {ref.removeprefix('refs/heads/')} already", hint="name another one"
        )
    if there:
        raise ConfigurationError(
            f"{', '.join(there)} is in the repository already, and is not changed",
            hint="add to it by hand: --write DIR",
        )
