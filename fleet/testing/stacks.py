"""Every stack of a repository, called in the process of a test: for rules that hold for all of them.

Unlike `fleet check` nothing is isolated and nothing runs twice: a breakpoint in a stack stops there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from fleet.errors import ConfigurationError
from fleet.model.cluster import Cluster
from fleet.model.context import MissingOutputError, open_discovery
from fleet.model.source import relative_to
from fleet.model.stack import Collected, Stack, collect
from fleet.repository import Repository

Exports = dict[str, dict[str, Mapping[str, Any]]]  # by cluster, by stack


def collect_stacks(root: Path | None = None) -> tuple[Collected, ...]:
    """Call every stack for each cluster that it is placed on, and return what they declare, by stack and cluster.

    The repository is the one at `root`, or around the current directory. A stack that reads an export of another is
    called after it. Raises what a stack raises.
    """
    repository = Repository.at(root) if root else Repository.find()
    with relative_to(repository.root), _importable(repository):
        stacks, clusters = _load_declarations(repository)
        collected: list[Collected] = []
        exports: Exports = {cluster.name: {} for cluster in clusters}
        waiting = [(stack, cluster) for stack in stacks for cluster in stack.clusters(clusters)]
        while waiting:
            before, waiting = waiting, []
            missing: MissingOutputError | None = None
            for stack, cluster in before:
                try:
                    collected.append(collect(stack, cluster, outputs=exports[cluster.name]))
                except MissingOutputError as error:
                    missing = error
                    waiting.append((stack, cluster))
                else:
                    exports[cluster.name][stack.name] = collected[-1].exports
            if missing and len(waiting) == len(before):
                raise missing
    return tuple(sorted(collected, key=lambda result: (result.stack, result.cluster)))


def _load_declarations(repository: Repository) -> tuple[list[Stack], list[Cluster]]:
    """Load all files anew, whatever a test imported of them before."""
    stacks: list[Stack] = []
    clusters: list[Cluster] = []
    for file in repository.cluster_files():
        with open_discovery() as discovered:
            _load(repository.root, file)
        clusters += discovered.clusters
    for file in repository.stack_files():
        with open_discovery() as discovered:
            _load(repository.root, file)
        # Not the stacks of an imported sibling.
        stacks += [stack for stack in discovered.stacks if stack.source.file == file]
    return stacks, clusters


def _load(root: Path, file: str) -> None:
    name = file.removesuffix(".py").replace("/", ".")
    spec = spec_from_file_location(name, root / file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{file} cannot be loaded")
    before = sys.modules.get(name)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules[name] = before


@contextmanager
def _importable(repository: Repository) -> Iterator[None]:
    """Let files import each other as they may in a sync: from the root and from the directory of the stacks."""
    entries = [str(repository.root), str(repository.root / repository.settings.paths.stacks)]
    before = list(sys.path)
    sys.path[:0] = [entry for entry in entries if entry not in before]
    try:
        yield
    finally:
        sys.path[:] = before
