"""What `import fleet` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fleet
import fleet.apps

PUBLIC = [
    *("Adopt", "Alias", "App", "Backup", "Claim", "Cluster", "Collected", "ConfigurationError", "FleetError"),
    *(
        "Manifest",
        "NFS",
        "Options",
        "Passwords",
        "Resources",
        "Restore",
        "Rollout",
        "S3",
        "SecretRef",
        "Stack",
        "TLS",
        "Volume",
    ),
    *("Affinity", "DnsConfig", "DnsOption", "Expose", "HostAlias", "NodeMatch", "NodePort", "PodMatch", "PodOverrides"),
    *("Access", "AllowedPeer", "AppMetrics", "Network", "PodSecurity", "Pods", "Sidecar", "Spread", "Toleration"),
    *("Where", "__version__", "export", "manifests", "output", "stack", "where"),
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(fleet.__all__) == sorted(PUBLIC)
    assert dir(fleet) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fleet, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'stacks'"):
        _ = fleet.stacks  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute 'Oracle'"):
        _ = fleet.apps.Oracle  # type: ignore[attr-defined]


def test_importing_fleet_loads_nothing_heavy() -> None:
    heavy = {"pydantic", "yaml", "typing", "kubernetes", "click"}
    code = "import sys; before = set(sys.modules); import fleet, fleet.apps; print(*set(sys.modules) - before)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(shown.stdout.split())
