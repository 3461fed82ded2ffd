"""Stateful apps as typed Python objects in git, applied and kept healthy in every cluster.

Everything a stack needs is here and in `fleet.apps`. Names are loaded when they are first used, so that the
command line starts without what it does not need.
"""

from __future__ import annotations

import os

from fleet.version import __version__

# Type checkers take it for True, whatever it says, and Jedi takes it for neither, as it has a type of its own; `typing`
# itself takes as long to load as all the rest.
TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from fleet.errors import ConfigurationError as ConfigurationError
    from fleet.errors import FleetError as FleetError
    from fleet.model.app import App as App
    from fleet.model.app_settings import NFS as NFS
    from fleet.model.app_settings import S3 as S3
    from fleet.model.app_settings import TLS as TLS
    from fleet.model.app_settings import Backup as Backup
    from fleet.model.app_settings import Claim as Claim
    from fleet.model.app_settings import Passwords as Passwords
    from fleet.model.app_settings import Resources as Resources
    from fleet.model.app_settings import Restore as Restore
    from fleet.model.app_settings import SecretRef as SecretRef
    from fleet.model.app_settings import Volume as Volume
    from fleet.model.cluster import Cluster as Cluster
    from fleet.model.context import export as export
    from fleet.model.context import output as output
    from fleet.model.manifest import Manifest as Manifest
    from fleet.model.placement import Rollout as Rollout
    from fleet.model.placement import Where as Where
    from fleet.model.placement import where as where
    from fleet.model.resource import Adopt as Adopt
    from fleet.model.resource import Alias as Alias
    from fleet.model.resource import Options as Options
    from fleet.model.stack import Collected as Collected
    from fleet.model.stack import Stack as Stack
    from fleet.model.stack import stack as stack
    from fleet.model.yaml_files import manifests as manifests

# The directory of this package. What tells our own code from users' compares with it and never counts parents.
ROOT = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes longer than all the rest

_HOMES = {
    "fleet.errors": ("ConfigurationError", "FleetError"),
    "fleet.model.app": ("App",),
    "fleet.model.app_settings": (
        "NFS",
        "S3",
        "TLS",
        "Backup",
        "Claim",
        "Passwords",
        "Resources",
        "Restore",
        "SecretRef",
        "Volume",
    ),
    "fleet.model.cluster": ("Cluster",),
    "fleet.model.context": ("export", "output"),
    "fleet.model.manifest": ("Manifest",),
    "fleet.model.resource": ("Adopt", "Alias", "Options"),
    "fleet.model.placement": ("Rollout", "Where", "where"),
    "fleet.model.stack": ("Collected", "Stack", "stack"),
    "fleet.model.yaml_files": ("manifests",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "NFS",
    "S3",
    "TLS",
    "Adopt",
    "Alias",
    "App",
    "Backup",
    "Claim",
    "Cluster",
    "Collected",
    "ConfigurationError",
    "FleetError",
    "Manifest",
    "Options",
    "Passwords",
    "Resources",
    "Restore",
    "Rollout",
    "SecretRef",
    "Stack",
    "Volume",
    "Where",
    "__version__",
    "export",
    "manifests",
    "output",
    "stack",
    "where",
]

if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'fleet' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - not needed by `import fleet` itself

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
