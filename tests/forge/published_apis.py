"""What forges publish about themselves: descriptions of their APIs, and examples of their webhooks.

GitHub's are npm packages, GitLab's is the Go module of its client. Fetched once into the cache by npm and Go, from
wherever those of this machine get theirs, and locked by checksum.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.lab import files
from fleet.lab.programs import build


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    sha512: str  # as npm's lock files have it
    file: str = ""  # the one that is needed

    @property
    def content(self) -> bytes:
        with archive(self) as files:
            member = files.extractfile(self.file)
            assert member
            return member.read()


@dataclass(frozen=True, slots=True)
class Module:
    """Of Go. What is needed of it are texts, by their paths."""

    name: str
    version: str
    h1: str  # as go.sum has it
    files: str  # a pattern of the paths that are needed

    @property
    def content(self) -> bytes:
        above = f"{self.name}@{self.version}/"
        files = {name.removeprefix(above): content for name, content in self._all().items()}
        return orjson.dumps({name: files[name].decode() for name in files if re.fullmatch(self.files, name)})

    def _all(self) -> dict[str, bytes]:
        """All of it, once its checksum is right. That is ours, so Go need not ask for another."""
        command: list[str | Path] = [build.find_go(), "mod", "download", "-json", f"{self.name}@{self.version}"]
        environment = {**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local", "GOSUMDB": "off"}
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=directory, env=environment)
        with zipfile.ZipFile(orjson.loads(done.stdout)["Zip"]) as archived:
            files = {name: archived.read(name) for name in archived.namelist()}
        lines = "".join(f"{_digest(files[name])}  {name}\n" for name in sorted(files))
        found = base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()
        assert found == self.h1, f"{self.name} {self.version} is not what it was"
        return files


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
GITLAB = Module(
    "gitlab.com/gitlab-org/api/client-go",
    "v1.46.0",
    "YxBWFZIFYKcGESCb9fpkwzouo+apyB9pr/XTWzNoL24=",
    r"\w+(?<!_test)\.go|testdata/.+\.json",
)


@cache
def published(package: Package | Module) -> Any:
    """What is needed of a package, as data. What is damaged is fetched again."""
    name = f"{package.name.replace('/', '-').lstrip('@')}-{package.version}"
    kept = files.cache_directory() / "published" / f"{name}.json"
    mark = kept.with_suffix(".sha256")
    if not (kept.exists() and mark.exists() and _digest(kept.read_bytes()) == mark.read_text()):
        _fetch(package, kept, mark)
    return orjson.loads(kept.read_bytes())


def _fetch(package: Package | Module, kept: Path, mark: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    content = package.content
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
