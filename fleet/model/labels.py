"""Labels and annotations that users say of what is made for an app: their grammar, and which are not theirs to say.

What is refused here the definitions refuse too: each rule has its CEL beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer, WithJsonSchema

from fleet.model.base import FrozenMap, Rule
from fleet.model.validation import invalid_value

OWN_LABELS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/managed-by",
    "controller-revision-hash",
)
OWN_DOMAINS = ("fleet.dev", "statefulset.kubernetes.io", "apps.kubernetes.io")
# Of annotations of pods: what Kubernetes itself acts upon, networks of their own, and mounts of a node's directories.
ACTING_DOMAINS = ("fleet.dev", "kubernetes.io", "k8s.io", "cni.cncf.io")
ACTING = ("sidecar.istio.io/userVolume", "sidecar.istio.io/userVolumeMount", "inject.istio.io/templates")
HARMLESS = "cluster-autoscaler.kubernetes.io/"  # whether a node may be emptied of the pod
# Of annotations of Services: what Kubernetes keeps there for itself. Clouds have their own below `kubernetes.io`.
SERVICE_DOMAINS = ("fleet.dev", "kubectl.kubernetes.io", "endpoints.kubernetes.io", "control-plane.alpha.kubernetes.io")
_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = f"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"


def check_label_key(text: str) -> str:
    """Return the text if it can be the name of a label or of an annotation."""
    if re.fullmatch(_KEY, text):
        return text
    raise invalid_value(f"{text[:80]!r} is not the name of a label", "such as 'team' or 'example.com/team'")


def check_label_value(text: str) -> str:
    """Return the text if it can be the value of a label."""
    if re.fullmatch(f"({_NAME})?", text):
        return text
    allowed = "letters, digits, dashes, dots and underscores, 63 at most"
    raise invalid_value(f"{text[:80]!r} is not the value of a label", allowed)


def is_own_label(key: str) -> bool:
    """Tell whether a label of pods is fleet's or Kubernetes' own: Services and budgets find pods by them."""
    return key in OWN_LABELS or _is_of(key, OWN_DOMAINS)


def is_acting_annotation(key: str) -> bool:
    """Tell whether an annotation of pods makes somebody give them more than their template says."""
    return key in ACTING or (_is_of(key, ACTING_DOMAINS) and not key.startswith(HARMLESS))


def is_own_service_annotation(key: str) -> bool:
    """Tell whether an annotation of a Service is for fleet or Kubernetes itself to write."""
    return _is_of(key, SERVICE_DOMAINS)


def _is_of(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == known or domain.endswith(f".{known}") for known in domains)


def _cel_is_of(domains: tuple[str, ...]) -> str:
    return " || ".join(f"key.startsWith('{domain}/') || key.contains('.{domain}/')" for domain in domains)


def _check_keys(values: Mapping[str, str]) -> FrozenMap:
    for key in values:
        check_label_key(key)
    return FrozenMap(values)


ARE_KEYS = Rule(cel=f"self.all(key, key.matches('^{_KEY}$'))", message="has a name that cannot be one of a label")
NO_OWN_LABELS = Rule(
    cel=f"self.all(key, !(key in {list(OWN_LABELS)} || {_cel_is_of(OWN_DOMAINS)}))",
    message="has a label of fleet's own: Services, budgets and the operator find members by it",
    holds=lambda labels: not any(map(is_own_label, labels)),
    hint="choose a name such as 'example.com/team'",
)
NO_ACTING_ANNOTATIONS = Rule(
    cel=f"self.all(key, !(key in {list(ACTING)} || (({_cel_is_of(ACTING_DOMAINS)}) && !key.startsWith('{HARMLESS}'))))",
    message="has an annotation that makes a pod more than its template says",
    holds=lambda annotations: not any(map(is_acting_annotation, annotations)),
    hint="leave it out: what Kubernetes or a network acts upon is for those who may make pods",
)
NO_OWN_SERVICE_ANNOTATIONS = Rule(
    cel=f"self.all(key, !({_cel_is_of(SERVICE_DOMAINS)}))",
    message="has an annotation that fleet or Kubernetes writes itself",
    holds=lambda annotations: not any(map(is_own_service_annotation, annotations)),
    hint="leave it out",
)
LabelKey = Annotated[
    str,
    AfterValidator(check_label_key),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 317, "pattern": f"^{_KEY}$"}),
]
LabelValue = Annotated[
    str,
    AfterValidator(check_label_value),
    WithJsonSchema({"type": "string", "maxLength": 63, "pattern": f"^({_NAME})?$"}),
]
Labels = Annotated[
    Mapping[str, LabelValue],
    Field(max_length=32),
    AfterValidator(_check_keys),
    ARE_KEYS,
    PlainSerializer(dict, return_type=dict[str, str]),
]
Annotations = Annotated[
    Mapping[str, Annotated[str, Field(max_length=4096)]],
    Field(max_length=32),
    AfterValidator(_check_keys),
    ARE_KEYS,
    PlainSerializer(dict, return_type=dict[str, str]),
]
