"""The configuration file of each member.

Files are named by pod and by a hash of what is the same for all, and the pod template names the hash: a member that is
restarted by chance while a change rolls through keeps the configuration that its pod was made with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.ledger import Ledger, Place
from fleet.apps.etcd.spec import Etcd
from fleet.kit.settings_text import read_settings, read_value
from fleet.model.types import amount
from fleet.times import seconds
from fleet.yaml_text import dump_settings

_LARGEST_QUOTA = 8 * 2**30
_ETCDS_QUOTA = 2 * 2**30  # its own choice
_LOGS = 512 * 2**20  # five files of 64 MiB that etcd keeps, the next one, and a snapshot


def common(app: Etcd) -> dict[str, Any]:
    """What is the same for every member."""
    kept = names.layout(app)
    return kept_settings(app, kept) if kept else as_said(app)


def as_said(app: Etcd) -> dict[str, Any]:
    """As its fields alone have it."""
    config = app.config
    found: dict[str, Any] = {
        "data-dir": f"{names.MOUNT}/{names.DATA}",
        "listen-peer-urls": f"{names.scheme(app)}://0.0.0.0:{names.PEER}",
        "listen-client-urls": f"{names.scheme(app)}://0.0.0.0:{names.CLIENT}",
        "listen-metrics-urls": f"http://0.0.0.0:{names.METRICS}",
        "initial-cluster-token": names.token(app),
        "enable-grpc-gateway": True,  # off in 3.4 unless said, when there is a file
        "logger": "zap",
        "log-outputs": ["stderr"],
        "log-level": config.log_level,
        "heartbeat-interval": config.heartbeat_ms,
        "election-timeout": config.election_ms,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": f"{int(seconds(config.compaction))}s",
        "quota-backend-bytes": quota(app),
        "max-request-bytes": int(amount(config.max_request)),
    }
    if config.snapshot_count:
        found["snapshot-count"] = config.snapshot_count
    if app.tls.enabled:
        found["client-transport-security"] = _tls("server")
        found["peer-transport-security"] = _tls("peer")
    found.update({flag: read_value(value) for flag, value in config.options.items()})
    return found


def kept_settings(app: Etcd, kept: Layout) -> dict[str, Any]:
    """As others set them, but for what git says otherwise than when the etcd was taken over."""
    before = as_said(at_adoption(app, kept))
    changed = {name: value for name, value in as_said(app).items() if before.get(name) != value}
    if not app.config.quota:
        changed.pop("quota-backend-bytes", None)  # of etcd's own choice still
    return {**kept.config, **changed, **secured.settings(kept)}


def at_adoption(app: Etcd, kept: Layout) -> Etcd:
    """What git said about members when they were taken over."""
    config = EtcdConfig.read(dict(kept.baseline.get("config", {})))
    return app.model_copy(update={"config": config, "storage": kept.baseline.get("storage", app.storage)})


def quota(app: Etcd) -> int:
    kept = names.layout(app)
    if kept and not app.config.quota:
        return int(kept.config.get("quota-backend-bytes") or _ETCDS_QUOTA)
    if app.config.quota:
        return int(amount(app.config.quota))
    storage = int(amount(app.storage))
    return min(storage * 3 // 4, max(storage - _LOGS, storage // 4), _LARGEST_QUOTA)


def _tls(what: str) -> dict[str, Any]:
    folder = f"/etc/etcd/{what}"
    return {
        "cert-file": f"{folder}/tls.crt",
        "key-file": f"{folder}/tls.key",
        "trusted-ca-file": f"{folder}/ca.crt",
        "client-cert-auth": True,
    }


def revision(app: Etcd) -> str:
    """A quota that follows the storage is left out: volumes grow while members run, it grows at the next restart."""
    counted = {key: value for key, value in common(app).items() if key != "quota-backend-bytes" or app.config.quota}
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()[:10]


def file_name(pod: str, revision: str) -> str:
    return f"{pod}.{revision}.yaml"


def file_of(app: Etcd, pod: str, place: Place, shared: Mapping[str, Any]) -> str:
    """One member's file. What it says about the cluster counts only while the member has no data."""
    own = {
        "name": pod,
        "initial-advertise-peer-urls": ",".join(names.peer_urls(app, pod)),
        "advertise-client-urls": _advertised(app, pod, shared),
        "initial-cluster-state": "new" if place.phase == "founding" else "existing",
        "initial-cluster": _cluster(app, place),
    }
    if place.phase == "forced":
        own["force-new-cluster"] = True  # type: ignore[assignment]
    shared = {key: value for key, value in shared.items() if key != "force-new-cluster"}
    return dump_settings({**shared, **own})


def _advertised(app: Etcd, pod: str, shared: Mapping[str, Any]) -> str:
    kept, url = names.layout(app), names.client_url(app, pod)
    return secured.advertised(kept, url, str(shared.get("listen-client-urls", ""))) if kept else url


def _cluster(app: Etcd, place: Place) -> str:
    if place.phase == "joining" and place.known_as:
        return ",".join(place.known_as)
    if place.phase in ("founding", "joining"):
        return ",".join(f"{pod}={names.peer_url(app, pod)}" for pod in place.cluster)
    return f"this-member-has-lost-its-data={names.scheme(app)}://nowhere.invalid:{names.PEER}"


def files(app: Etcd, ledger: Ledger, present: Mapping[str, str], used: Iterable[str]) -> dict[str, str]:
    """All files: of the wanted configuration, and of those (`used`) that pods were made with, as `present` has them."""
    wanted = revision(app)
    shared: dict[str, Mapping[str, Any]] = {wanted: common(app)}
    for name, text in sorted(present.items()):
        older = name.rpartition(".")[0].rpartition(".")[2]
        if older in used and older not in shared:
            shared[older] = read_settings(text)
    return {
        file_name(pod, one): file_of(app, pod, place, content)
        for one, content in shared.items()
        for pod, place in ledger.places.items()
    }
