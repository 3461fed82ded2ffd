"""Jars of images: which ones, by lock file, and where they come from.

A lock file says where each jar goes and the checksum that it must have. A line is `SHA256  DIRECTORY  PATH`, where PATH
is that of Maven's repositories: GROUP/ARTIFACT/VERSION/FILE. Jars come from Maven Central, or from the mirror of it
that this machine's Maven settings name.
"""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab.files import hash_file, write_file
from fleet.lab.images import store
from fleet.lab.images.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of an image."""

    sha256: str
    directory: str
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def lock_file(recipe: Recipe) -> Path:
    """Return the lock file of a recipe, whether it exists or not."""
    return Path(__file__).with_name("jar_locks") / f"{recipe.name}-{recipe.version}.lock"


def read_lock(recipe: Recipe) -> list[Jar]:
    """Return the jars of a recipe; none if it has no lock file.

    Raises ConfigurationError if the lock was made of other artifacts than the recipe names now.
    """
    file = lock_file(recipe)
    lines = file.read_text().splitlines() if file.exists() else []
    jars = [Jar(*line.split()) for line in lines]
    locked = {(jar.directory, jar.path) for jar in jars}
    for directory, artifacts in recipe.jars.items():
        for artifact in artifacts:
            if (directory, repository_path(artifact)) not in locked:
                raise ConfigurationError(
                    f"{file.name} does not have {artifact}, which the recipe of {recipe.name}:{recipe.version} names",
                    hint=f"run `python -m fleet.lab.images.jars_resolve {recipe.name}:{recipe.version}`",
                )
    return jars


def format_lock(jars: Iterable[Jar]) -> str:
    return "".join(f"{jar.sha256}  {jar.directory}  {jar.path}\n" for jar in jars)


def repository_path(artifact: str) -> str:
    """Return the path of the artifact `group:artifact:version` in a repository."""
    group, name, version = artifact.split(":")
    return f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"


CENTRAL = "https://repo1.maven.org/maven2"
TRIES = 3


def central_url() -> str:
    """Return the address of Maven Central for this user: its mirror, or that of everything, in ~/.m2/settings.xml."""
    try:
        settings = ElementTree.parse(Path.home() / ".m2" / "settings.xml")  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError):
        return CENTRAL
    for mirror in settings.iterfind("{*}mirrors/{*}mirror"):
        names = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
        if {"central", "*", "external:*"} & set(names) and "!central" not in names:
            return (mirror.findtext("{*}url") or CENTRAL).strip().rstrip("/")
    return CENTRAL


def fetch_jars(jars: list[Jar]) -> list[Path]:
    """Fetch jars into the cache, and return their files in the same order; each has the checksum of the lock."""
    base = central_url()
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda jar: _fetch_jar(base, jar), jars))


def _fetch_jar(base: str, jar: Jar) -> Path:
    """Return a jar's file in the cache; fetch it if it is missing or damaged."""
    target = store.jars_directory() / f"{jar.sha256}.jar"
    if target.exists() and hash_file(target) == jar.sha256:
        return store.mark_used(target)
    content = _download(f"{base}/{jar.path}")
    digest = hashlib.sha256(content).hexdigest()
    if digest != jar.sha256:
        raise ResourceError(
            f"{base}/{jar.path} is not the file that is locked: its SHA-256 is {digest}, not {jar.sha256}",
            hint="the repository gives another file under the same name; use one that is Maven Central's",
        )
    write_file(target, content)
    return target


def _download(url: str) -> bytes:
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 - http(s) of the user's settings
                content: bytes = response.read()
                return content
        except OSError as error:
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
            if is_final or attempt == TRIES:
                raise ResourceError(
                    f"{url} could not be fetched: {error}",
                    hint="Maven Central must be reachable, or a mirror of it named in ~/.m2/settings.xml",
                ) from error
        time.sleep(attempt)
    raise AssertionError(url)
