"""Objects and image of the operator.

The objects of an installed operator are in the order in which they are applied. Pure.

The images of the operator and of `fleet serve` are for users without a source tree: this release, as pip installs it.
operator/deploy/Dockerfile makes the same images from a clone. In both, dependencies are the files whose hashes are
locked: the release has the lock in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import ConfigurationError
from fleet.install import rights
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.render.crd import definitions
from fleet.render.operator_rights import OPERATOR, PART, SYSTEM, system_namespace
from fleet.version import __version__

Manifest = dict[str, Any]
MANAGER = "fleet-install"  # the field manager, and app.kubernetes.io/managed-by
VERSION = "fleet.dev/version"  # the annotation of a definition: the release that it is of
BUILT = "fleet.dev/built"  # of the pods: which content an image has, where its name stays the same
LABELS = {
    "app.kubernetes.io/name": OPERATOR,
    **PART,
    "app.kubernetes.io/managed-by": MANAGER,
}
SELECTOR = {"app.kubernetes.io/name": OPERATOR}
USER = 65532
PORT = 8080
ENGINE = "--image="  # the operator's flag for the image of an engine
ALLOW = {
    "images": "--allow-image=",
    "stores": "--allow-store=",
    "restores": "--allow-restore=",
    "services": "--allow-service=",
}  # by field of Permissions


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """The settings of an installation that a user decides."""

    image: str
    engine_images: Mapping[str, str] = field(
        default_factory=dict
    )  # engine → image with {version}, {series} or {tag} in it
    replicas: int = 1
    allowed: Permissions = DEFAULT
    built: str = ""


def manifests(settings: InstallOptions) -> list[Manifest]:
    everywhere, in_namespaces, at_home = rights.cluster_role(), rights.apps_role(), rights.lease_role()
    objects = [
        *(_add_version(definition) for definition in definitions().values()),
        system_namespace(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OPERATOR, "namespace": SYSTEM}},
        everywhere,
        rights.bind_role(everywhere),
        *rights.member_roles(),
        in_namespaces,
        rights.people_role(),
        at_home,
        rights.bind_role(at_home),
        *([budget()] if settings.replicas > 1 else []),
        deployment(settings),
    ]
    return [_add_labels(obj) for obj in objects]


def budget() -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": OPERATOR, "namespace": SYSTEM},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}},
    }


def deployment(settings: InstallOptions) -> Manifest:
    labels = {**SELECTOR, **PART}
    metadata: Manifest = {"labels": labels}
    if settings.built:
        metadata["annotations"] = {BUILT: settings.built}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OPERATOR, "namespace": SYSTEM, "labels": {"app.kubernetes.io/version": __version__}},
        "spec": {
            "replicas": settings.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": SELECTOR},
            "template": {"metadata": metadata, "spec": _pod(settings)},
        },
    }


def _pod(settings: InstallOptions) -> Manifest:
    return {
        "serviceAccountName": OPERATOR,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": SELECTOR},
            }
        ],
        "containers": [
            {
                "name": "operator",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-P", "-m", "fleet_operator", "run"],
                "args": [
                    f"--metrics=:{PORT}",
                    *(f"{ENGINE}{engine}={image}" for engine, image in sorted(settings.engine_images.items())),
                    *(
                        f"{flag}{argument}"
                        for field, flag in ALLOW.items()
                        for argument in getattr(settings.allowed, field)
                    ),
                ],
                "env": [{"name": "FLEET_OPERATOR_IMAGE", "value": settings.image}],  # pods of backups run it too
                "ports": [{"name": "metrics", "containerPort": PORT}],
                "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
                "readinessProbe": _probe("/readyz", periodSeconds=2),
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }


def _probe(path: str, **times: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5, **times}


def settings_of(deployment: Manifest) -> InstallOptions:
    """Return what an installed operator was told, so that the next installation need not be told again."""
    spec = deployment["spec"]
    container = spec["template"]["spec"]["containers"][0]
    pairs = (argument.partition("=") for argument in _arguments_of(container, ENGINE))
    return InstallOptions(
        image=container["image"],
        engine_images={engine: image for engine, _, image in pairs},
        replicas=int(spec.get("replicas", 1)),
        allowed=Permissions(**{field: tuple(_arguments_of(container, flag)) for field, flag in ALLOW.items()}),
    )


def _arguments_of(container: Manifest, flag: str) -> list[str]:
    return [argument.removeprefix(flag) for argument in container.get("args", ()) if argument.startswith(flag)]


def _add_version(definition: Manifest) -> Manifest:
    metadata = {**definition["metadata"], "annotations": {VERSION: __version__}}
    return {**definition, "metadata": metadata}


def _add_labels(manifest: Manifest) -> Manifest:
    if manifest["kind"] in ("CustomResourceDefinition", "Namespace"):  # others make the same, with the same labels
        return manifest
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**LABELS, **metadata.get("labels", {})}}}


LOCK = "fleet/requirements.lock"  # in the package
_BUILD = """\
# The images of fleet {version}, from the released package:
#   fleet operator dockerfile | docker build -t REGISTRY/fleet-operator:{version} -
#   fleet operator dockerfile | docker build --target serve -t REGISTRY/fleet-serve:{version} -
FROM python:3.13-slim AS build
RUN pip download --no-cache-dir --no-deps --only-binary :all: --dest /tmp/fleet fleet-gitops=={version}
RUN python -P -m zipfile -e /tmp/fleet/*.whl /tmp/wheel
RUN pip download --no-cache-dir --require-hashes --only-binary :all: --dest /tmp/locked --requirement /tmp/wheel/{lock}
RUN pip install --no-cache-dir --no-index --find-links /tmp/locked --target /opt/fleet /tmp/fleet/*.whl
"""
STAGES = """\

FROM python:3.13-slim AS base
COPY --from=build /opt/fleet /opt/fleet
ENV PYTHONPATH=/opt/fleet PYTHONDONTWRITEBYTECODE=1

FROM base AS serve
RUN apt-get update && apt-get install --no-install-recommends --yes git openssh-client && rm -rf /var/lib/apt/lists/*
USER 65532:65532
ENTRYPOINT ["python3", "-P", "-m", "fleet", "serve"]

FROM base
USER 65532:65532
ENTRYPOINT ["python3", "-P", "-m", "fleet_operator"]
CMD ["run"]
"""


_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}==[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}")
_WHEEL = re.compile(r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._+/-]{1,250}\.whl")
_TYPES = "/tmp/types"  # noqa: S108 - in the image that is built
# It fails for an app type that cannot be loaded.
_CHECK = "RUN PYTHONPATH=/opt/fleet python -P -m fleet crds > /dev/null\n"


def dockerfile(packages: Sequence[str] = ()) -> str:
    """Return the Dockerfile of the operator and of `fleet serve`.

    Each of the `packages` is a release such as "fleet-nats==1.2", or the file of a wheel, below the directory that is
    given to docker. Raise ConfigurationError for anything else.
    """
    if not packages:
        return _BUILD.format(version=__version__, lock=LOCK) + STAGES
    return _BUILD.format(version=__version__, lock=LOCK) + _install_types(packages) + STAGES


def _install_types(packages: Sequence[str]) -> str:
    """Return the lines that install packages of app types beside fleet, and see whether they can be loaded.

    Nothing that they depend on comes with them: it might be another version of what fleet's own lock names.
    """
    lines, targets = ["# App types of other packages; what they need beside fleet is named like them."], []
    for package in packages:
        if _WHEEL.fullmatch(package):
            name = package.rpartition("/")[2]
            lines.append(f"COPY {package} {_TYPES}/{name}")
            targets.append(f"{_TYPES}/{name}")
        elif _RELEASE.fullmatch(package):
            targets.append(package)
        else:
            raise ConfigurationError(
                f"{package!r} is neither one release of a package nor the file of a wheel",
                hint="such as fleet-nats==1.2, or dist/fleet_nats-1.2-py3-none-any.whl below the directory"
                " that docker is given",
                field="--with",
            )
    lines.append(
        f"RUN pip install --no-cache-dir --no-deps --only-binary :all: --target /opt/fleet {' '.join(targets)}"
    )
    return "\n".join(lines) + "\n" + _CHECK
