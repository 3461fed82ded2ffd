"""What etcd knows of its members where others set them up: their flags as settings, and the file that they read later.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from fleet.apps.etcd import found as finding
from fleet.apps.etcd import layout as layouts
from fleet.apps.etcd import secured
from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.files import FILE, as_said
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.errors import ConfigurationError
from fleet.kit import names as kit_names
from fleet.kit.adoption.member_files import FOLDER, POD, mount_member_files
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.workload import Find
from fleet.kit.driver import Problem
from fleet.kit.names import lay_out
from fleet.kit.workload import files
from fleet.model.app_settings import TLS

Object = dict[str, Any]
_FIELDS = {  # etcd's flags that a field of the spec says
    "quota-backend-bytes": "quota",
    "heartbeat-interval": "heartbeat_ms",
    "election-timeout": "election_ms",
    "snapshot-count": "snapshot_count",
    "max-request-bytes": "max_request",
    "log-level": "log_level",
}
_KNOWN = frozenset(
    {
        "data-dir",
        "listen-client-urls",
        "listen-peer-urls",
        "listen-metrics-urls",
        "client-transport-security",
        "peer-transport-security",
        "enable-grpc-gateway",
        "logger",
        "log-outputs",
        "auto-compaction-mode",
        "auto-compaction-retention",
    }
)


class EtcdAdoption(AdoptionRules[Etcd, Layout]):
    prefix: ClassVar[str] = finding.PREFIX
    reads_files: ClassVar[bool] = True

    def find_container(self, found: Object, find: Find, role: str = "") -> str | None:
        process = finding.SETTINGS.find_process(found, find)
        return process.container if process is not None else None

    def read_layout(self, sets: Mapping[str, Object], find: Find) -> Layout | Problem:
        return finding.layout(sets[""], find)

    def load_layout(self, data: Mapping[str, Any]) -> Layout:
        return layouts.read(data)

    def dump_layout(self, layout: Layout) -> dict[str, Any]:
        return layouts.write(layout)

    def with_baselines(self, layout: Layout, baselines: Mapping[str, Mapping[str, Any]]) -> Layout:
        return replace(layout, baseline=baselines[""])

    def describe_engine(self, layout: Layout, kept: list[str]) -> dict[str, Any]:
        config = _config(layout, kept)
        fields: dict[str, Any] = {"config": config} if config is not None else {}
        if not layout.tls:
            fields["tls"] = TLS(enabled=False)
        else:
            kept.append("certificates: whoever made them renews them")
        return fields

    def is_encrypted(self, layout: Layout) -> bool:
        return layout.tls

    def list_differences(self, app: Etcd, runs: Etcd, layout: Layout) -> Iterator[str]:
        laid_out = lay_out(app, layout)
        wanted, there = as_said(laid_out), as_said(laid_out.model_copy(update={"config": runs.config}))
        for name in sorted({*wanted, *there}):
            if wanted.get(name) != there.get(name):
                yield f"{name} is {there.get(name, 'not set')}, and git says {wanted.get(name, 'nothing of it')}"

    def list_secrets(self, layout: Layout) -> frozenset[str]:
        return frozenset(secret for secret, _ in layout.files.values())

    def list_facts(self, app: Etcd, layout: Layout) -> dict[str, str]:
        return {
            "data": f"{layout.config['data-dir']} on claims {layout.claim}-{layout.stateful_set}-N",
            "members know each other as": layout.peer_url,
            "clients": app.connection.url,
            "credentials": f"Secret {layout.files['cert'][0]}" if layout.tls else "none: no TLS",
        }

    def settings_in_git(self, app: Etcd, role: str) -> dict[str, Any]:
        return {"config": app.config.model_dump(by_alias=True, exclude_none=True)}

    def revision(self, app: Etcd, role: str) -> str:
        return files.revision(self.app_type, app)

    def equip(self, pod: Object, container: Object, app: Etcd, layout: Layout, role: str) -> None:
        """Have members read a file as those of any etcd of fleet's do, and have certificates where TLS is on
        its way."""
        name = files.file_name(f"$({POD})", self.revision(app, role), FILE)
        container["command"] = [layout.program]
        container["args"] = [f"--config-file={FOLDER}/{name}"]
        mount_member_files(pod, container, app)
        peers = {"peer": kit_names.secret(app, "peer")} if secured.secures_peers(layout) else {}
        secured.equip(pod, container, layout, {"server": kit_names.secret(app, "server"), **peers})


def _config(read: Layout, kept: list[str]) -> EtcdConfig | None:
    fields: dict[str, Any] = {}
    options: dict[str, str] = {}
    defaults = EtcdConfig()
    for name, value in read.config.items():
        if name in _FIELDS:
            said = str(value) if name in ("quota-backend-bytes", "max-request-bytes") else value
            if getattr(defaults, _FIELDS[name]) != said:
                fields[_FIELDS[name]] = said
        elif name not in _KNOWN:
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    fields |= dict(_compaction(read.config, kept))
    made: dict[str, Any] = {**fields, **({"options": options} if options else {})}
    try:
        return EtcdConfig(**made) if made else None
    except ConfigurationError as problem:
        kept.append(f"settings: {', '.join(options)} ({problem.message})")
        return EtcdConfig(**fields) if fields else None


def _compaction(config: Mapping[str, Any], kept: list[str]) -> Iterator[tuple[str, str]]:
    mode, kept_for = config.get("auto-compaction-mode", "periodic"), str(config.get("auto-compaction-retention", "0"))
    if mode == "revision":
        kept.append(f"compaction: by revision, {kept_for} of them")
    elif kept_for.strip() in ("0", "", "0s"):
        kept.append("compaction: none by itself")
    else:
        said = f"{kept_for}h" if kept_for.isdigit() else kept_for
        if said != EtcdConfig().compaction:
            yield "compaction", said
