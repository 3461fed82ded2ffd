"""Kubeconfig files: one per program of a cluster, and one per lab with a context per cluster."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleet.lab.files import write


@dataclass(frozen=True, slots=True)
class Access:
    """How one user reaches one cluster."""

    context: str
    server: str
    authority: Path
    certificate: Path
    key: Path


def save(file: Path, accesses: list[Access]) -> Path:
    """Write a kubeconfig with everything inside it, so that it can be copied; the first context is current."""
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    document["current-context"] = accesses[0].context if accesses else ""
    for access in accesses:
        cluster = {"server": access.server, "certificate-authority-data": _data(access.authority)}
        user = {"client-certificate-data": _data(access.certificate), "client-key-data": _data(access.key)}
        context = {"cluster": access.context, "user": access.context}
        document["clusters"].append({"name": access.context, "cluster": cluster})
        document["users"].append({"name": access.context, "user": user})
        document["contexts"].append({"name": access.context, "context": context})
    text = yaml.safe_dump(document, sort_keys=False)
    if not file.exists() or file.read_text() != text:
        write(file, text, 0o600)
    return file


def _data(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
