"""App types of installed packages, for tests: real packages with metadata, in a directory on Python's search path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.apps.registry import forget_types

QUEUE = '''
"""A message queue, with as little as a type can have."""

from typing import Annotated, ClassVar

from pydantic import Field

import fleet
from fleet.kit.driver import Capabilities, Driver, EngineMeta, Hop, Impact
from fleet.model.base import Rule


class Queue(fleet.App, frozen=True):
    """A message queue."""

    version: str
    """The version to run."""
    members: Annotated[int, Field(ge=1)] = 3
    """How many."""
    spare_members: int = 0
    """How many of them do nothing."""

    port: ClassVar[int] = 5672
    rules: ClassVar[tuple[Rule, ...]] = (
        *fleet.App.rules,
        Rule(
            cel="self.spareMembers < self.members",
            message="must leave somebody to work",
            holds=lambda self: self.spare_members < self.members,
            field="spare_members",
        ),
    )


class QueueType(Driver[Queue]):
    contract = 1
    app = Queue
    meta = EngineMeta("Queue", ("3", "4"), ("member",), {"client": 5672}, "none", words="A message queue.")
    caps = Capabilities(scale=True, upgrade=True)
    impacts = {"members": Impact.SCALE, "version": Impact.UPGRADE}

    def path(self, current, target):
        return () if current == target else (Hop(current, target, "upgrade", "roll"),)


TYPE = QueueType()
'''


def write_package(
    directory: Path,
    name: str = "fleet-queue",
    *,
    version: str = "1.2.0",
    entry: str = "queue",
    attribute: str = "TYPE",
    text: str = QUEUE,
    files: Mapping[str, str] | None = None,
) -> str:
    """Write a package as an installer leaves it, and return the name of its module."""
    module = name.replace("-", "_")
    package, metadata = directory / module, directory / f"{module}-{version}.dist-info"
    for made in (package, metadata):
        made.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    for file, content in (files or {}).items():
        (package / file).write_text(content)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nA type.\n")
    (metadata / "entry_points.txt").write_text(f"[fleet.app_types]\n{entry} = {module}:{attribute}\n")
    return module


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[None]:
    """Have the packages of a directory installed in this process while the block lasts."""
    import sys

    modules = set(sys.modules)
    names = set(vars(sys.modules["fleet.apps"])) if "fleet.apps" in sys.modules else set()
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(directory))
        forget_types()
        try:
            yield
        finally:
            for name in set(sys.modules) - modules:
                if (directory / name.partition(".")[0]).exists():
                    del sys.modules[name]
            for name in set(vars(sys.modules["fleet.apps"])) - names:
                if name[:1].isupper():
                    delattr(sys.modules["fleet.apps"], name)
    forget_types()
