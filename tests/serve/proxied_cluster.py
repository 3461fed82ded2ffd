"""A kubeconfig in which one of the clusters is reached through a proxy, and the others as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fleet.testing.proxy import Proxy
from tests.sync.fleet_repository import FleetRepository


def behind(repository: FleetRepository, proxy: Proxy, path: Path) -> Path:
    config = yaml.safe_load(repository.clusters[0].kubeconfig.read_text())
    through = yaml.safe_load(proxy.kubeconfig.read_text())
    context = _named(config["contexts"], proxy.context)["context"]
    other = _named(through["contexts"], proxy.context)["context"]
    for kind in ("cluster", "user"):
        _named(config[f"{kind}s"], context[kind])[kind] = _named(through[f"{kind}s"], other[kind])[kind]
    path.write_text(yaml.safe_dump(config))
    return path


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in entries if one["name"] == name)
