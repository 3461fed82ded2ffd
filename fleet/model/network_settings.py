"""What every app may say of how it is reached: its Service, names for clients outside, addresses, and who may come.

Who may make an app need not be one who may make Services. What opens an app to more than its cluster is for the
operator's owner to allow (`fleet.kit.permissions`).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from fleet.model.app import App
from fleet.model.app_settings import name_once, refuse_if_adopted, settings_of
from fleet.model.base import FrozenMap, Model, Rule
from fleet.model.labels import NO_OWN_SERVICE_ANNOTATIONS, Annotations, LabelKey, Labels
from fleet.model.pod_settings import Placed
from fleet.model.types import Many, Name, check_object_name
from fleet.model.validation import invalid_value

_DNS = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")

_RANGE = re.compile(r"[0-9a-fA-F.:]+/[0-9]{1,3}")  # as the definition has it: no address alone, and no mask


def is_address(text: str) -> bool:
    """Tell whether a name in a certificate is an address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_name(text: str) -> str:
    if len(text) <= 253 and (is_address(text) or (_DNS.fullmatch(text) and not text.replace(".", "").isdecimal())):
        return text
    raise invalid_value(
        f"{text[:80]!r} is neither a name nor an address", "such as 'db.example.com', '*.db.example.com' or '192.0.2.7'"
    )


def _check_range(text: str) -> str:
    if not _RANGE.fullmatch(text):
        raise invalid_value(f"{text[:80]!r} is no range of addresses", "such as '192.0.2.0/24'")
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise invalid_value(f"{text[:80]!r} is no range of addresses", "such as '192.0.2.0/24'") from None
    return text


