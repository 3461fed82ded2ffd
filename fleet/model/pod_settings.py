"""What every app may say of its members' pods: where they run, what they are labelled with, what runs beside them.

Who may make an app need not be one who may make pods. So this is a list of what may be said, and nothing on it gives a
pod more than it would have without. What would is refused by name: here, by the API server, whose definitions have the
same rules, and by the operator, which judges the pods that come of it (`fleet.kit.workload.escalation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PlainSerializer, WithJsonSchema

from fleet.model.app import App
from fleet.model.app_settings import Resources, SecretName, name_once, refuse_if_adopted, settings_of
from fleet.model.base import Forbidden, FrozenMap, KeyedBy, Model, Rule
from fleet.model.labels import NO_ACTING_ANNOTATIONS, NO_OWN_LABELS, Annotations, LabelKey, Labels, LabelValue
from fleet.model.types import Many, Name, ObjectName
from fleet.model.validation import invalid_value

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SYSTEM_PRIORITY = "system-"  # how the classes of Kubernetes' own pods begin, which drive all others out
_USER = Annotated[int, Field(ge=1, le=2**31 - 1)]

NOT_SYSTEM = Rule(
    cel=f"!self.startsWith('{SYSTEM_PRIORITY}')",
    message="is for Kubernetes' own pods, before which all others give way",
    holds=lambda name: not name.startswith(SYSTEM_PRIORITY),
    hint="name a PriorityClass of the cluster's own",
)


class Toleration(Model, frozen=True):
    """A taint of nodes that members put up with."""

    key: LabelKey | None = Field(default=None, kw_only=False)
    """The taint's name; every taint unless given, with `operator="Exists"`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether the taint must have this value, or may have any."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """What the taint does to others; any effect unless given."""
    seconds: Annotated[int, Field(ge=0)] | None = None
    """For how long members stay on a node that gets a taint with NoExecute; for ever unless given."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.operator != 'Exists' || !has(self.value)",
            message="is compared with nothing: Exists is true of any value",
            holds=lambda self: self.operator != "Exists" or self.value is None,
            hint='leave it out, or say operator="Equal"',
            field="value",
        ),
        Rule(
            cel="has(self.key) || self.operator == 'Exists'",
            message="must be Exists where no taint is named",
            holds=lambda self: self.key is not None or self.operator == "Exists",
            hint='name the taint, or say operator="Exists" for all of them',
            field="operator",
        ),
        Rule(
            cel="!has(self.seconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="count only for NoExecute",
            holds=lambda self: self.seconds is None or self.effect == "NoExecute",
            hint='say effect="NoExecute"',
            field="seconds",
        ),
    )


class NodeMatch(Model, frozen=True):
    """A label of nodes, and what its value must be."""

    key: LabelKey = Field(kw_only=False)
    """The label's name."""
    values: Annotated[Many[LabelValue], Field(max_length=32)] = Field(default=(), kw_only=False)
    """The values that count; one whole number for Gt and Lt."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    """How the label is compared with them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="(self.operator in ['Exists', 'DoesNotExist']) == (!has(self.values) || size(self.values) == 0)",
            message="must be given, but for Exists and DoesNotExist, which take none",
            holds=lambda self: (self.operator in ("Exists", "DoesNotExist")) == (not self.values),
            hint='such as NodeMatch("disk", ["ssd"]), or NodeMatch("gpu", operator="DoesNotExist")',
            field="values",
        ),
        Rule(
            cel="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1"
            " && self.values[0].matches('^[0-9]+$'))",
            message="must be one whole number for Gt and Lt",
            holds=lambda self: (
                self.operator not in ("Gt", "Lt") or (len(self.values) == 1 and self.values[0].isdecimal())
            ),
            hint='such as NodeMatch("cpus", ["8"], operator="Gt")',
            field="values",
        ),
    )


