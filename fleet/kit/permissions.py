"""What the operator's owner lets apps bring along: images, places of backups, backups of other namespaces. Pure.

Who may make an app need not be one who may make pods or claims, and the operator does both for them. So by default an
app runs the engine's own images, keeps backups on claims of its namespace that are not named as the volume of a
StatefulSet's pod (of any engine, or of a database that fleet knows nothing of), and starts from backups of its
namespace. Patterns are a shell's: `*` is any number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fleet.errors import ConfigurationError
from fleet.kit.driver import Problem
from fleet.model.app_settings import NFS, S3, Backup, Claim, Restore, Store

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

    @classmethod
    def said(
        cls, images: Sequence[str], stores: Sequence[str], restores: Sequence[str], before: Permissions
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
        given = zip((images, stores, restores), (before.images, before.stores, before.restores), strict=True)
        return cls(*(tuple(one for one in now if one) if now else then for now, then in given))

    def image(self, image: str) -> Problem | None:
        """Say why an image that is not the engine's own is not run."""
        if _fits(image, self.images):
            return None
        return Problem(
            "image", f"{image} is none of the images that may be run here", f"{_ASK} --allow-image '{image}'"
        )

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
        ]
        return tuple(one for one in found if one is not None)


DEFAULT = Permissions()


def _fits(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
