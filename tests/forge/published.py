"""What GitHub publishes about itself, as npm packages: its API's description and examples of its webhooks.

Fetched once into the cache by npm, from wherever this machine's npm gets its packages, and locked by checksum.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.lab import paths


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    sha512: str  # as npm's lock files have it
    file: str = ""  # the one that is needed

    @property
    def kept(self) -> Path:
        return paths.cache() / "published" / f"{self.name.replace('/', '-').lstrip('@')}-{self.version}.json"


OPENAPI = Package(
    "@octokit/openapi",
    "23.0.2",
    "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    "package/generated/api.github.com.json",
)
WEBHOOKS = Package(
    "@octokit/webhooks-examples",
    "7.6.1",
    "De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
    "package/api.github.com/index.json",
)
GRAPHQL = Package(
    "@octokit/graphql-schema",
    "15.26.1",
    "RFDC2MpRBd4AxSRvUeBIVeBU7ojN/SxDfALUd7iVYOSeEK3gZaqR2MGOysj4Zh2xj2RY5fQAUT+Oqq7hWTraMA==",
    "package/schema.json",
)


@cache
def published(package: Package) -> Any:
    """The file of a package, as data. A damaged one is fetched again."""
    kept = package.kept
    mark = kept.with_suffix(".sha256")
    if not (kept.exists() and mark.exists() and _digest(kept.read_bytes()) == mark.read_text()):
        _fetch(package, kept, mark)
    return orjson.loads(kept.read_bytes())


def _fetch(package: Package, kept: Path, mark: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with archive(package) as files:
        member = files.extractfile(package.file)
        assert member
        content = member.read()
    mark.write_text(_digest(content))
    draft = kept.with_suffix(f".{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(kept)


@contextmanager
def archive(package: Package) -> Iterator[tarfile.TarFile]:
    """The package itself, once its checksum is right."""
    if not shutil.which("npm"):
        pytest.skip(f"{package.name} comes from npm, which is not installed")
    with tempfile.TemporaryDirectory() as directory:
        command = ["npm", "pack", f"{package.name}@{package.version}", "--pack-destination", directory, "--silent"]
        subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=directory)
        [made] = Path(directory).glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(made.read_bytes()).digest()).decode()
        assert found == package.sha512, f"{package.name} {package.version} is not what it was"
        with tarfile.open(made) as files:
            yield files


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