ExternalName = Annotated[
    str,
    AfterValidator(_check_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 253, "pattern": r"^(\*\.)?[a-z0-9A-F.:-]+$"}),
]
AddressRange = Annotated[
    str,
    AfterValidator(_check_range),
    WithJsonSchema({"type": "string", "maxLength": 49, "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}),
]
ClusterDomain = Annotated[
    str,
    AfterValidator(check_object_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}),
]
_IS_PLAIN = "self.type == 'ClusterIP'"


class NodePort(Model, frozen=True):
    """The port of every node that leads to a port of the app."""

    number: Annotated[int, Field(ge=1, le=65535)] = Field(kw_only=False)
    """The port of the nodes: within the range that the cluster has for them, 30000 to 32767 unless changed."""
    port: Name = "client"
    """The name of the app's port."""


class Expose(Model, frozen=True):
    """The Service by which clients reach the app, and the names that they may use from outside."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Whether it is reached in the cluster, on every node, or by an address outside. More than the first is for the
    operator's owner to allow: `fleet operator install --allow-service`."""
    annotations: Annotated[Annotations, NO_OWN_SERVICE_ANNOTATIONS] = FrozenMap()
    """Annotations of the Service, by which clouds are told what to make."""
    node_ports: Annotated[Many[NodePort], Field(max_length=8)] = ()
    """Ports of the nodes; Kubernetes chooses those that are not given."""
    names: Annotated[Many[ExternalName], Field(max_length=16)] = ()
    """Names and addresses that clients outside use: members' certificates have them, too."""
    source_ranges: Annotated[Many[AddressRange], Field(max_length=32)] = ()
    """Where clients of a load balancer may come from; from anywhere unless given."""
    load_balancer_class: LabelKey | None = None
    """Who makes the load balancer, if that is not the cluster's usual one."""
    traffic_policy: Literal["Cluster", "Local"] | None = None
    """`Local` keeps the clients' addresses, and leads only to members of the node that was asked."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!has(self.nodePorts) || size(self.nodePorts) == 0 || !({_IS_PLAIN})",
            message="are opened for NodePort and LoadBalancer alone",
            holds=lambda self: not self.node_ports or self.type != "ClusterIP",
            hint='say type="NodePort"',
            field="node_ports",
        ),
        name_once(
            "node_ports", "port", message="names a port twice", hint="each port of the app has one port of the nodes"
        ),
        Rule(
            cel="!has(self.sourceRanges) || size(self.sourceRanges) == 0 || self.type == 'LoadBalancer'",
            message="are kept to by load balancers alone",
            holds=lambda self: not self.source_ranges or self.type == "LoadBalancer",
            hint='say type="LoadBalancer"',
            field="source_ranges",
        ),
        Rule(
            cel="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",
            message="is of load balancers alone",
            holds=lambda self: self.load_balancer_class is None or self.type == "LoadBalancer",
            hint='say type="LoadBalancer"',
            field="load_balancer_class",
        ),
        Rule(
            cel=f"!has(self.trafficPolicy) || !({_IS_PLAIN})",
            message="is about clients that come by a node",
            holds=lambda self: self.traffic_policy is None or self.type != "ClusterIP",
            hint='say type="NodePort" or type="LoadBalancer"',
            field="traffic_policy",
        ),
    )


class Exposed(Placed, frozen=True):
    """A mixin: the app also says how clients reach it."""

    expose: Expose | None = None
    """The Service for clients, and names in certificates for those outside; within the cluster alone unless given."""

    rules: ClassVar[tuple[Rule, ...]] = (
        refuse_if_adopted(
            "expose", "their Services stay as they were found", "leave it out, and make a Service beside the app"
        ),
    )


def exposure_of(app: App) -> Expose:
    """Return how an app is reached; within the cluster alone for one of a type without the mixin."""
    return settings_of(app, "expose", Expose)


class AllowedPeer(Model, frozen=True):
    """Who may come: pods by their labels, in namespaces by theirs, or addresses."""

    pods: Labels = FrozenMap()
    """Labels of pods; all pods of these namespaces unless given."""
    namespaces: Labels = FrozenMap()
    """Labels of namespaces, such as {"kubernetes.io/metadata.name": "shop"}; the app's own unless given."""
    addresses: AddressRange | None = None
    """A range of addresses: of clients outside, and of nodes, by whose ports these come."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.addresses) != ((has(self.pods) && size(self.pods) > 0)"
            " || (has(self.namespaces) && size(self.namespaces) > 0))",
            message="must name pods, namespaces or both, or else a range of addresses",
            holds=lambda self: (self.addresses is not None) != bool(self.pods or self.namespaces),
            hint='such as AllowedPeer(pods={"app": "shop"}) or AllowedPeer(addresses="192.0.2.0/24")',
            field="pods",
        ),
    )


class Access(Model, frozen=True):
    """Who reaches members: each other, Jobs of the app, the operator that is installed in the cluster, and who is named
    here; nobody else, unless another NetworkPolicy lets them in. The cluster's network enforces it, or does not.
    """

    clients: Annotated[Many[AllowedPeer], Field(max_length=16)] = ()
    """Who reaches the ports for clients."""
    metrics: Annotated[Many[AllowedPeer], Field(max_length=16)] = ()
    """Who reaches the port for metrics."""


class Network(Model, frozen=True):
    """The addresses of the app's Services and members."""

    ip_family_policy: Literal["SingleStack", "PreferDualStack", "RequireDualStack"] | None = None
    """Whether Services have addresses of one family or of both; the cluster's usual one unless given."""
    ip_families: Annotated[Many[Literal["IPv4", "IPv6"]], Field(max_length=2)] = ()
    """Which families, the first being the main one, which cannot be changed once the Services exist."""
    cluster_domain: ClusterDomain = "cluster.local"
    """The domain of the cluster's Services, for names in certificates."""
    access: Access | None = None
    """Who reaches members; whoever reaches the cluster's network unless given."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.ipFamilies) || size(self.ipFamilies) < 2 || (self.ipFamilies[0] != self.ipFamilies[1]"
            " && has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack')",
            message="are two different ones, of Services with both",
            holds=lambda self: (
                len(self.ip_families) < 2
                or (len({*self.ip_families}) == 2 and self.ip_family_policy in ("PreferDualStack", "RequireDualStack"))
            ),
            hint='say ip_family_policy="PreferDualStack", or name one family',
            field="ip_families",
        ),
    )

    @property
    def has_ipv6(self) -> bool:
        """Whether members may have addresses of IPv6, and so listen on them."""
        return "IPv6" in self.ip_families or self.ip_family_policy in ("PreferDualStack", "RequireDualStack")


class Networked(Exposed, frozen=True):
    """A mixin: the app also says which addresses it has."""

    network: Network | None = None
    """Families of addresses, and the cluster's domain."""

    rules: ClassVar[tuple[Rule, ...]] = (refuse_if_adopted("network", "they listen as they were found"),)


class AppMetrics(Model, frozen=True):
    """How what members measure is found."""

    service: bool = False
    """Make a Service APP-metrics with the members' port for metrics, which leads to each of them."""
    annotations: Annotated[Annotations, NO_OWN_SERVICE_ANNOTATIONS] = FrozenMap()
    """Annotations of that Service."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.annotations) || size(self.annotations) == 0 || self.service",
            message="are those of a Service that is not made",
            holds=lambda self: not self.annotations or self.service,
            hint="say service=True",
            field="annotations",
        ),
    )


class Measured(Networked, frozen=True):
    """A mixin: the app also says how its metrics are found. Each has what the ones before have, in one line of descent:
    editors that read sources lose a field of several bases.
    """

    metrics: AppMetrics | None = None
    """How metrics are found; each member has them at a port of its pod in any case."""

    rules: ClassVar[tuple[Rule, ...]] = (
        refuse_if_adopted(
            "metrics", "their Services stay as they were found", "leave it out, and make a Service beside the app"
        ),
    )


def network_of(app: App) -> Network:
    """Return which addresses an app has; the usual ones for one of a type without the mixin."""
    return settings_of(app, "network", Network)


def metrics_of(app: App) -> AppMetrics:
    """Return how the metrics of an app are found; by nothing for one of a type without the mixin."""
    return settings_of(app, "metrics", AppMetrics)
