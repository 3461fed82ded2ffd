"""Objects from YAML files of the repository, each with the file and line that it begins at."""

from __future__ import annotations

from collections.abc import Iterator
from glob import has_magic
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleet.errors import ConfigurationError, Source
from fleet.model.context import current_scope
from fleet.model.manifest import Manifest, read_manifest
from fleet.model.resource import Options
from fleet.model.source import calling_file, displayed_path, locate, repository_root
from fleet.yaml_text import NotYamlError, read_documents


def manifests(pattern: str, *, opts: Options | None = None, cluster_scoped: bool = False) -> list[Manifest]:
    """Return every object in the YAML files that match, such as "files/*.yaml", beside the file that calls this.

    Files are read in the order of their names. A pattern that matches nothing is an error. `cluster_scoped` is for
    custom kinds that have no namespace; kinds of Kubernetes itself are known.
    """
    source = locate()
    base = Path(calling_file()[0]).resolve().parent
    objects: list[Manifest] = []
    for file in _find_files(pattern, base, source):
        scope = current_scope()
        if scope is not None:
            scope.files[displayed_path(file)] = None
        for document, position in _read_objects(file):
            try:
                objects.append(read_manifest(document, position, opts or Options(), cluster_scoped=cluster_scoped))
            except ValidationError as error:
                config_error = Manifest._make_error(error)
                raise ConfigurationError(config_error.message, hint=config_error.hint, source=position) from None
    return objects


def _find_files(pattern: str, base: Path, source: Source) -> list[Path]:
    def refuse(message: str, hint: str) -> ConfigurationError:
        return ConfigurationError(message, hint=hint, source=source, field="manifests")

    if not pattern or Path(pattern).is_absolute():
        raise refuse(f"{pattern!r} is not a path beside this file", "write it relative to this file: 'files/*.yaml'")
    files = sorted(path for path in base.glob(pattern) if path.is_file())
    if not files:
        verb = "no file matches" if has_magic(pattern) else "there is no file"
        raise refuse(f"{verb} {pattern!r}", f"it is looked for in {displayed_path(base)}")
    repository = (repository_root() or base).resolve()
    for path in files:
        if repository_root() is not None and not path.resolve().is_relative_to(repository):
            raise refuse(f"{pattern!r} leads out of the repository", "keep the files inside the repository")
    return files


def _read_objects(file: Path) -> Iterator[tuple[Any, Source]]:
    name = displayed_path(file)
    try:
        for document, line in read_documents(file.read_bytes().decode("utf-8")):
            place = Source(name, line)
            if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
                yield from ((item, place) for item in document["items"])
            else:
                yield document, place
    except NotYamlError as error:
        raise ConfigurationError(f"is not YAML: {error.problem}", source=Source(name, error.line)) from None
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8 text", source=Source(name)) from None
