"""Files on a branch of their own, on top of what is checked out, without touching the working tree or the index."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.errors import ConfigurationError
from fleet.git import names
from fleet.git.objects import Snapshot
from fleet.git.publication import Changes, Edit, publish
from fleet.git.repository import Repository as Git
from fleet.repository import Repository

MESSAGE = "Take over what runs already"


def commit(files: Mapping[str, str], branch: str) -> list[str]:
    """The paths that were written, by files' names below the repository's directory of stacks. The branch is new."""
    found = Repository.find()
    git = Git.find(found.root)
    ref = names.ref(f"refs/heads/{branch}")
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
