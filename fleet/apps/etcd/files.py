"""etcd's settings, and the configuration file of each member.

`fleet.kit.workload.files` says how files are named and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.app_type import Setting, setting_values
from fleet.kit.members import MemberRecord
from fleet.kit.names import DATA
from fleet.kit.workload.settings_text import read_value
from fleet.model.types import amount
from fleet.times import seconds
from fleet.yaml_text import dump_settings

FILE = "yaml"  # the file of a member
CERTIFICATES = {"server": "/etc/etcd/server", "peer": "/etc/etcd/peer"}  # where Secrets lie, by purpose
_LARGEST_QUOTA = 8 * 2**30
_ETCDS_QUOTA = 2 * 2**30  # its own choice
_LOGS = 512 * 2**20  # five files of 64 MiB that etcd keeps, the next one, and a snapshot


def common(app: Etcd) -> dict[str, Any]:
    """Return what is the same for every member."""
    kept = names.layout(app)
    return kept_settings(app, kept) if kept else as_said(app)


def as_said(app: Etcd) -> dict[str, Any]:
    """Return settings as its fields alone have them."""
    options = {flag: read_value(value) for flag, value in app.config.options.items()}
    return {**setting_values(SETTINGS, app), **options}


def kept_settings(app: Etcd, kept: Layout) -> dict[str, Any]:
    """Return settings as others set them, but for what git says otherwise than when the etcd was taken over."""
    before = as_said(at_adoption(app, kept))
    changed = {name: value for name, value in as_said(app).items() if before.get(name) != value}
    if not app.config.quota:
        changed.pop("quota-backend-bytes", None)  # of etcd's own choice still
    return {**kept.config, **changed, **secured.settings(kept)}


def at_adoption(app: Etcd, kept: Layout) -> Etcd:
    """Return what git said about members when they were taken over."""
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


def _listen(port: int) -> Callable[[Etcd], str]:
    return lambda app: f"{names.scheme(app)}://{names.any_address(app)}:{port}"


def _tls(what: str) -> Callable[[Etcd], dict[str, Any] | None]:
    folder = CERTIFICATES[what]
    files = {
        "cert-file": f"{folder}/tls.crt",
        "key-file": f"{folder}/tls.key",
        "trusted-ca-file": f"{folder}/ca.crt",
        "client-cert-auth": True,
    }
    return lambda app: dict(files) if app.tls.enabled else None


SETTINGS: tuple[Setting[Etcd], ...] = (
    Setting("data-dir", lambda app: f"{names.MOUNT}/{DATA}"),
    Setting("listen-peer-urls", _listen(names.PEER)),
    Setting("listen-client-urls", _listen(names.CLIENT)),
    Setting("listen-metrics-urls", lambda app: f"http://{names.any_address(app)}:{names.METRICS}"),
    Setting("initial-cluster-token", names.token),
    Setting("enable-grpc-gateway", lambda app: True),  # off in 3.4 unless said, when there is a file
    Setting("logger", lambda app: "zap"),
    Setting("log-outputs", lambda app: ["stderr"]),
    Setting("log-level", lambda app: app.config.log_level),
    Setting("heartbeat-interval", lambda app: app.config.heartbeat_ms),
    Setting("election-timeout", lambda app: app.config.election_ms),
    Setting("auto-compaction-mode", lambda app: "periodic"),
    Setting("auto-compaction-retention", lambda app: f"{int(seconds(app.config.compaction))}s"),
    # Volumes grow while members run; a quota that follows them grows at the next restart.
    Setting("quota-backend-bytes", quota, follows=lambda app: not app.config.quota),
    Setting("max-request-bytes", lambda app: int(amount(app.config.max_request))),
    Setting("snapshot-count", lambda app: app.config.snapshot_count or None),
    Setting("client-transport-security", _tls("server")),
    Setting("peer-transport-security", _tls("peer")),
)


def file_of(app: Etcd, pod: str, place: MemberRecord, shared: Mapping[str, Any]) -> str:
    """Return one member's file. What it says about the cluster counts only while the member has no data."""
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


def _cluster(app: Etcd, place: MemberRecord) -> str:
    if place.phase == "joining" and place.known_as:
        return ",".join(place.known_as)
    if place.phase in ("founding", "joining"):
        return ",".join(f"{pod}={names.peer_url(app, pod)}" for pod in place.cluster)
    return f"this-member-has-lost-its-data={names.scheme(app)}://nowhere.invalid:{names.PEER}"
