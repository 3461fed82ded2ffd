"""The contexts of the kubeconfig, read as the file that it is: nothing is connected to, no plugin is run."""

from __future__ import annotations

import os
from pathlib import Path


def contexts(kubeconfig: Path | None = None) -> tuple[str, ...]:
    """The names of all contexts in the files that kubectl would read, in their order."""
    found = dict.fromkeys(name for path in _files(kubeconfig) for name in _names(path))
    return tuple(found)


def _files(kubeconfig: Path | None) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    listed = os.environ.get("KUBECONFIG")
    if listed:
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]


def _names(path: Path) -> list[str]:
    import yaml

    from fleet.errors import ConfigurationError

    try:
        text = path.read_text()
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are the safe one
        return [str(entry["name"]) for entry in (data or {}).get("contexts") or []]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the kubeconfig {path} cannot be read: {error}", hint="`kubectl config view` shows what is wrong"
        ) from error
