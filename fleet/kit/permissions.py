"""What the operator's owner lets apps bring along: images, places of backups, backups of other namespaces. Pure.

Who may make an app need not be one who may make pods or claims, and the operator does both for them. So by default an
app runs the engine's own images, keeps backups on claims of its namespace that are not named as the volume of a
StatefulSet's pod (of any engine, or of a database that fleet knows nothing of), and starts from backups of its
namespace. Patterns are a shell's: `*` is any number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from typing import Any

from fleet.errors import ConfigurationError
from fleet.kit.driver import Problem
from fleet.model.app_settings import NFS, S3, Backup, Claim, Restore, Store
from fleet.model.labels import is_own_service_annotation
from fleet.model.network_settings import Expose, exposure_of, metrics_of
from fleet.model.pod_settings import pods_of_app

CLAIMS = ("claim/*",)
_VOLUME = re.compile(r".+-.+-[0-9]+")  # TEMPLATE-SET-N, as StatefulSets name the claims of their pods
_ASK = "whoever installed the operator allows it with: fleet operator install"


def place(store: Store) -> str:
    """Name a place in words: "claim/backups/orders", "nfs://server/exports", "s3://bucket/orders",
    "https://server/bucket/orders"."""
    match store:
        case Claim(claim=name, folder=folder):
            return f"claim/{name}/{folder}" if folder else f"claim/{name}"
        case NFS(server=server, path=path):
            return f"nfs://{server}{path}".rstrip("/")
        case S3(endpoint=endpoint, place=folder):
            return f"{endpoint.rstrip('/')}/{folder}" if endpoint else f"s3://{folder}"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Patterns, each kind in place of its default."""

    images: tuple[str, ...] = ()  # beside the engine's own
    stores: tuple[str, ...] = ()  # of `place`; claims of the namespace unless given
    restores: tuple[str, ...] = ()  # of namespaces beside the app's own
    services: tuple[str, ...] = ()  # of types that lead out of the cluster: NodePort, LoadBalancer

    @classmethod
    def said(
        cls,
        images: Sequence[str],
        stores: Sequence[str],
        restores: Sequence[str],
        before: Permissions,
        services: Sequence[str] = (),
    ) -> Permissions:
        """Return permissions as they were `before` where nothing is said; an empty pattern is the default again.
        ConfigurationError for a place that is none."""
        for one in stores:
            if one and not re.match(r"claim/.|nfs://.|s3://.|https?://.|\*", one):
                raise ConfigurationError(
                    f"{one!r} is no pattern of places",
                    hint="write 'claim/NAME', 'nfs://SERVER/PATH', 's3://BUCKET/FOLDER' or 'https://SERVER/BUCKET/FOLDER',"
                    " with * for any characters",
                    field="--allow-store",
                )
        given = zip((images, stores, restores, services), astuple(before), strict=True)
        return cls(*(tuple(one for one in now if one) if now else then for now, then in given))

    def image(self, image: str, field: str = "image") -> Problem | None:
        """Say why an image that is not the engine's own is not run."""
        if _fits(image, self.images):
            return None
        return Problem(field, f"{image} is none of the images that may be run here", f"{_ASK} --allow-image '{image}'")

    def store(self, field: str, store: Store) -> Problem | None:
        """Say why backups are neither written to a place nor read from it."""
        where = place(store)
        if self.stores:
            if _fits(where, self.stores) or (isinstance(store, Claim) and _fits(f"claim/{store.claim}", self.stores)):
                return None
        elif isinstance(store, Claim) and not _VOLUME.fullmatch(store.claim):
            return None
        elif isinstance(store, Claim):
            return Problem(
                field,
                f"{where} is named as the volume of a StatefulSet's pod",
                f"name a claim that is for backups, or {_ASK} --allow-store '{where}'",
            )
        return Problem(field, f"{where} is none of the places that may be used here", f"{_ASK} --allow-store '{where}'")

    def service(self, expose: Expose) -> Problem | None:
        """Say why an app is not opened to more than its cluster."""
        if expose.type == "ClusterIP" or _fits(expose.type, self.services):
            return None
        opens = "an app is opened to more than the cluster"
        return Problem(
            "expose.type", f"{expose.type}: {opens} only where that is allowed", f"{_ASK} --allow-service {expose.type}"
        )

    def problems(self, app: Any, own: Sequence[str]) -> tuple[Problem, ...]:
        """Return all that is not allowed of an app; `own` are the images that need no word: the engine's, and those it
        has."""
        image: str | None = getattr(app, "image", None)
        backup: Backup | None = getattr(app, "backup", None)
        restore: Restore | None = getattr(app, "restore_from", None)
        found = [
            self.image(image) if image and image not in own else None,
            self.store("backup.to", backup.to) if backup else None,
            self.store("restore_from.source", restore.source) if restore else None,
            self.service(exposure_of(app)),
            *_own_annotations("expose", exposure_of(app).annotations),
            *_own_annotations("metrics", metrics_of(app).annotations),
            *(self.image(sidecar.image, "pods.sidecars") for sidecar in pods_of_app(app).sidecars),
        ]
        return tuple(one for one in found if one is not None)


def _own_annotations(field: str, names: Iterable[str]) -> Iterator[Problem]:
    for name in filter(is_own_service_annotation, names):
        yield Problem(f"{field}.annotations", f"{name} is for fleet or Kubernetes to write", "leave it out")


DEFAULT = Permissions()


def _fits(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
