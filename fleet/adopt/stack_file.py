"""A stack's file for apps that run already, and the branch that it is written to.

The text is typed, formatted, and has only what differs from the defaults; making it is pure. It is committed on a
branch of its own, on top of what is checked out, without touching the working tree or the index.
"""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

import fleet
from fleet.errors import ConfigurationError
from fleet.git import refs
from fleet.git.objects import Snapshot
from fleet.git.publish import Changes, Edit, publish
from fleet.git.repository import GitRepository
from fleet.kit.adoption.discovery import Candidate
from fleet.model.app import App
from fleet.repository import Repository

WIDTH = 120
INDENT = 4


def stack_file(namespace: str, clusters: Sequence[str], candidates: Sequence[Candidate]) -> str:
    """Return the text of the file for all apps of one namespace, after which the stack is named if it can be."""
    lines = [*_imports([candidate.app for candidate in candidates]), "", ""]
    stack_name = function_name(namespace)
    namespace_argument = (
        "" if stack_name == namespace.replace("-", "_") else f", namespace={_format_in_line(namespace)}"
    )
    lines.append(f"@fleet.stack(clusters={_format_in_line(list(clusters))}{namespace_argument})")
    lines.append(f"def {stack_name}(cluster: fleet.Cluster) -> None:")
    for candidate in candidates:
        lines += [line for text in candidate.kept for line in _comment(f"kept as found: {text}")]
        lines.append(_format_value("", candidate.app, INDENT, ""))
    return "\n".join(lines) + "\n"


def function_name(namespace: str) -> str:
    """Return the namespace as a Python name, with a prefix where it is none or has a meaning here: 1shop, fleet."""
    name = namespace.replace("-", "_")
    return name if name.isidentifier() and not keyword.iskeyword(name) and name != "fleet" else f"stack_{name}"


def _comment(text: str) -> list[str]:
    """Return a text as a comment, however long it is and whatever is in it."""
    begin = " " * INDENT + "# "
    return textwrap.wrap(text, WIDTH, initial_indent=begin, subsequent_indent=f"{begin}  ")


def _imports(apps: Sequence[App]) -> Iterator[str]:
    """Yield the imports: apps from `fleet.apps`, what all apps have from `fleet`, the rest from the app's package.

    An app of an installed package is imported from that, as editors know it.
    """
    names: dict[str, set[str]] = {}
    for app in apps:
        package = type(app).__module__.rpartition(".")[0] or type(app).__module__
        names.setdefault("fleet.apps" if package.startswith("fleet.") else package, set()).add(type(app).__name__)
        for name in _nested_models(app):
            names.setdefault("fleet" if name in fleet.__all__ else package, set()).add(name)
    yield "import fleet"
    for module in sorted(names):
        ordered = sorted(names[module], key=lambda name: (not name.isupper(), name))
        yield f"from {module} import {', '.join(ordered)}"


def _nested_models(value: BaseModel) -> Iterator[str]:
    for _, field_value in _set_fields(value):
        if isinstance(field_value, BaseModel):
            yield type(field_value).__name__
            yield from _nested_models(field_value)


def _set_fields(value: BaseModel) -> list[tuple[str, object]]:
    """Return the fields that are set, options last, without the namespace of an app: the stack is named after it."""
    names = [name for name in type(value).model_fields if name in value.model_fields_set]
    names.sort(key="opts".__eq__)
    return [(name, getattr(value, name)) for name in names if not (isinstance(value, App) and name == "namespace")]


def _prefix(value: BaseModel, name: str) -> str:
    return "" if isinstance(value, App) and name == "name" else f"{name}="


def _format_value(prefix: str, value: object, indent: int, suffix: str) -> str:
    """Return a value in one line if that is short enough, else an argument a line, as formatters have it."""
    flat = f"{' ' * indent}{prefix}{_format_in_line(value)}{suffix}"
    if len(flat) <= WIDTH or not isinstance(value, BaseModel):
        return flat
    inner = [
        _format_value(_prefix(value, name), field_value, indent + INDENT, ",")
        for name, field_value in _set_fields(value)
    ]
    return "\n".join([f"{' ' * indent}{prefix}{type(value).__name__}(", *inner, f"{' ' * indent}){suffix}"])


def _format_in_line(value: object) -> str:
    match value:
        case BaseModel():
            inner = ", ".join(
                f"{_prefix(value, name)}{_format_in_line(field_value)}" for name, field_value in _set_fields(value)
            )
            return f"{type(value).__name__}({inner})"
        case Mapping():
            return (
                "{" + ", ".join(f"{_format_in_line(key)}: {_format_in_line(item)}" for key, item in value.items()) + "}"
            )
        case list() | tuple():
            return f"[{', '.join(map(_format_in_line, value))}]"
        case str():
            return _quote(value)
        case _:
            return repr(value)


def _quote(text: str) -> str:
    """Return a text in quotes, in one line and with nothing in it that a reader does not see."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    letters = (
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in escaped
    )
    return f'"{"".join(letters)}"'


MESSAGE = "Take over what runs already"


def commit_files(files: Mapping[str, str], branch: str) -> list[str]:
    """Commit the files, named below the repository's directory of stacks, on a new branch; return the paths written."""
    repository = Repository.find()
    git = GitRepository.find(repository.root)
    ref = refs.ref(f"refs/heads/{branch}")
    tip = git.resolve("HEAD").id
    prefix = repository.root.resolve().relative_to(git.root.resolve()).as_posix().removeprefix(".").lstrip("/")
    directory = "/".join(part for part in (prefix, repository.settings.paths.stacks) if part)
    paths = {f"{directory}/{name}": text.encode() for name, text in files.items()}
    _check_free(git, tip, paths, ref)
    git.git.run("make the branch", "update-ref", ref, tip, "0" * len(tip))

    def decide(tip_files: Snapshot | None) -> Changes:
        return paths

    publish(git, None, [Edit(ref, MESSAGE, decide)])
    return sorted(paths)


def _check_free(git: GitRepository, tip: str, paths: Mapping[str, bytes], ref: str) -> None:
    with git.objects("look for files") as objects:
        existing = [path for path in paths if objects.find(f"{tip}:{path}") is not None]
        is_taken = objects.find(f"{ref}^{{commit}}") is not None
    if is_taken:
        raise ConfigurationError(
            f"there is a branch {ref.removeprefix('refs/heads/')} already", hint="name another one"
        )
    if existing:
        raise ConfigurationError(
            f"{', '.join(existing)} is in the repository already, and is not changed",
            hint="add to it by hand: --write DIR",
        )
