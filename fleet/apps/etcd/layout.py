"""An etcd that others set up, as it is: what its parts are called, where members listen, how they are configured.

Read from its StatefulSet, kept in the ledger from the moment it is taken over, and then the same for ever but for TLS,
which may be turned on (see `secured`): data hangs on it. An app without one is laid out as `names` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fleet.kit.adoption.encryption import Stage


@dataclass(frozen=True, slots=True)
class Layout:
    """`{pod}` in a URL stands for a member's pod."""

    stateful_set: str
    container: str
    claim: str  # the claim template that holds the data
    peer_url: str
    client_url: str
    port: int  # for clients, in the pod
    config: Mapping[str, Any] = field(default_factory=dict)  # as a file has it, without what is a member's own
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # ca, cert, key: Secret and key; none: no TLS
    paths: Mapping[str, str] = field(default_factory=dict)  # the same files, as the container sees them
    baseline: Mapping[str, Any] = field(default_factory=dict)  # the app as it was when it was taken over
    secured: Stage = ""  # how far TLS with certificates of fleet's own is, where none was found
    metrics: int = 0  # the port for probes, from when on clients are served with TLS alone
    shadows: tuple[str, ...] = ()  # variables of its container that etcdctl takes, and will not have beside its flags
    program: str = "etcd"  # what starts it, with its path if it was started by one

    @property
    def sets(self) -> Mapping[str, Layout]:
        """Return the layout by role: etcd has one."""
        return {"": self}

    @property
    def tls(self) -> bool:
        """Tell whether it was found with TLS."""
        return bool(self.files)


def write(layout: Layout) -> dict[str, Any]:
    """Return a layout as it is read again, tuples being lists: so two can be compared."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(layout)))
    return {name: value for name, value in found.items() if value or name not in ("secured", "metrics")}


def read(data: Mapping[str, Any]) -> Layout:
    files = {name: (one[0], one[1]) for name, one in data.get("files", {}).items()}
    return Layout(**{**data, "files": files, "shadows": tuple(data.get("shadows", ()))})
