"""What runs in a StatefulSet of others, in the words of an app: only what is not as it would be anyway. Pure.

`fleet adopt` writes it into a stack, and whoever says otherwise in git is refused: taking over changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.errors import ConfigurationError
from fleet.model.app_settings import TLS, Resources, Volume
from fleet.model.types import amount

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


def described(found: Object, read: Layout, claims: Sequence[Object], kept: list[str]) -> dict[str, Any]:
    """Fields of an app by name; what none of them can say is added to `kept`. `claims` are those of the namespace."""
    fields: dict[str, Any] = {}
    if (replicas := int(found["spec"].get("replicas", 1))) != 3:
        fields["members"] = replicas
    if (size := _storage(found, read, claims)) != Etcd.model_fields["storage"].default:
        fields["storage"] = size
    template = _claim_template(found, read)
    if template.get("storageClassName"):
        fields["volume"] = Volume(storage_class=template["storageClassName"])
    if (resources := _resources(container_of(found, read), kept)) is not None:
        fields["resources"] = resources
    if (config := _config(read, kept)) is not None:
        fields["config"] = config
    if not read.tls:
        fields["tls"] = TLS(enabled=False)
    else:
        kept.append("certificates: whoever made them renews them")
    return fields


def container_of(found: Object, read: Layout) -> Object:
    one: Object = next(one for one in found["spec"]["template"]["spec"]["containers"] if one["name"] == read.container)
    return one


def _claim_template(found: Object, read: Layout) -> Object:
    claims = found["spec"]["volumeClaimTemplates"]
    spec: Object = next(one for one in claims if one["metadata"]["name"] == read.claim)["spec"]
    return spec


def _storage(found: Object, read: Layout, claims: Sequence[Object]) -> str:
    """Of the smallest claim: claims grow, and what they were made from does not. Without any, as that says."""
    begin = f"{read.claim}-{read.stateful_set}-"
    own = [one["spec"] for one in claims if str(one["metadata"]["name"]).removeprefix(begin).isdecimal()]
    sizes = [str(one["resources"]["requests"]["storage"]) for one in own or [_claim_template(found, read)]]
    return min(sizes, key=amount)


def _resources(container: Object, kept: list[str]) -> Resources | None:
    requests, limits = ((container.get("resources") or {}).get(name) or {} for name in ("requests", "limits"))
    if "cpu" not in requests or "memory" not in requests:
        kept.append("resources: none are set aside for all of CPU and memory")
        return None
    fields = {"cpu": str(requests["cpu"]), "memory": str(requests["memory"])}
    if "cpu" in limits:
        fields["cpu_limit"] = str(limits["cpu"])
    if "memory" not in limits:
        kept.append("resources: memory has no limit")
    elif limits["memory"] != requests["memory"]:
        fields["memory_limit"] = str(limits["memory"])
    defaults = Resources()
    said = {name: value for name, value in fields.items() if getattr(defaults, name) != value}
    return Resources(**said) if said else None


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