class PodMatch(Model, frozen=True):
    """Pods of the namespace by their labels, and how near to them counts as beside them."""

    labels: Annotated[Labels, Field(min_length=1)] = Field(kw_only=False)
    """The labels that they have."""
    within: LabelKey = HOSTNAME
    """The label of nodes that says what is one place: the node, or "topology.kubernetes.io/zone"."""
    required: bool = False
    """Whether a member rather has no node than another place."""


class Affinity(Model, frozen=True):
    """Which nodes and whose company members seek or avoid."""

    nodes: Annotated[Many[NodeMatch], Field(max_length=16)] = ()
    """What a node must be like, all of it."""
    preferred_nodes: Annotated[Many[NodeMatch], Field(max_length=8)] = ()
    """What a node had better be like, the most important first."""
    near: Annotated[Many[PodMatch], Field(max_length=8)] = ()
    """Pods beside which members run."""
    apart: Annotated[Many[PodMatch], Field(max_length=8)] = ()
    """Pods beside which members do not run."""


class Spread(Model, frozen=True):
    """How members are spread over nodes, zones or other places. Without a word of it they are spread over nodes and
    zones wherever that is possible.
    """

    over: LabelKey = Field(default=ZONE, kw_only=False)
    """The label of nodes that says what is one place; zones unless given."""
    max_skew: Annotated[int, Field(ge=1, le=8)] = 1
    """By how many members one place may have more than another."""
    required: bool = False
    """Whether a member rather has no node than spoil that."""


def _check_path(text: str) -> str:
    if not text.startswith("/") or text == "/" or "//" in text or not {".", ".."}.isdisjoint(text.split("/")):
        raise invalid_value(f"{text!r} is not the path of a directory", "such as '/tmp'")
    return text


MountPath = Annotated[
    str,
    AfterValidator(_check_path),
    WithJsonSchema({"type": "string", "maxLength": 512, "pattern": "^(/[^/:]+)+$"}),
]
Environment = Annotated[
    Mapping[str, Annotated[str, Field(max_length=4096)]],
    Field(max_length=64),
    AfterValidator(FrozenMap),
    Rule(
        cel="self.all(key, key.matches('^[A-Za-z_][A-Za-z0-9_]{0,127}$'))",
        message="has a name that cannot be one of a variable",
        holds=lambda values: all(key.isidentifier() and key.isascii() and len(key) <= 128 for key in values),
        hint="letters, digits and underscores",
    ),
    PlainSerializer(dict, return_type=dict[str, str]),
]
_PRIVILEGES = "would say what the kernel lets it do; it runs as members do, without any privilege"
_ELSEWHERE = "would bring in what lies in other volumes and Secrets of the namespace"
_SECRETS_HINT = "`scratch` are directories of its own, `connection` is where the app's own Secret for clients lies"


class Sidecar(Model, frozen=True):
    """A container beside each member's. It runs as members do: no privilege, a read-only image, no token. Its image
    must be one that the operator's owner allows.
    """

    name: Name = Field(kw_only=False)
    """The container's name."""
    image: Annotated[str, Field(min_length=1, max_length=512)]
    """Its image; `fleet operator install --allow-image` says which there may be."""
    command: Annotated[Many[Annotated[str, Field(max_length=4096)]], Field(max_length=64)] = ()
    """What runs; what the image says unless given."""
    arguments: Annotated[Many[Annotated[str, Field(max_length=4096)]], Field(max_length=64)] = ()
    """The arguments of the command."""
    env: Environment = FrozenMap()
    """Its environment: plain values."""
    resources: Resources = Resources(cpu="50m", memory="64Mi")
    """CPU and memory of it."""
    scratch: Annotated[Many[MountPath], Field(max_length=8)] = ()
    """Directories that it may write to, which are empty when a pod is made."""
    connection: MountPath | None = None
    """The directory in which the Secret for the app's clients lies: address and certificates."""

    forbidden: ClassVar[Mapping[str, Forbidden]] = {
        "securityContext": Forbidden("object", _PRIVILEGES),
        "volumeMounts": Forbidden("array", _ELSEWHERE, _SECRETS_HINT),
        "volumeDevices": Forbidden("array", _ELSEWHERE, _SECRETS_HINT),
        "envFrom": Forbidden("array", _ELSEWHERE, _SECRETS_HINT),
    }


