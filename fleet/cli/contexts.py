"""The contexts of the kubeconfig, read as the file that it is: nothing is connected to, no plugin is run."""

from __future__ import annotations

from pathlib import Path


def contexts(kubeconfig: Path | None = None) -> tuple[str, ...]:
    """The names of all contexts in the files that kubectl would read, in their order."""
    from fleet.kube.kubeconfig import document, files

    entries = [entry for path in files(kubeconfig) if path.exists() for entry in document(path).get("contexts") or ()]
    return tuple(dict.fromkeys(str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry))
