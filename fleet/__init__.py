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
    from fleet.model.network_settings import Access as Access
    from fleet.model.network_settings import AllowedPeer as AllowedPeer
    from fleet.model.network_settings import AppMetrics as AppMetrics
    from fleet.model.network_settings import Expose as Expose
    from fleet.model.network_settings import Network as Network
    from fleet.model.network_settings import NodePort as NodePort
    from fleet.model.placement import Rollout as Rollout
    from fleet.model.placement import Where as Where
    from fleet.model.placement import where as where
    from fleet.model.pod_settings import Affinity as Affinity
    from fleet.model.pod_settings import DnsConfig as DnsConfig
    from fleet.model.pod_settings import DnsOption as DnsOption
    from fleet.model.pod_settings import HostAlias as HostAlias
    from fleet.model.pod_settings import NodeMatch as NodeMatch
    from fleet.model.pod_settings import PodMatch as PodMatch
    from fleet.model.pod_settings import PodOverrides as PodOverrides
    from fleet.model.pod_settings import Pods as Pods
    from fleet.model.pod_settings import PodSecurity as PodSecurity
    from fleet.model.pod_settings import Sidecar as Sidecar
    from fleet.model.pod_settings import Spread as Spread
    from fleet.model.pod_settings import Toleration as Toleration
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
    "fleet.model.network_settings": ("Access", "Expose", "AppMetrics", "Network", "NodePort", "AllowedPeer"),
    "fleet.model.pod_settings": (
        "Affinity",
        "DnsConfig",
        "DnsOption",
        "HostAlias",
        "NodeMatch",
        "PodMatch",
        "PodOverrides",
        "PodSecurity",
        "Pods",
        "Sidecar",
        "Spread",
        "Toleration",
    ),
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
    "Access",
    "Adopt",
    "Affinity",
    "Alias",
    "AllowedPeer",
    "App",
    "AppMetrics",
    "Backup",
    "Claim",
    "Cluster",
    "Collected",
    "ConfigurationError",
    "DnsConfig",
    "DnsOption",
    "Expose",
    "FleetError",
    "HostAlias",
    "Manifest",
    "Network",
    "NodeMatch",
    "NodePort",
    "Options",
    "Passwords",
    "PodMatch",
    "PodOverrides",
    "PodSecurity",
    "Pods",
    "Resources",
    "Restore",
    "Rollout",
    "SecretRef",
    "Sidecar",
    "Spread",
    "Stack",
    "Toleration",
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