class PodSecurity(Model, frozen=True):
    """Under which numbers pods run, for clusters that give each namespace its own."""

    run_as_user: _USER | None = None
    """The user; the engine's usual one unless given."""
    run_as_group: _USER | None = None
    """The group; the engine's usual one unless given."""
    fs_group: _USER | None = None
    """The group that volumes are given to."""
    fs_group_change_policy: Literal["Always", "OnRootMismatch"] | None = None
    """Whether all files of a volume are given to the group at each start; `OnRootMismatch` is faster."""

    forbidden: ClassVar[Mapping[str, Forbidden]] = {
        name: Forbidden(kind, "would say what the kernel lets members do; they run without any privilege")
        for name, kind in {
            "privileged": "boolean",
            "allowPrivilegeEscalation": "boolean",
            "capabilities": "object",
            "runAsNonRoot": "boolean",
            "seccompProfile": "object",
            "appArmorProfile": "object",
            "seLinuxOptions": "object",
            "windowsOptions": "object",
            "procMount": "string",
            "sysctls": "array",
        }.items()
    } | {"supplementalGroups": Forbidden("array", "would let members at files of other groups", items="integer")}


class DnsOption(Model, frozen=True):
    """An option of the resolver."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(kw_only=False)
    """Such as "ndots"."""
    value: Annotated[str, Field(max_length=63)] | None = Field(default=None, kw_only=False)
    """Its value, if it has one."""


class DnsConfig(Model, frozen=True):
    """Which name servers pods ask, beside those that the policy gives them."""

    nameservers: Annotated[Many[Annotated[str, Field(max_length=64)]], Field(max_length=3)] = ()
    """Addresses of name servers."""
    searches: Annotated[Many[Annotated[str, Field(max_length=253)]], Field(max_length=32)] = ()
    """Domains in which names without dots are looked for."""
    options: Annotated[Many[DnsOption], Field(max_length=16)] = ()
    """Options of the resolver."""


class HostAlias(Model, frozen=True):
    """Names that an address has for the pods."""

    ip: Annotated[str, Field(min_length=2, max_length=64)] = Field(kw_only=False)
    """The address."""
    hostnames: Annotated[Many[Annotated[str, Field(max_length=253)]], Field(min_length=1, max_length=16)] = Field(
        kw_only=False
    )
    """The names."""


_HOST = "would put members into a namespace of the node, beside the processes of everybody"
_ACCOUNT = "would give members the rights of another account; they have none, and no token"
_CONTAINERS = "would change what fleet's own containers run, mount and may do"
_VOLUMES = "would bring in directories of nodes and Secrets of others"


class PodOverrides(Model, frozen=True):
    """Fields of a pod, as Kubernetes has them, that have no field of their own here. What is not on the list is
    refused: members keep to what fleet makes of them.
    """

    dns_policy: Literal["ClusterFirst", "Default", "None"] | None = None
    """Where pods look names up."""
    dns_config: DnsConfig | None = None
    """Which name servers they ask."""
    host_aliases: Annotated[Many[HostAlias], Field(max_length=16)] = ()
    """Names that addresses have for them."""
    runtime_class_name: ObjectName | None = None
    """The RuntimeClass that runs them."""
    scheduler_name: Name | None = None
    """The scheduler that finds nodes for them."""
    termination_grace_period_seconds: Annotated[int, Field(ge=10, le=86_400)] | None = None
    """How long a member has to end; the engine's usual time unless given."""
    security_context: PodSecurity | None = None
    """Under which numbers they run."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.dnsPolicy) || self.dnsPolicy != 'None'"
            " || (has(self.dnsConfig) && has(self.dnsConfig.nameservers) && size(self.dnsConfig.nameservers) > 0)",
            message="None leaves pods without any name server",
            holds=lambda self: (
                self.dns_policy != "None" or (self.dns_config is not None and bool(self.dns_config.nameservers))
            ),
            hint='say which there are: dns_config=DnsConfig(nameservers=["10.0.0.10"])',
            field="dns_policy",
        ),
    )
    forbidden: ClassVar[Mapping[str, Forbidden]] = {
        **{name: Forbidden("boolean", _HOST) for name in ("hostNetwork", "hostPID", "hostIPC", "hostUsers")},
        "shareProcessNamespace": Forbidden("boolean", "would let sidecars read what members hold in memory and files"),
        "serviceAccountName": Forbidden("string", _ACCOUNT),
        "serviceAccount": Forbidden("string", _ACCOUNT),
        "automountServiceAccountToken": Forbidden("boolean", _ACCOUNT),
        "volumes": Forbidden("array", _VOLUMES),
        "containers": Forbidden("array", _CONTAINERS, "`sidecars` run beside them"),
        "initContainers": Forbidden("array", _CONTAINERS, "`sidecars` run beside them"),
        "ephemeralContainers": Forbidden("array", _CONTAINERS, "`sidecars` run beside them"),
        "nodeName": Forbidden("string", "would go past the scheduler", "`node_selector` says which nodes"),
        "hostname": Forbidden("string", "would take members the names by which they are found"),
        "subdomain": Forbidden("string", "would take members the names by which they are found"),
        "labels": Forbidden("object", "would change what Services and budgets select", "`labels` is beside it"),
        "selector": Forbidden("object", "would change which pods are the app's"),
    }


class Pods(Model, frozen=True):
    """Where members run, and what is beside them. A change restarts members, one at a time."""

    node_selector: Labels = FrozenMap()
    """Labels that a node must have."""
    tolerations: Annotated[Many[Toleration], Field(max_length=16)] = ()
    """Taints of nodes that members put up with."""
    affinity: Affinity | None = None
    """Which nodes and whose company members seek or avoid."""
    spread: Annotated[Many[Spread], Field(max_length=4)] = ()
    """How members are spread; over nodes and zones wherever that is possible, unless said otherwise of these."""
    priority_class: Annotated[ObjectName, NOT_SYSTEM] | None = None
    """The PriorityClass: who gives way where there is no room."""
    pull_secrets: Annotated[Many[SecretName], Field(max_length=8)] = ()
    """Secrets of the namespace with which images are pulled."""
    labels: Annotated[Labels, NO_OWN_LABELS] = FrozenMap()
    """Further labels of the pods."""
    annotations: Annotated[Annotations, NO_ACTING_ANNOTATIONS] = FrozenMap()
    """Annotations of the pods."""
    sidecars: Annotated[Many[Sidecar], Field(max_length=8), KeyedBy("name")] = ()
    """Containers beside each member's."""
    overrides: PodOverrides | None = None
    """Fields of the pods as Kubernetes has them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.sidecars) || self.sidecars.all(one, !one.name.startsWith('prepare-'))",
            message="has a name that fleet's own containers have",
            holds=lambda self: not any(sidecar.name.startswith("prepare-") for sidecar in self.sidecars),
            hint="choose another one",
            field="sidecars",
        ),
        name_once(
            "spread",
            "over",
            message="says twice how members are spread over the same places",
            hint="say it once for each label of nodes",
        ),
        name_once("sidecars", "name", message="has a name twice", hint="each container has a name of its own"),
    )


class Placed(App, frozen=True):
    """A mixin: the app says where its pods run, and what is beside them."""

    pods: Pods | None = None
    """Where members run, their labels and annotations, sidecars, and fields of pods as Kubernetes has them."""

    rules: ClassVar[tuple[Rule, ...]] = (refuse_if_adopted("pods", "their pods stay as they were found"),)


def pods_of_app(app: App) -> Pods:
    """Return what an app says of its pods; nothing for one of a type without the mixin."""
    return settings_of(app, "pods", Pods)
